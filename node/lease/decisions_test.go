package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node/netsim"
	"proxima/node/view"
	"proxima/node/wire"
)

// TestDecisions checks what a grantor answers node a in each state of a server: the answer, who has the server then, when to ask again, and
// whether it asks the members. The answer is counted under its name; other counts are named.
func TestDecisions(t *testing.T) {
	sees := func(d *desk, v view.View) { v.Self = "k"; d.setView(v, d.now) }
	former := func(d *desk) { d.send(request{from: "a", addr: server(1), wish: acquire}, given, "a") } // boot 0
	states := map[string]func(d *desk){
		"free":                          func(*desk) {},
		"held by a":                     func(d *desk) { d.ask("a", acquire, given, "a") },
		"held by b":                     func(d *desk) { d.ask("b", acquire, given, "b") },
		"reserved for a":                func(d *desk) { d.reserve("a") },
		"reserved for b":                func(d *desk) { d.reserve("b") },
		"held by a, in its former life": former,
		"the same, and all have said what they do for it": func(d *desk) { former(d); d.known["a"] = 1 },
		"being asked for a, in its former life": func(d *desk) {
			d.entries[server(1)] = &grant{remote: d.now.Add(20 * time.Second)}
		},
		"of another grantor": func(d *desk) {
			sees(d, view.View{Alive: everyone, Settled: []string{"o"}, Majority: true})
		},
		"in a minority": func(d *desk) { sees(d, view.View{Alive: everyone, Settled: []string{"k"}}) },
		"a is not alive": func(d *desk) {
			sees(d, view.View{Alive: []string{"k"}, Settled: []string{"k"}, Majority: true})
		},
		"a later life of a is known": func(d *desk) { d.lives.hear("a", 2, d.now, d.cfg.Window()) },
		"there are too many":         func(d *desk) { d.most = 0 },
	}
	// The grantor does not know what was granted before this life.
	young := map[string]func(d *desk){
		"unknown": func(*desk) {},
		"unknown, and a member is gone": func(d *desk) {
			sees(d, view.View{Alive: everyone, Settled: []string{"k"}, Absent: []string{"z"}, Majority: true})
		},
		"claimed by a": func(d *desk) { d.ask("a", renew, given, "a") },
		"claimed by b": func(d *desk) { d.ask("b", renew, given, "b") },
	}
	for _, c := range []struct{ state, acquire, renew, release string }{
		{"free",
			"given for 1m0s; a's", "later in 500ms", "given, not counted"},
		{"unknown",
			"later in 500ms, asks", "given for 1m0s; a's", "given, not counted"},
		{"unknown, and a member is gone",
			"later in 1m30s, asks", "given for 1m0s; a's", "given, not counted"},
		{"held by a",
			"given for 1m0s; a's", "given for 1m0s; a's", "given"},
		{"held by b",
			"held in 5s; b's", "held in 5s; b's", "held in 5s; b's"},
		{"claimed by a",
			"later in 500ms, asks; a's", "given for 1m0s; a's", "given"},
		{"claimed by b",
			"held in 5s; b's", "held in 5s; b's", "held in 5s; b's"},
		{"reserved for a",
			"given for 1m0s; a's", "later in 500ms; for a", "given, not counted; for a"},
		{"reserved for b",
			"held in 5s; for b", "later in 500ms; for b", "given, not counted; for b"},
		{"held by a, in its former life",
			"later in 500ms, asks; a's", "later in 500ms, asks; a's", "later in 500ms, asks; a's"},
		{"the same, and all have said what they do for it",
			"given for 1m0s; a's", "later in 500ms", "given, not counted"},
		{"being asked for a, in its former life",
			"later in 20s", "later in 500ms", "given, not counted"},
		{"of another grantor",
			"elsewhere", "elsewhere", "elsewhere"},
		{"in a minority",
			"later in 500ms", "later in 500ms", "later in 500ms"},
		{"a is not alive",
			"later in 500ms", "later in 500ms", "given, not counted"},
		{"a later life of a is known",
			"later in 500ms, stale", "later in 500ms, stale", "later in 500ms, stale"},
		{"there are too many",
			"later in 7.5s", "later in 500ms", "given, not counted"},
	} {
		for wish, want := range map[wire.Wish]string{acquire: c.acquire, renew: c.renew, release: c.release} {
			begin, old := states[c.state]
			if !old {
				begin = young[c.state]
			}
			d := newDesk(t, old)
			begin(d)
			d.prune(d.now) // changes no answer
			before := d.counts
			d.ids["a"]++
			a := d.answer(request{from: "a", boot: 1, id: d.ids["a"], addr: server(1), wish: wish}, d.now)
			word := strings.ToLower(strings.TrimPrefix(a.GetGrant().String(), "GRANT_"))
			if got := word + d.after(a, before); got != want {
				t.Errorf("%s, %v: %s, want %s", c.state, wish, got, want)
			}
		}
	}
}

// reserve makes c give the server back for a successor.
func (d *desk) reserve(successor string) {
	d.ask("c", acquire, given, "c")
	d.ids["c"]++
	d.send(request{from: "c", boot: 1, id: d.ids["c"], addr: server(1), wish: release, successor: successor}, given, "")
}

// after describes an answer, and what has changed by it.
func (d *desk) after(a *wire.LeaseAnswer, before GrantorStatus) string {
	var s strings.Builder
	if a.GetForMs() > 0 {
		fmt.Fprintf(&s, " for %v", ms(a.GetForMs()))
	}
	if a.GetRetryMs() > 0 {
		fmt.Fprintf(&s, " in %v", ms(a.GetRetryMs()))
	}
	if d.grants.ask {
		s.WriteString(", asks")
	}
	now, usual := d.counts, before
	switch a.GetGrant() {
	case given:
		usual.Given++
	case held:
		usual.Refused++
	case later:
		usual.Later++
	case elsewhere:
		usual.Elsewhere++
	}
	if now.Stale > before.Stale {
		s.WriteString(", stale")
		usual.Stale++
	}
	if now == before {
		s.WriteString(", not counted")
	} else if now != usual {
		fmt.Fprintf(&s, ", counted as %+v", now)
	}
	if n := d.entries[server(1)]; n != nil && d.granted(d.now) == 1 {
		fmt.Fprintf(&s, "; %s's", n.holder)
	} else if n != nil && n.successor != "" {
		fmt.Fprintf(&s, "; for %s", n.successor)
	}
	return s.String()
}

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
