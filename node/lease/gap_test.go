package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/wire"
)

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
					if err := n.holder.MayAsk(addr); !errors.Is(err, ErrGap) && !errors.Is(err, ErrOver) { // ErrOver once it is noticed
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

// A right ends by the clock that is ahead. If the clocks differ by more than drift it must not be used.
func TestRightsAreReadByBothClocks(t *testing.T) {
	now := at(time.Unix(1e9, 0))
	for _, c := range []struct {
		mono, wall time.Duration // what is left by each clock
		want       error
	}{
		{time.Hour, time.Hour, nil}, {1, drift + 1, nil}, {drift + 1, 1, nil}, {0, drift, ErrOver}, {drift, 0, ErrOver},
		{-time.Hour, time.Hour, ErrOver}, {time.Hour, -time.Hour, ErrOver}, {1, drift + 2, ErrGap}, {drift + 2, 1, ErrGap},
	} {
		r := Right{moment{now.mono.Add(c.mono), now.wall.Add(c.wall)}}
		if err := r.check(now); !errors.Is(err, c.want) {
			t.Errorf("over in %v by one clock, in %v by the other: %v, want %v", c.mono, c.wall, err, c.want)
		}
	}
	if r, until := NewRight(now.mono), now; r.until != until {
		t.Errorf("a right until %v is %v", until, r)
	}
	if err := (Right{}).check(now); !errors.Is(err, ErrOver) {
		t.Errorf("no right: %v", err)
	}
}

// A jump is seen at once, before anybody has looked, and remembered by the rights of before.
func TestJumpsEndRights(t *testing.T) {
	var jump time.Duration
	c := NewClock(func() time.Duration { return jump })
	r := NewRight(time.Now().Add(time.Hour))
	if err := c.Check(r); err != nil {
		t.Error(err)
	}
	for _, jump = range []time.Duration{2 * time.Hour, 2 * time.Second, -2 * time.Second, -2 * time.Hour} {
		before := c.Check(r)
		c.look()
		if after := c.Check(r); before == nil || after == nil {
			t.Errorf("a jump of %v: %v, after a look %v", jump, before, after)
		}
	}
}

// A right that both clocks leave is not used after the process was frozen, before that has been dealt with.
func TestFrozenProcessUsesNoRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := NewClock(nil), NewRight(time.Now().Add(time.Hour))
		time.Sleep(gapAfter + 1)
		if err := c.Check(r); !errors.Is(err, ErrGap) {
			t.Errorf("before anybody has looked: %v", err)
		}
		c.look()
		if err := c.Check(r); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A right of before a gap is not used when the gap is dealt with just while a holder looks for the right.
func TestGapIsDealtWithWhileARightIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		meanwhile := func() {}
		c := NewClock(func() time.Duration {
			do := meanwhile
			meanwhile = func() {}
			do()
			return 0
		})
		h := NewHolder(Default(), new(stub).deps(c))
		h.rights.Store(server(1), NewRight(time.Now().Add(time.Minute)))
		if err := h.MayAsk(server(1)); err != nil {
			t.Error(err)
		}
		c.OnGap(func() { h.rights.Delete(server(1)) })
		time.Sleep(gapAfter + 1)
		meanwhile = c.look
		if err := h.MayAsk(server(1)); !errors.Is(err, ErrOver) {
			t.Errorf("it may ask: %v", err)
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
		if got := (&Clock{last: begin}).missed(moment{begin.mono.Add(c.mono), begin.wall.Add(c.wall)}); got != c.gap {
			t.Errorf("%v by one clock and %v by the other: %v", c.mono, c.wall, got)
		}
	}
}

// A moment has a time of the wall clock of its own: one that also had the other clock's would never show that somebody set the clock.
func TestClocksOfAMoment(t *testing.T) {
	if now := NewClock(nil).now(); now.wall != now.wall.Round(0) || now.mono == now.mono.Round(0) {
		t.Errorf("by one clock it is %v, by the other %v", now.mono, now.wall)
	}
}

// A gap lasts until all have dealt with it. If that takes long, it is another gap.
func TestGapsLastUntilAllHaveDealtWithThem(t *testing.T) {
	var jump time.Duration
	c := NewClock(func() time.Duration { return jump })
	c.OnGap(func() {
		if !c.mu.TryLock() {
			t.Fatal("while it is dealt with, nobody can ask whether it is over")
		}
		c.mu.Unlock()
		if err := c.Awake(); !errors.Is(err, ErrGap) || !errors.Is(err, peer.ErrUnavailable) { // a peer that asks tries again
			t.Errorf("before it was dealt with: %v", err)
		}
		jump = 2 * time.Minute
	})
	jump = time.Minute
	for look, want := range []error{ErrGap, nil} {
		c.look()
		if err := c.Awake(); !errors.Is(err, want) {
			t.Errorf("after look %d: %v, want %v", look, err, want)
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
