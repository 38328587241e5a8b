package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/wire"
)

// A grantor that was frozen for longer than a window, and whose view has not changed, does not grant what its successor has granted
// meanwhile.
func TestFrozenGrantor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		addr := grantedBy(t, ids[2], ids)
		rest := ids[:2]
		all[2].freeze()
		time.Sleep(w.cfg.Skew)
		for _, n := range all[:2] {
			n.see(rest, true) // the frozen one is gone
		}
		time.Sleep(w.cfg.Window())
		all[0].want(true, addr)
		for !all[0].has(addr) {
			time.Sleep(100 * time.Millisecond)
		}
		all[2].want(true, addr) // it was wanted before
		all[2].thaw()
		for range 100 {
			if who := w.askers(addr); !slices.Equal(who, ids[:1]) {
				t.Fatalf("%v may ask", who)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// After a gap no request is sent, even before the gap is noticed, until the grantor has renewed the lease. Requests that were under way
// during a gap shorter than the lease may finish. Under a lease that is over by one clock, or may be, they are broken off.
func TestGaps(t *testing.T) {
	for name, c := range map[string]struct {
		happen func(n *fakeNode, lease time.Duration)
		goesOn bool
	}{
		"frozen":       {func(n *fakeNode, d time.Duration) { n.freeze(); time.Sleep(d / 6); n.thaw() }, true},
		"frozen long":  {func(n *fakeNode, d time.Duration) { n.freeze(); time.Sleep(2 * d); n.thaw() }, false},
		"slept":        {func(n *fakeNode, d time.Duration) { n.setClock(d / 6) }, false},
		"slept, a bit": {func(n *fakeNode, _ time.Duration) { n.setClock(2 * time.Second) }, false},
		"set back":     {func(n *fakeNode, d time.Duration) { n.setClock(-d / 6) }, false},
	} {
		for _, cut := range []bool{false, true} { // off from its grantor
			t.Run(fmt.Sprintf("%s, cut off %v", name, cut), func(t *testing.T) {
				bubble(t, 2, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
					addr := grantedBy(t, ids[1], ids)
					n := all[0]
					n.want(true, addr)
					time.Sleep(2 * time.Second)
					if err := n.holder.MayAsk(addr); err != nil {
						t.Fatal(err)
					}
					n.set(addr, func(s *Server) { s.InFlight = 1 })
					if cut {
						w.part(ids[0], ids[1])
					}
					c.happen(n, w.cfg.Time)
					if err := n.holder.MayAsk(addr); !errors.Is(err, ErrGap) {
						t.Errorf("at once: %v", err)
					}
					if until := n.holder.Until(addr); time.Until(until) > 0 {
						t.Error("it may still be handed on")
					}
					time.Sleep(5 * time.Second)
					if on := n.goesOn(addr); cut && on != c.goesOn {
						t.Errorf("the request goes on: %v", on)
					}
					if err := n.holder.MayAsk(addr); (err != nil) != cut {
						t.Errorf("later: %v", err)
					}
					w.heal()
					time.Sleep(w.cfg.retryMax() * 2)
					if err := n.holder.MayAsk(addr); err != nil {
						t.Errorf("its grantor is back: %v", err)
					}
				})
			})
		}
	}
}

// A remote fetch under a lease ends with the lease, by either clock.
func TestRightsAreReadByBothClocks(t *testing.T) {
	var jump time.Duration
	c := NewClock(func() time.Duration { return jump })
	until := time.Now().Add(time.Hour)
	if err := c.Check(NewRight(until)); err != nil {
		t.Error(err)
	}
	for _, jump = range []time.Duration{2 * time.Hour, 2 * time.Second, -2 * time.Second, -2 * time.Hour} {
		if err := c.Check(NewRight(until)); err == nil {
			t.Errorf("a jump of %v before the next look is not seen", jump)
		}
		c.look()
		if err := c.Check(NewRight(until)); err == nil {
			t.Errorf("a jump of %v is not seen", jump)
		}
	}
	jump = 0
	c.look()
	for _, r := range []Right{{}, NewRight(time.Now().Add(-time.Millisecond))} {
		if err := c.Check(r); !errors.Is(err, ErrOver) {
			t.Errorf("%v: %v", r, err)
		}
	}
}

// If the clocks differ by less than a gap, a right ends by the clock that is ahead.
func TestRightsEndWithTheEarlierClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, jump := range []time.Duration{drift, -drift} { // of the wall clock, just before the right ends
			set := time.Duration(0)
			c := NewClock(func() time.Duration { return set })
			early := NewRight(time.Now().Add(drift / 2))
			late := NewRight(time.Now().Add(2 * drift))
			set = jump
			if jump < 0 {
				time.Sleep(drift / 2)
			}
			if err := c.Check(early); !errors.Is(err, ErrOver) {
				t.Errorf("wall clock set by %v: %v, want %v", jump, err, ErrOver)
			}
			if err := c.Check(late); err != nil {
				t.Errorf("wall clock set by %v, and the right goes on by both: %v", jump, err)
			}
		}
	})
}

// More than gapAfter by either clock is a gap, and so is a difference of more than drift.
func TestWhatIsAGap(t *testing.T) {
	begin := at(time.Unix(1e9, 0))
	for _, c := range []struct {
		mono, wall time.Duration
		gap        bool
	}{
		{gapAfter, gapAfter, false}, {gapAfter + 1, gapAfter, true}, {gapAfter, gapAfter + 1, true},
		{0, drift, false}, {0, drift + 1, true}, {drift, 0, false}, {drift + 1, 0, true},
	} {
		if got := gapBetween(begin, moment{begin.mono.Add(c.mono), begin.wall.Add(c.wall)}); got != c.gap {
			t.Errorf("%v by one clock and %v by the other: %v", c.mono, c.wall, got)
		}
	}
}

// A gap lasts until all have dealt with it. If that takes long, it is another gap.
func TestGapsLastUntilAllHaveDealtWithThem(t *testing.T) {
	var jump time.Duration
	c := NewClock(func() time.Duration { return jump })
	c.OnGap(func() {
		if _, err := c.Awake(); !errors.Is(err, ErrGap) {
			t.Errorf("before it was dealt with: %v", err)
		}
		jump = 2 * time.Minute
	})
	jump = time.Minute
	for look, want := range []error{ErrGap, nil} {
		c.look()
		if gaps, err := c.Awake(); !errors.Is(err, want) || gaps != uint64(look+1) {
			t.Errorf("after look %d: %d gaps, %v, want %v", look, gaps, err, want)
		}
	}
}

// jump returns how far the wall clock was set. A node looks at its clock before everything it does, so a frozen node waits here.
func (n *fakeNode) jump() time.Duration {
	n.thawed()
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jumped
}

// thawed waits while the node is frozen.
func (n *fakeNode) thawed() {
	n.mu.Lock()
	frozen := n.frozen
	n.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// freeze stops a node until thaw. Messages to it wait.
func (n *fakeNode) freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen == nil {
		n.frozen = make(chan struct{})
	}
}

func (n *fakeNode) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen != nil {
		close(n.frozen)
		n.frozen = nil
	}
}

func (n *fakeNode) isFrozen() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frozen != nil
}

// setClock moves the wall clock.
func (n *fakeNode) setClock(by time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.jumped += by
}

// Neither a grantor nor a holder answers right after a gap, before it has dealt with it, or when nobody waits for the answer.
func TestNoAnswerRightAfterAGap(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var jump time.Duration
	c := NewClock(func() time.Duration { return jump })
	g, h := NewGrantor(Default(), GrantorDeps{Clock: c, Boot: 1}), NewHolder(Default(), new(stub).deps(c))
	for _, k := range []struct {
		ctx    context.Context
		jump   time.Duration
		looked bool
		want   error
	}{
		{t.Context(), 0, false, nil}, {over, 0, false, context.Canceled},
		{t.Context(), time.Minute, false, ErrGap}, {t.Context(), time.Minute, true, nil},
	} {
		if jump = k.jump; k.looked {
			c.look()
		}
		if res, err := g.Lease(k.ctx, "a", &wire.LeaseRequest{}); !errors.Is(err, k.want) || (res == nil) != (err != nil) {
			t.Errorf("after a jump of %v, seen %v, the grantor answers %v, %v, not %v", jump, k.looked, res, err, k.want)
		}
		if res, err := h.Rights(k.ctx, "a", &wire.RightsRequest{}); !errors.Is(err, k.want) || (res == nil) != (err != nil) {
			t.Errorf("after a jump of %v, seen %v, the holder answers %v, %v, not %v", jump, k.looked, res, err, k.want)
		}
	}
}
