package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
	"proxima/node/wire"
)

// heldBy makes a holder that does not run, node "a", with a lease of a minute on server(1).
func heldBy(t *testing.T) (*Holder, *lease) {
	t.Helper()
	h := new(stub).holder(NewClock(nil))
	<-h.kick
	l := h.book.get(server(1))
	l.right, l.memory = NewRight(time.Now().Add(time.Minute)), &assign.Memory{}
	l.memory.Observe("n", ncoord.Coordinate{}, page(time.Second), time.Now())
	return h, l
}

// A Hold of a lease that is here returns at once, with a copy of the memory. It fails when the node stops.
func TestHoldOfWhatIsHere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, l := heldBy(t)
		for _, l.withdrawn = range []bool{false, true} { // but its grantor was not told
			m, err := h.Hold(t.Context(), server(1))
			if err != nil || m == nil || m == l.memory || !l.hold || len(l.waiters) > 0 {
				t.Errorf("it has %v, holds %v, %d wait, %v", m, l.hold, len(l.waiters), err)
			}
			before := l.memory.AppendBinary(nil, time.Now())
			m.Observe("n", ncoord.Coordinate{}, page(2*time.Second), time.Now())
			if !bytes.Equal(l.memory.AppendBinary(nil, time.Now()), before) {
				t.Error("what is learnt in the copy reaches the lease")
			}
		}
		for what, change := range map[string]func(h *Holder, l *lease){
			"it is on its way to another": func(_ *Holder, l *lease) { l.withdrawn, l.successor = true, "b" },
			"it is over":                  func(_ *Holder, l *lease) { l.right = Right{} },
		} {
			h, l := heldBy(t)
			change(h, l)
			var heard error
			go func() { _, heard = h.Hold(t.Context(), server(1)) }()
			synctest.Wait()
			if len(l.waiters) != 1 || len(h.kick) != 1 || l.none() && !l.next.Equal(time.Now()) {
				t.Errorf("%s: %d wait, and it is asked for at %v", what, len(l.waiters), l.next)
			}
			h.mu.Lock()
			h.book.leave(time.Now())
			h.mu.Unlock()
			synctest.Wait()
			if !errors.Is(heard, errStopped) || l.hold || len(l.waiters) > 0 {
				t.Errorf("%s: after the end of the holder it holds %v, %v", what, l.hold, heard)
			}
		}
		h.book.leaving = true
		if _, err := h.Hold(t.Context(), server(1)); !errors.Is(err, errStopped) {
			t.Errorf("while it leaves: %v", err)
		}
	})
}

// Of two Holds one gives up. The server is still to be held for the other, unless it was given meanwhile.
func TestOneOfTwoHoldsGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, given := range []bool{false, true} {
			h, l := heldBy(t)
			l.right = Right{}
			var give []context.CancelFunc
			for range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				give = append(give, cancel)
				go func() { _, _ = h.Hold(ctx, server(1)) }()
				synctest.Wait()
			}
			if given {
				h.Give(server(1), "b", nil)
			}
			for i, up := range give {
				up()
				synctest.Wait()
				if left := 1 - i; len(l.waiters) != left || l.hold != (left > 0 && !given) {
					t.Errorf("given %v: %d of %d wait; held %v", given, len(l.waiters), left, l.hold)
				}
			}
		}
	})
}

// A lease that its grantor denies may not be used, and is not held any more. Failures before that count for nothing.
func TestLeaseThatIsDenied(t *testing.T) {
	h, l := heldBy(t)
	h.grant(server(1), l.right, 0)
	if err := h.MayAsk(server(1)); err != nil {
		t.Error(err)
	}
	l.hold, l.fails = true, 3
	if h.book.held(server(1), l, "b", time.Now()); h.MayAsk(server(1)) == nil || l.hold || l.fails > 0 {
		t.Errorf("it may; it is held: %v, after %d failures", l.hold, l.fails)
	}
}

// Whatever may make a message due wakes the loop.
func TestWhatWakesTheLoop(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for what, do := range map[string]func(h *Holder){
		"a gap":               (*Holder).stopped,
		"a change of members": func(h *Holder) { h.SetView(view.View{}) },
		"no answer":           func(h *Holder) { h.call(over, "k", &wire.LeaseRequest{}, nil) },
	} {
		h, _ := heldBy(t)
		if do(h); len(h.kick) != 1 {
			t.Errorf("%s does not", what)
		}
	}
}

// Whoever gives a server says to whom. It stays if it is for this node, and only a lease that is here goes back.
func TestGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for what, c := range map[string]struct {
			change    func(l *lease)
			to        string
			successor string
			goes      bool
		}{
			"to itself":                 {func(*lease) {}, "a", "", false},
			"to another":                {func(*lease) {}, "b", "b", true},
			"to anybody":                {func(*lease) {}, "", "", true},
			"what is over":              {func(l *lease) { l.right = Right{} }, "b", "", false},
			"what is on its way to one": {func(l *lease) { l.withdrawn = true }, "b", "b", true},
		} {
			h, l := heldBy(t)
			l.hold = true
			c.change(l)
			drained := l.withdrawn
			m := &assign.Memory{}
			m.Observe("n", ncoord.Coordinate{}, page(time.Second), time.Now())
			h.Give(server(1), c.to, m)
			if l.hold || l.memory == m || l.memory.Downloads() != 1 || !l.changed.Equal(time.Now()) {
				t.Errorf("%s: it is held %v; %d downloads, changed at %v", what, l.hold, l.memory.Downloads(), l.changed)
			}
			if l.successor != c.successor || l.withdrawn != c.goes || h.lookAt.Equal(time.Now()) != c.goes || len(h.kick) > 0 != c.goes || l.withdrawn && (l.inFlight == 0) != drained {
				t.Errorf("%s: for %q it goes: %v; it looks at %v", what, l.successor, l.withdrawn, h.lookAt)
			}
			was := l.memory
			if h.Give(server(1), "a", nil); l.memory != was {
				t.Errorf("%s: nothing replaces the memory", what)
			}
			h.Give(server(2), "b", m)
			h.Observed(server(2), "n", ncoord.Coordinate{}, page(time.Second))
			if len(h.book.all) != 1 {
				t.Errorf("%s: a server that nobody wanted is remembered", what)
			}
			time.Sleep(time.Nanosecond)
			if h.Observed(server(1), "n", ncoord.Coordinate{}, page(time.Second)); !l.changed.Equal(time.Now()) {
				t.Errorf("%s: its grantor lacks what changed at %v", what, l.changed)
			}
		}
	})
}

// A server without a grantor is not asked for. A message that is full takes no company along.
func TestWhatAMessageHolds(t *testing.T) {
	for others, want := range map[int]int{499: 500, 500: 500} {
		b := newBench(t)
		b.obtain().next = b.now.Add(1)
		for i := range others {
			b.want(server(2+i), b.now)
		}
		b.grantedBy = ""
		b.silent()
		b.grantedBy = "k"
		if got := len(b.due(b.now, nil)["k"]); got != want {
			t.Errorf("%d that are due, and one that may go along: %d go", others, got)
		}
	}
}

// What a new lease brings of the memory of a server replaces what this node knows, unless it is older or damaged. If the grantor has none, it
// gets this node's.
func TestMemoryOfANewLease(t *testing.T) {
	b := newBench(t)
	own := &assign.Memory{}
	old, lately, stored := b.now.Add(-time.Hour), b.now.Add(-time.Second), (&assign.Memory{}).AppendBinary(nil, b.now)
	for what, c := range map[string]struct {
		lease   lease
		memory  []byte // stored a minute ago
		changed time.Time
		stays   bool
		ageMs   int64 // if not a minute
	}{
		"neither has one":         {lease{}, nil, time.Time{}, false, 0},
		"the grantor has none":    {lease{memory: own}, nil, b.now, true, 0},
		"it is to get it already": {lease{memory: own, changed: old}, nil, old, true, 0},
		"it is damaged":           {lease{memory: own, changed: old}, []byte{255}, old, true, 0},
		"it is older":             {lease{memory: own, changed: lately}, stored, lately, true, 0},
		"it is newer":             {lease{memory: own, changed: old}, stored, time.Time{}, false, 0},
		"its age is absurd":       {lease{memory: own, changed: old}, stored, old, true, math.MaxInt64},
	} {
		answer := &wire.LeaseAnswer{Memory: c.memory, MemoryAgeMs: cmp.Or(c.ageMs, time.Minute.Milliseconds())}
		if b.remember(&c.lease, answer, b.now); !c.lease.changed.Equal(c.changed) || (c.lease.memory == own) != c.stays {
			t.Errorf("%s: changed at %v, its own stays: %v", what, c.lease.changed, c.lease.memory == own)
		}
	}
}

// A holder is cut off from its grantor at any point of its lease. No other node has the server before the time that Until returned.
func TestUntilIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		addr := grantedBy(t, ids[2], ids)
		if until := all[0].holder.Until(addr); time.Until(until) > 0 {
			t.Errorf("a server that nobody has is leased until %v", until)
		}
		for phase := range 10 {
			all[0].want(true, addr)
			for !all[0].has(addr) {
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(w.cfg.Time + time.Duration(phase)*w.cfg.Time/10)
			all[1].want(true, addr)
			w.part(ids[0], ids[2])
			until := all[0].holder.Until(addr)
			if left := time.Until(until) - w.cfg.Skew; left < w.cfg.Time/2 || left > w.cfg.Time {
				t.Errorf("phase %d: it is leased for %v", phase, left)
			}
			for !all[1].has(addr) {
				time.Sleep(100 * time.Millisecond)
			}
			if early := time.Until(until); early > 0 {
				t.Errorf("phase %d: another has it %v too early", phase, early)
			}
			if until := all[0].holder.Until(addr); time.Until(until) > 0 {
				t.Errorf("phase %d: it is leased until %v to whom it is no longer", phase, until)
			}
			all[0].want(false, addr)
			all[1].want(false, addr)
			w.heal()
			time.Sleep(2 * w.cfg.ReleaseAfter())
		}
	})
}
