package lease

import (
	"errors"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node/netsim"
	"proxima/node/view"
	"proxima/node/wire"
)

// A server is left alone for a day at most.
func TestItemsAtTheirBounds(t *testing.T) {
	for waitMs, wait := range map[int64]time.Duration{5: 5 * time.Millisecond, -5: 0, maxWait.Milliseconds() + 1: maxWait} {
		item := &wire.LeaseItem{Server: server(1).AsSlice(), Wish: release, Successor: "s", WaitMs: waitMs}
		r, ok := readItem("a", &wire.Header{Boot: 1, Id: 2}, item, time.Unix(1e9, 0))
		if want := (request{from: "a", boot: 1, id: 2, addr: server(1), wish: release, wait: wait, successor: "s"}); !ok || r != want {
			t.Errorf("a wait of %d ms: %v, %+v", waitMs, ok, r)
		}
	}
}

// A grantor whose disk fails reports that, and grants nevertheless.
func TestDiskThatFails(t *testing.T) {
	var troubles []string
	g := NewGrantor(Default(), GrantorDeps{Clock: NewClock(nil), Boot: 1, Shelf: failing(new(netsim.Shelf)), Trouble: func(err error) { troubles = append(troubles, err.Error()) }})
	g.SetView(view.View{Self: "k", Alive: []string{"a", "k"}, Settled: []string{"k"}, Majority: true})
	g.grants.history.Begin(time.Now().Add(-time.Hour)) // it has been the grantor for long
	memory := (&assign.Memory{}).AppendBinary(nil, time.Now())
	for i, item := range []*wire.LeaseItem{
		{Server: server(1).AsSlice(), Wish: acquire}, {Server: server(1).AsSlice(), Wish: renew, Memory: memory},
		{Server: server(1).AsSlice(), Wish: renew},
	} {
		resp, err := g.Lease(t.Context(), "a", &wire.LeaseRequest{Header: &wire.Header{Boot: 1, Id: uint64(i)}, Items: []*wire.LeaseItem{item}})
		if err != nil || resp.Answers[0].GetGrant() != given {
			t.Errorf("item %d: %v, %v", i, resp, err)
		}
	}
	// What does not come from the holder is neither stored nor answered.
	for id, item := range []*wire.LeaseItem{{Server: server(1).AsSlice(), Wish: acquire}, {Server: server(1).AsSlice(), Wish: renew, Memory: memory}} {
		resp, err := g.Lease(t.Context(), "k", &wire.LeaseRequest{Header: &wire.Header{Boot: 1, Id: uint64(id)}, Items: []*wire.LeaseItem{item}})
		if err != nil || resp.Answers[0].GetGrant() != held {
			t.Errorf("%v, %v", resp, err)
		}
	}
	want := []string{"read memory of server 192.0.0.1: disk full", "store memory of server 192.0.0.1: disk full"}
	if !slices.Equal(troubles, want) {
		t.Errorf("heard of %q, want %q", troubles, want)
	}
}

// Entries without a holder are dropped with the first request after ten seconds.
func TestEntriesWithoutAHolderAreDropped(t *testing.T) {
	g := NewGrantor(Default(), GrantorDeps{Clock: NewClock(nil), Boot: 1})
	g.SetView(view.View{Self: "k", Alive: []string{"a", "k"}, Settled: []string{"k"}, Majority: true})
	begin := time.Now()
	g.grants.history.Begin(begin.Add(-time.Hour)) // it has been here for long
	for id, c := range []struct {
		after time.Duration
		to    int
		wish  wire.Wish
		want  int
		now   int // granted
	}{
		{0, 1, acquire, 1, 1}, {0, 2, acquire, 2, 2}, {time.Second, 1, release, 2, 1},
		{10*time.Second - 1, 2, renew, 2, 1}, {10 * time.Second, 2, renew, 1, 1},
	} {
		r := request{from: "a", boot: 1, id: uint64(id), addr: server(c.to), wish: c.wish}
		if a := g.answer(r, true, begin.Add(c.after)); a.GetGrant() != given || len(g.grants.entries) != c.want || g.Status().Granted != c.now {
			t.Errorf("%+v: answered %v, and there are %d entries, %d granted", c, a, len(g.grants.entries), g.Status().Granted)
		}
	}
}

var errFull = errors.New("disk full")

// failing makes a Shelf fail from now on, in all steps or in those that are named.
func failing(s *netsim.Shelf, steps ...string) *netsim.Shelf {
	s.Before = func(step string) error {
		if len(steps) > 0 && !slices.Contains(steps, step) {
			return nil
		}
		return errFull
	}
	return s
}
