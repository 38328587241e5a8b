package lease

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
	"proxima/node/wire"
)

// stub is the world of one holder: a grantor that answers when the test says so, and a frontier that wants one server.
type stub struct {
	Frontier
	answer chan *wire.LeaseAnswer
}

func (s *stub) Lease(ctx context.Context, _ string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	select {
	case a := <-s.answer:
		return &wire.LeaseResponse{Answers: []*wire.LeaseAnswer{a}}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *stub) Grant(netip.Addr, time.Time, time.Duration) {}
func (s *stub) Withdraw(netip.Addr)                        {}
func (s *stub) SetSpacing(netip.Addr, float64)             {}
func (s *stub) Servers() []Server                          { return []Server{{Addr: server(1), Wanted: true}} }
func (s *stub) Wanted(ctx context.Context) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// deps makes the dependencies of a holder in its first life.
func (s *stub) deps(clock *Clock) HolderDeps {
	return HolderDeps{Clock: clock, Boot: 1, Lease: s.Lease, Frontier: s, Remote: func() []Remote { return nil },
		OnHeld: func(netip.Addr, string) {}, Moved: func(netip.Addr, *assign.Memory) {}}
}

// holder makes the holder of node a, of which node k grants all servers.
func (s *stub) holder(clock *Clock) *Holder {
	h := NewHolder(Default(), s.deps(clock))
	h.SetView(view.View{Self: "a", Settled: []string{"k"}, Alive: []string{"a", "k"}, Majority: true, Version: 1})
	return h
}

// A lease counts from when it was asked for, since the grantor may have given it at that moment. It does not count if this node has said
// meanwhile that it does not hold the server, because the grantor may have concluded that nobody does, nor if there was a gap.
func TestAnswersThatAreSlow(t *testing.T) {
	inquiry := func(from string) func(*testing.T, *Holder) {
		return func(t *testing.T, h *Holder) {
			res, err := h.Rights(t.Context(), from, &wire.RightsRequest{View: view.Digest([]string{"k"}), Members: view.Digest([]string{"a", "k"})})
			if err != nil || !res.GetSameView() || len(res.GetRights()) != 0 {
				t.Errorf("%v, %v", res, err)
			}
		}
	}
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, h *Holder)
		counts    bool
	}{
		"nothing happens":            {func(*testing.T, *Holder) {}, true},
		"an inquiry":                 {inquiry("k"), false},
		"an inquiry of another node": {inquiry("x"), true},
		"a gap":                      {func(_ *testing.T, h *Holder) { time.Sleep(3500 * time.Millisecond); h.deps.Clock.look() }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &stub{answer: make(chan *wire.LeaseAnswer)}
			h := s.holder(NewClock(nil))
			for try, counts := range []bool{c.counts, true} { // it asks again
				if try > 0 && c.counts {
					break
				}
				h.deps.Clock.look()
				asked := time.Now()
				h.book.want(server(1), asked)
				items := h.book.due(asked, nil)["k"]
				go h.call(t.Context(), "k", &wire.LeaseRequest{}, items)
				synctest.Wait()
				if try == 0 {
					c.meanwhile(t, h)
				}
				time.Sleep(time.Second)
				s.answer <- yes()
				synctest.Wait()
				if err := h.MayAsk(server(1)); (err == nil) != counts {
					t.Errorf("%s, try %d: %v", name, try, err)
				} else if d := h.Until(server(1)).Sub(asked) - h.cfg.Skew; counts && d != h.cfg.Time {
					t.Errorf("%s, try %d: the lease ends %v after it was asked for, want %v", name, try, d, h.cfg.Time)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A grantor that does not answer, or not each item, counts as one that cannot be reached.
func TestAnswersThatAreMissing(t *testing.T) {
	for answers := range 2 {
		s := &stub{answer: make(chan *wire.LeaseAnswer, 1)}
		h, now := s.holder(NewClock(nil)), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		if cancel(); answers > 0 {
			ctx = t.Context()
			s.answer <- yes()
		}
		h.book.want(server(1), now)
		h.book.want(server(2), now)
		h.call(ctx, "k", &wire.LeaseRequest{}, h.book.due(now, nil)["k"])
		for addr, l := range h.book.all {
			if l.busy || l.why != "grantor k cannot be reached" || !l.none() || h.Status().Unreachable != 1 {
				t.Errorf("%d answers for 2 items: %v is under way %v, %q, %+v", answers, addr, l.busy, l.why, h.Status())
			}
		}
	}
}

// A server is spared until it has recovered halfway.
func TestSparedServersComeBackSlowly(t *testing.T) {
	var told float64
	p := newPace(func(_ netip.Addr, factor float64) { told = factor })
	for i, step := range []struct{ slowed, told float64 }{{1.9, 0}, {2.5, 2.5}, {1.9, 1.9}, {1.9, 0}, {1.4, 1}, {1.9, 0}, {40, paceMax}} {
		told = 0
		if p.observe(server(1), step.slowed); told != step.told {
			t.Errorf("step %d, slowed %v: told %v, want %v", i, step.slowed, told, step.told)
		}
	}
	p.median = 2 // the factor, and not what it is made of, has the bound
	for _, step := range []struct{ slowed, told float64 }{{2 * paceMax, paceMax}, {paceMax, paceMax / 2}, {3 * paceMax, paceMax}} {
		if p.observe(server(1), step.slowed); told != step.told {
			t.Errorf("at a slow node, slowed %v: told %v, want %v", step.slowed, told, step.told)
		}
	}
	p.level(map[netip.Addr]float64{server(1): 3, server(2): 1})
	if told != paceMax {
		t.Errorf("one that is still asked was told %v", told)
	}
	if p.level(map[netip.Addr]float64{server(2): 1}); told != 1 {
		t.Errorf("one that is asked no more was told %v", told)
	}
}

// If half of a node's servers are slow, the node itself is slow; it takes five servers to tell. That never makes a server faster than
// usual.
func TestOwnSlownessIsTheMedian(t *testing.T) {
	for _, c := range []struct {
		slowed []float64
		own    float64
	}{
		{nil, 1},
		{[]float64{9, 9, 9, 9}, 1},
		{[]float64{1, 2, 3, 8, 9}, 3},
		{[]float64{1, 2, 3, 4, 8, 9}, 3},
		{[]float64{1, 2, 3, 4, 5, 8, 9}, 4},
		{[]float64{0.1, 0.2, 0.3, 0.4, 0.5}, 1},
	} {
		all := map[netip.Addr]float64{}
		for i, s := range c.slowed {
			all[server(i)] = s
		}
		p := newPace(func(netip.Addr, float64) {})
		p.median = 7 // from an earlier look
		if p.level(all); p.median != c.own {
			t.Errorf("of %v its own slowness is %v, want %v", c.slowed, p.median, c.own)
		}
	}
}

// Those who are told of leases are told without a lock: what they do then may need the holder.
func TestNobodyIsToldUnderTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stub{answer: make(chan *wire.LeaseAnswer)}
		h := s.holder(NewClock(nil))
		told := 0
		tell := func(what string) {
			if told++; !h.mu.TryLock() {
				t.Errorf("%s is called under the lock", what)
				return
			}
			h.mu.Unlock()
		}
		h.deps.Moved = func(netip.Addr, *assign.Memory) { tell("Moved") }
		h.deps.OnHeld = func(netip.Addr, string) { tell("OnHeld") }
		now := time.Now()
		h.book.want(server(1), now)
		l := h.book.get(server(1))
		l.right, l.memory, l.changed = NewRight(now.Add(time.Minute)), new(assign.Memory), now
		l.memory.Observe("n", ncoord.Coordinate{}, page(time.Second), now)
		var calls sync.WaitGroup
		h.step(t.Context(), &calls)
		s.answer <- &wire.LeaseAnswer{Grant: wire.Grant_GRANT_HELD, Holder: "b"}
		if calls.Wait(); told != 2 {
			t.Errorf("told %d times, want 2", told)
		}
	})
}

// early is a context that calls a function when somebody begins to wait for its end.
type early struct {
	context.Context
	say func()
}

func (e early) Done() <-chan struct{} {
	e.say()
	return e.Context.Done()
}

// The answer may come before the caller of Hold begins to wait for it.
func TestHoldHearsAnAnswerThatComesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHolder(Default(), new(stub).deps(NewClock(nil)))
		says := &HeldError{Addr: server(1), Holder: "b"}
		_, err := h.Hold(early{t.Context(), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.book.get(server(1)).tell(says)
		}}, server(1))
		if !errors.Is(err, says) {
			t.Errorf("%v, want %v", err, says)
		}
	})
}

// The pause doubles from the shortest to the longest, and varies by a quarter.
func TestPausesDouble(t *testing.T) {
	b := newBench(t)
	l := &lease{}
	for i := range 20 {
		want := min(b.cfg.retryMax(), b.cfg.retryMin()<<i)
		if b.retry(l, b.now); l.next.Sub(b.now) < want*3/4 || l.next.Sub(b.now) > want*5/4 {
			t.Errorf("pause %d is %v, want about %v", i, l.next.Sub(b.now), want)
		}
	}
}
