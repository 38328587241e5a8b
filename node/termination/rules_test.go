package termination

import (
	"context"
	"testing"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// All expected nodes must have settled. That is noted once.
func TestWhenTheCrawlMayEnd(t *testing.T) {
	armed := 0
	r := New(Config{ExpectedNodes: 2}, Deps{Arm: func() { armed++ }})
	two := []string{"a", "b"}
	for i, c := range []struct {
		v     view.View
		armed int
	}{{view.View{Settled: two[:1], Alive: two}, 0}, {view.View{Settled: two}, 1}, {view.View{Settled: two}, 1}, {view.View{}, 1}} {
		if got := r.hear(settled(c.v)); got != (c.armed > 0) || armed != c.armed {
			t.Errorf("step %d: it may end: %v, noted %d times", i, got, armed)
		}
	}
}

// A node that has work has answered like any other, so it is not mute.
func TestBusyNodesAreNotMute(t *testing.T) {
	r := New(Default(), Deps{Ask: func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
		return &wire.IdleResponse{Why: "it has pages"}, nil
	}})
	r.note("b", false)
	if _, err := r.askOne(t.Context(), view.View{Self: "a"}, "b", &wire.IdleRequest{}); err != nil || len(r.silent) > 0 {
		t.Errorf("%v did not answer, %v", r.silent, err)
	}
}

// That a member did not answer is remembered while it may be asked again. Nodes come and go, and others would be remembered for ever.
func TestNobodyRemembersTheSilenceOfTheGone(t *testing.T) {
	r := New(Default(), Deps{})
	for i := range 1000 {
		r.note(idOf(i), false)
	}
	r.present(view.View{Self: "a", Alive: []string{"a", idOf(1)}, Settled: []string{"a", idOf(2)}})
	if _, alive := r.silent[idOf(1)]; len(r.silent) != 2 || !alive {
		t.Errorf("%d members are remembered", len(r.silent))
	}
}

// A node that missed the end finds it when it is idle, alone and in a minority for five minutes without any change since it answered that it is idle.
func TestWhoMissedTheEnd(t *testing.T) {
	alone, now := view.View{Self: "a", Alive: []string{"a"}, Settled: []string{"a", "b"}}, time.Now()
	majority, company := alone, alone
	majority.Majority, company.Alive = true, []string{"a", "b"}
	for what, c := range map[string]struct {
		v        view.View
		idle     bool
		counters uint64
		ends     bool
	}{
		"it missed the end": {alone, true, 7, true},
		"it has work":       {alone, false, 7, false},
		"something came in": {alone, true, 8, false},
		"in the majority":   {majority, true, 7, false},
		"another is there":  {company, true, 7, false},
	} {
		answered := uint64(7)
		r := New(Default(), Deps{})
		r.answered = &answered
		for _, after := range []time.Duration{0, lonelyFor - 1, lonelyFor} {
			if why := r.missed(c.v, State{Idle: c.idle, Counters: c.counters}, now.Add(after)); (why != "") != (c.ends && after == lonelyFor) {
				t.Errorf("%s: after %v it ends, %q", what, after, why)
			}
		}
	}
}

// The end is declared once, and a reason is told in the third round in which it keeps the crawl from ending.
func TestWhatIsToldOnce(t *testing.T) {
	ended := 0
	r := New(Default(), Deps{Ended: func(string) { ended++ }})
	for i := range 2 {
		if first := r.declare("all are idle"); first != (i == 0) || ended != 1 {
			t.Errorf("declared %d times, it was told %d times", i+1, ended)
		}
	}
	var waits reason
	for round := 1; round < 6; round++ {
		if waits.isNews("it has pages") != (round == 3) {
			t.Errorf("in round %d it is told: %v", round, round != 3)
		}
	}
}

// A node that has lost its disk hears from the others that all expected nodes have been there, though one of them is gone for good.
func TestErasedNodeHearsWhoWasThere(t *testing.T) {
	// One that is asked hears it at once; one that asks when another makes sure that it is there.
	for at, within := range map[int]time.Duration{0: probeEvery + 5*every, 2: 5 * every} {
		withCrew(t, 3, 3, func(_ *testing.T, c *crew) {
			c.set(func() { c.mates[1].state.Idle = false })
			time.Sleep(10*every + every/2) // nobody is asking
			c.set(func() {
				c.mates[1].gone = true
				c.mates[at].rounds.mu.Lock()
				defer c.mates[at].rounds.mu.Unlock()
				c.mates[at].rounds.met = 0
			})
			c.endsBy(within)
		})
	}
}

// A newcomer hears that all expected nodes have been there while everybody is busy, so that it still knows when the last one that saw them is
// gone for good.
func TestBusyNewcomerHearsWhoWasThere(t *testing.T) {
	for _, founder := range []int{0, 1} { // the one that asks, or the one that does not
		withCrew(t, 3, 3, func(_ *testing.T, c *crew) {
			c.idle(false, 0, 1)
			time.Sleep(10*every + every/2)
			c.set(func() {
				c.mates[2].gone = true
				r := c.mates[1-founder].rounds
				r.mu.Lock()
				defer r.mu.Unlock()
				r.met = 0
			})
			time.Sleep(2 * probeEvery)
			c.set(func() { c.mates[founder].gone, c.mates[founder].dead = true, true })
			c.idle(true, 1-founder)
			c.endsBy(5 * every)
		})
	}
}

// Where nodes differ in how many they expect, the crawl does not end before as many were there as the one with the largest number expects.
func TestLargestExpectationCounts(t *testing.T) {
	withCrew(t, 1, 1, func(_ *testing.T, c *crew) {
		c.idle(false, 0)
		c.cfg.ExpectedNodes = 3
		c.join()
		time.Sleep(2 * probeEvery)
		c.idle(true, 0)
		c.goesOn(2 * probeEvery)
		c.join()
		c.endsBy(5 * every)
	})
}
