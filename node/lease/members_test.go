package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// A dead member has no leases left after a window, even if this node has never seen it alive. It is remembered while it is still settled:
// otherwise the next view would take it for a member that has just gone. Nodes compare digests of their members, so these are in order.
func TestDeadMemberStaysOver(t *testing.T) {
	const window = 30 * time.Second
	for what, dead := range map[string]view.View{
		"unheard":             {Alive: []string{"b"}, Settled: []string{"b"}},
		"settled":             {Alive: []string{"b"}, Settled: []string{"a", "b"}},
		"missing":             {Alive: []string{"b"}, Absent: []string{"a"}, Settled: []string{"b"}},
		"never seen, settled": {Alive: []string{"b"}, Settled: []string{"a", "b"}},
		"never seen, missing": {Alive: []string{"b"}, Absent: []string{"a"}, Settled: []string{"b"}},
	} {
		now := time.Unix(1_000_000, 0)
		m := newMembers(window)
		if !strings.HasPrefix(what, "never seen") {
			m.set(view.View{Alive: []string{"a", "b"}, Settled: []string{"a", "b"}}, now)
		}
		for age := time.Duration(0); age < 3*window; age += window / 6 {
			m.set(dead, now.Add(age))
			want := []string{"a", "b"}
			if age >= window {
				want = want[1:]
			}
			if got := m.all(now.Add(age)); !slices.Equal(got, want) {
				t.Errorf("%s, dead for %v: %q may have rights, want %q", what, age, got, want)
			}
		}
	}
}

// An earlier life is refused, unless the later one was not heard of for a window: a node that has lost its disk numbers its lives from the
// start.
func TestLivesAreForgotten(t *testing.T) {
	const window = 30 * time.Second
	now, l := time.Unix(1_000_000, 0), lives{}
	for i, step := range []struct {
		after time.Duration
		boot  uint64
		want  bool
	}{{0, 5, true}, {20 * time.Second, 4, false}, {20 * time.Second, 5, true}, {49 * time.Second, 4, false}, {50 * time.Second, 1, true}, {51 * time.Second, 1, true}} {
		if got := l.hear("a", step.boot, now.Add(step.after), window); got != step.want {
			t.Errorf("step %d: life %d is heard: %v", i, step.boot, got)
		}
	}
}

// A peer may name any ids in its inquiries and send from many. Only those of members are remembered, and none for ever.
func TestLivesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHolder(Default(), new(stub).deps(NewClock(nil)))
		v := view.View{Self: "a", Settled: []string{"k"}, Alive: []string{"a", "k", "x"}, Majority: true}
		h.SetView(v)
		v.Alive = v.Alive[:2]
		h.SetView(v) // x has just gone
		req := &wire.RightsRequest{Lives: []*wire.Life{{Id: "x", Boot: 2}}}
		for i := range 100 {
			req.Lives = append(req.Lives, &wire.Life{Id: fmt.Sprint("made up ", i), Boot: 1})
		}
		if _, err := h.Rights(t.Context(), "k", req); err != nil {
			t.Fatal(err)
		}
		if len(h.lives) != 1 || h.FromLife("x", 1, func() {}) {
			t.Errorf("%d lives are remembered", len(h.lives))
		}
		l := newGrants(&h.cfg, 1)
		l.setView(view.View{Self: "k", Settled: []string{"k"}, Alive: []string{"k"}, Majority: true}, time.Now())
		for i := range 100 {
			l.answer(request{from: fmt.Sprint("node ", i), wish: wire.Wish_WISH_RELEASE, addr: server(1)}, time.Now())
			h.FromLife(fmt.Sprint("node ", i), 1, func() {})
		}
		for _, c := range []struct {
			pass time.Duration
			left int
		}{{h.cfg.Window() - 1, 201}, {1, 0}} {
			time.Sleep(c.pass)
			l.prune(time.Now())
			h.SetView(v)
			if n := len(l.lives) + len(h.lives); n != c.left {
				t.Errorf("%d lives are remembered, want %d", n, c.left)
			}
		}
	})
}
