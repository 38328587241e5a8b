package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/assign"
	"proxima/node/netsim"
	"proxima/node/view"
	"proxima/node/wire"
)

// longSince makes grantor k of all servers, which has been here for long and sees node a.
func longSince(deps GrantorDeps) *Grantor {
	deps.Clock, deps.Boot = NewClock(nil), 1
	g := NewGrantor(Default(), deps)
	g.SetView(view.View{Self: "k", Alive: []string{"a", "k"}, Settled: []string{"k"}, Majority: true})
	g.grants.history.Begin(time.Now().Add(-time.Hour))
	return g
}

// An item that cannot be meant is refused and counted, and those beside it are answered. So is one too many. What is too long or negative of a
// wait counts as the most, or nothing.
func TestWhatAnItemMaySay(t *testing.T) {
	shelf := new(netsim.Shelf)
	g := longSince(GrantorDeps{Shelf: shelf})
	for what, c := range map[string]struct {
		change func(i *wire.LeaseItem)
		wait   time.Duration
		ok     bool
	}{
		"nothing wrong":        {func(*wire.LeaseItem) {}, 5 * time.Millisecond, true},
		"a negative wait":      {func(i *wire.LeaseItem) { i.WaitMs = -5 }, 0, true},
		"a wait of over a day": {func(i *wire.LeaseItem) { i.WaitMs = maxWait.Milliseconds() + 1 }, maxWait, true},
		"a short address":      {func(i *wire.LeaseItem) { i.Server = []byte{1, 2, 3} }, 0, false},
		"no address":           {func(i *wire.LeaseItem) { i.Server = nil }, 0, false},
		"no machine":           {func(i *wire.LeaseItem) { i.Server = []byte{0, 0, 0, 0} }, 0, false},
		"another name of it":   {func(i *wire.LeaseItem) { i.Server = []byte{10: 0xff, 0xff, 1, 2, 3, 4} }, 0, false},
		"no wish":              {func(i *wire.LeaseItem) { i.Wish = 0 }, 0, false},
		"an unknown wish":      {func(i *wire.LeaseItem) { i.Wish = 9 }, 0, false},
		"no memory":            {func(i *wire.LeaseItem) { i.Memory = []byte("rubbish") }, 0, false},
		"a large memory":       {func(i *wire.LeaseItem) { i.Memory = make([]byte, 1<<20) }, 0, false},
		"nothing at all":       {func(i *wire.LeaseItem) { proto.Reset(i) }, 0, false},
	} {
		item := &wire.LeaseItem{Server: server(1).AsSlice(), Wish: release, Successor: "a", WaitMs: 5}
		c.change(item)
		want := request{from: "a", boot: 1, id: 2, addr: server(1), wish: release, wait: c.wait, successor: "a"}
		if r, ok := readItem("a", &wire.Header{Boot: 1, Id: 2}, item, time.Unix(1e9, 0)); ok != c.ok || ok && r != want {
			t.Errorf("%s: read %v, %+v", what, ok, r)
		}
		bad := g.Status().Bad
		resp, err := g.Lease(t.Context(), "a", &wire.LeaseRequest{Items: []*wire.LeaseItem{item, {Server: server(1).AsSlice(), Wish: acquire}}})
		if err != nil || (resp.Answers[0].Grant == given) != c.ok || resp.Answers[1].Grant != given || (g.Status().Bad > bad) == c.ok {
			t.Errorf("%s: answered %v, %v", what, resp, err)
		}
	}
	many := &wire.LeaseRequest{}
	for range maxItems + 1 {
		many.Items = append(many.Items, &wire.LeaseItem{Server: server(1).AsSlice(), Wish: acquire})
	}
	if resp, err := g.Lease(t.Context(), "a", many); err != nil || resp.Answers[maxItems].Grant != 0 || resp.Answers[maxItems-1].Grant != given {
		t.Errorf("an endless message: %v", err)
	}
	if shelf.Len() != 0 {
		t.Error("rubbish was stored")
	}
}

// A grantor whose disk fails reports that, and grants nevertheless.
func TestDiskThatFails(t *testing.T) {
	var troubles []string
	g := longSince(GrantorDeps{Shelf: failing(new(netsim.Shelf)), Trouble: func(err error) { troubles = append(troubles, err.Error()) }})
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
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(over); err != nil { // it looks for old memories first
		t.Error(err)
	}
	want := []string{"read memory of server 192.0.0.1: disk full", "store memory of server 192.0.0.1: disk full", "sweep memories of servers: disk full"}
	if !slices.Equal(troubles, want) {
		t.Errorf("heard of %q, want %q", troubles, want)
	}
}

// Entries without a holder are dropped with the first request after ten seconds. A grant that is over does not count even before.
func TestEntriesWithoutAHolderAreDropped(t *testing.T) {
	g, begin := longSince(GrantorDeps{}), time.Now()
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
	over := begin.Add(10*time.Second + g.cfg.Window())
	if before, then := g.grants.granted(over.Add(-1)), g.grants.granted(over); before != 1 || then != 0 {
		t.Errorf("%d servers are granted just before the last grant is over, and %d then, although nobody asks", before, then)
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
