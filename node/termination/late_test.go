package termination

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// A message of the end that is lost is sent again. A node that is not told finds the end when it is the one to ask.
func TestMissedEnd(t *testing.T) {
	for _, test := range []struct {
		name   string
		misses []int
		times  int // how many messages each of them misses
		why    string
		within time.Duration
	}{
		{"one, twice", []int{2}, 2, "told by " + idOf(1), tellFor + 5*every},
		{"one", []int{2}, 1000, "all are idle", 2 * (tellFor + 10*every)},
		{"all others", []int{1, 2, 3}, 1000, "all are idle", 4 * (tellFor + 10*every)},
	} {
		withCrew(t, 4, 4, func(t *testing.T, c *crew) {
			lost := map[string]int{}
			c.set(func() {
				c.lose = func(to string, end bool) bool {
					if !end || !slices.ContainsFunc(test.misses, func(i int) bool { return to == c.mates[i].id }) {
						return false
					}
					lost[to]++
					return lost[to] <= test.times
				}
			})
			c.endsBy(test.within)
			if why := c.mates[test.misses[0]].why; why != test.why {
				t.Errorf("%s: it ended because of %q", test.name, why)
			}
		})
	}
}

// A node that got work after it had answered that it is idle does not end with the others.
func TestBusyAtTheEnd(t *testing.T) {
	withCrew(t, 3, 3, func(t *testing.T, c *crew) {
		c.set(func() {
			c.lose = func(to string, end bool) bool {
				if end && to == c.mates[1].id {
					c.mates[1].state.Idle = false
					c.mates[1].state.Counters++
				}
				return false
			}
		})
		time.Sleep(time.Minute)
		if ids := c.ended(); len(ids) != 2 {
			t.Fatalf("%v ended", ids)
		}
		c.idle(true, 1)
		c.endsBy(3 * every) // by itself: the others are gone
	})
}

// A node is frozen for minutes while all others end. When it runs again it hears from gossip that they have ended, and ends when its work is
// done.
func TestFrozenAtTheEnd(t *testing.T) {
	for _, work := range []bool{false, true} {
		withCrew(t, 5, 5, func(t *testing.T, c *crew) {
			late := c.mates[3]
			c.set(func() {
				c.gossip = true
				c.lose = func(to string, end bool) bool {
					if end && to == late.id {
						go c.freeze(late, 4*time.Minute)
					}
					return end && to == late.id
				}
			})
			time.Sleep(3 * time.Minute)
			if ids := c.ended(); len(ids) != 4 {
				t.Fatalf("%v ended", ids)
			}
			c.idle(!work, 3)
			time.Sleep(2 * time.Minute)
			if work && len(c.ended()) != 4 {
				t.Fatal("it ended with work left")
			}
			c.idle(true, 3)
			c.endsBy(3 * every)
			if !strings.HasPrefix(late.why, "over at ") {
				t.Errorf("with work, %v: it ended because of %q", work, late.why)
			}
		})
	}
}

// A node that hears nothing of the end, not even from gossip, ends after it has been idle and alone for five minutes. A node
// with work does not.
func TestDeafAtTheEnd(t *testing.T) {
	withCrew(t, 4, 4, func(t *testing.T, c *crew) {
		c.set(func() {
			c.lose = func(to string, end bool) (lost bool) {
				for _, m := range c.mates[2:] {
					m.deaf = m.deaf || end
					lost = lost || m.deaf && m.id == to
				}
				return lost
			}
		})
		time.Sleep(time.Minute)
		c.set(func() { c.mates[3].state.Counters++ }) // something came in
		c.idle(false, 3)
		time.Sleep(5*time.Minute + 10*every)
		if ids := c.ended(); !slices.Equal(ids, []string{idOf(1), idOf(2), idOf(3)}) || !strings.Contains(c.mates[2].why, "nobody was there") {
			t.Errorf("%v have ended, the third because of %q", ids, c.mates[2].why)
		}
	})
}

// The node that asks crashes while it tells the end, and one that is not told is left with a newcomer. The two are no majority, so neither asks; they
// end after the one has been idle for five minutes.
func TestLeftWithANewcomer(t *testing.T) {
	withCrew(t, 3, 3, func(_ *testing.T, c *crew) {
		c.set(func() {
			c.gossip = true
			c.lose = func(to string, end bool) bool { return end && to == c.mates[2].id }
		})
		for len(c.ended()) == 0 {
			time.Sleep(every / 10)
		}
		c.set(func() {
			c.mates[0].gone, c.mates[0].dead = true, true
			c.view = func(_ string, v view.View) view.View {
				v.Majority = false
				return v
			}
		})
		c.join()
		c.endsBy(lonelyFor + 3*every)
	})
}

// A member that answers nobody, though it counts as alive, holds up the end for ten minutes, whether it is the one that asks or
// not. It goes on: it has work, and does not hear of the end. Where half of all do not answer, nobody ends.
func TestMuteAtTheEnd(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes int
		mute  []int
		ends  bool
	}{
		{"the one that asks", 5, []int{0}, true},
		{"another", 5, []int{3}, true},
		{"the first two", 5, []int{0, 1}, true},
		{"half", 4, []int{2, 3}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withCrew(t, test.nodes, test.nodes, func(t *testing.T, c *crew) {
				c.idle(false, test.mute...)
				c.set(func() {
					for _, i := range test.mute {
						c.mates[i].dead = true
					}
				})
				c.goesOn(muteFor)
				if !test.ends {
					c.goesOn(3 * muteFor)
					return
				}
				c.endsBy(time.Duration(len(test.mute)) * (muteFor + 3*probeEvery))
				for _, i := range test.mute {
					m := c.mates[i]
					told := c.which(func(other *mate) bool {
						return strings.Contains(other.why, "idle but") && strings.Contains(other.why, m.id)
					})
					if len(told) == 0 || !m.over.IsZero() {
						t.Errorf("%v say that they end without %s, which has ended with work left: %v", told, m.id, !m.over.IsZero())
					}
				}
			})
		})
	}
}

// A node that was busy until the others knew that one is mute is told of the end; and if it is not, it ends by itself, as the others were there
// until they left.
func TestBusyWhileAnotherIsMute(t *testing.T) {
	for _, test := range []struct {
		told   bool
		within time.Duration
	}{{true, tellFor + 12*every}, {false, muteFor + 3*probeEvery}} { // a question without an answer takes five rounds
		withCrew(t, 5, 5, func(t *testing.T, c *crew) {
			c.idle(false, 0, 4)
			c.set(func() {
				c.gossip, c.mates[0].dead = true, true
				c.lose = func(to string, end bool) bool { return !test.told && end && to == c.mates[4].id }
			})
			c.goesOn(muteFor + 5*time.Minute)
			c.idle(true, 4)
			c.endsBy(test.within)
		})
	}
}

// A member that answers now and then is no mute one, nor is one that was not asked for long.
func TestNotMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Default(), Deps{})
		for _, step := range []struct {
			what          string
			every, during time.Duration // it is asked, and does not answer; every 0 stands for an answer
			mute          bool
		}{
			{"for less than ten minutes", time.Minute, muteFor, false},
			{"for ten minutes", time.Minute, time.Minute, true},
			{"after an answer", 0, 0, false},
			{"for less than ten minutes since the answer", time.Minute, muteFor - probeEvery, false},
			{"for long, without being asked in between", 2*probeEvery + time.Second, 2 * muteFor, false},
			{"after another answer", 0, 0, false},
			{"for ten minutes, asked now and then", 2 * probeEvery, muteFor + 2*probeEvery, true},
		} {
			if step.every == 0 {
				r.note("b", true)
			}
			for silent := step.every; silent <= step.during && step.every > 0; silent += step.every {
				time.Sleep(step.every)
				r.note("b", false)
			}
			if mute := len(r.present(view.View{Settled: []string{"a", "b", "c"}})) < 3; mute != step.mute {
				t.Errorf("it is silent %s: mute is %v", step.what, mute)
			}
		}
	})
}

// Of three nodes one is gone for good, and the others are replaced, half a minute apart. The newcomers have seen two nodes at most, and hear in time that three have been there.
func TestNewcomersHearInTimeThatAllWereThere(t *testing.T) {
	withCrew(t, 3, 3, func(t *testing.T, c *crew) {
		c.idle(false, 0, 1, 2)
		time.Sleep(5 * every)
		for i, id := range []string{"", "!2", "!1", idOf(9)} { // those with "!" are the ones to ask
			c.set(func() { c.mates[i].dead, c.mates[i].gone = true, true })
			if id != "" {
				c.joinAs(id)
				c.idle(i == 3, len(c.mates)-1)
			}
			time.Sleep(30 * time.Second)
		}
		c.idle(true, 4)
		c.endsBy(10 * every)
	})
}

// A node that does not know yet that all were there asks one again that has left and come back, because it may have heard of them meanwhile.
func TestWhoComesBackIsAskedAgain(t *testing.T) {
	r := New(Config{RoundEvery: every, ExpectedNodes: 3}, Deps{Ask: func(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
		return &wire.IdleResponse{}, nil
	}})
	for _, settled := range [][]string{{"a", "b"}, {"a"}, {"a", "b"}} {
		r.probe(t.Context(), view.View{Self: "a", Settled: settled}, settled)
		if there := len(settled) > 1; r.heard["b"] != there {
			t.Errorf("with %v it has heard of %v", settled, r.heard)
		}
	}
}
