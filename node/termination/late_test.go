package termination

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// A message of the end that is lost is sent again.
func TestEndIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 4, 4)
		lost := 0
		c.set(func() {
			c.lose = func(to string, end bool) bool {
				if end && to == c.mates[2].id {
					lost++
				}
				return end && to == c.mates[2].id && lost <= 2
			}
		})
		c.endsBy(5*every + tellFor)
		if why := c.mates[2].why; !strings.Contains(why, "told by "+c.mates[0].id) {
			t.Errorf("it ended because of %q", why)
		}
	})
}

// A node is frozen for minutes while all others end. When it runs again it hears from gossip that they have ended, and ends.
func TestFrozenAtTheEnd(t *testing.T) {
	for name, work := range map[string]bool{"idle": false, "with work": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, 5, 5)
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
				c.set(func() { late.state.Idle = !work })
				time.Sleep(2 * time.Minute)
				if work {
					if len(c.ended()) != 4 {
						t.Fatal("it ended with work left")
					}
					c.set(func() { late.state.Idle = true })
				}
				c.endsBy(3 * every)
				if !strings.HasPrefix(late.why, "over at ") {
					t.Errorf("it ended because of %q", late.why)
				}
			})
		})
	}
}

// A node that hears nothing of the end, not even from gossip, ends after it has been idle and alone for five minutes. A node
// with work does not.
func TestDeafAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 4, 4)
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
		c.set(func() { c.mates[3].state.Idle = false })
		time.Sleep(5*time.Minute + 10*every)
		c.set(func() {
			if c.mates[2].over.IsZero() || !strings.Contains(c.mates[2].why, "nobody was there") {
				t.Errorf("node 2 has not ended: %q", c.mates[2].why)
			}
			if !c.mates[3].over.IsZero() {
				t.Errorf("node 3 has ended with work left: %q", c.mates[3].why)
			}
		})
	})
}

// Work moves from node to node, messages are lost, nodes freeze, and the node that asks may die while it tells the end. No node
// ends while there is work, and all end soon after.
func TestModel(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			n := 3 + rnd.IntN(4)
			c := newCrew(t, n, n)
			work := make([]int, n)
			for i := range work {
				work[i] = rnd.IntN(6)
			}
			show := func() { // under the lock
				for i, m := range c.mates {
					m.state.Idle = work[i] == 0
				}
			}
			crash := rnd.IntN(3) == 0
			c.set(func() {
				c.gossip = true
				show()
				c.lose = func(_ string, end bool) bool {
					if end && crash && rnd.IntN(3) == 0 {
						crash = false
						for _, m := range c.mates {
							if !m.gone && !m.dead {
								m.dead, m.gone = true, true
								break
							}
						}
					}
					return rnd.IntN(8) == 0
				}
			})
			total := func() (sum int) {
				for i, m := range c.mates {
					if !m.dead {
						sum += work[i]
					}
				}
				return sum
			}
			last := time.Now()
			for step := 0; step < 9000; step++ {
				time.Sleep(100 * time.Millisecond)
				var freeze *mate
				c.set(func() {
					for i, m := range c.mates {
						if !m.over.IsZero() && !m.dead && total() > 0 {
							t.Fatalf("seed %d: node %d ended, %q, with work %v", seed, i, m.why, work)
						}
						if work[i] == 0 || m.frozen != nil || rnd.IntN(20) > 0 {
							continue
						}
						work[i]--
						m.state.Counters++
						last = time.Now()
						if j := rnd.IntN(n); rnd.IntN(2) == 0 && !c.mates[j].dead {
							work[j]++ // it found a link
							c.mates[j].state.Counters++
						}
					}
					show()
					if step < 600 && rnd.IntN(150) == 0 {
						freeze = c.mates[rnd.IntN(n)]
					}
				})
				if freeze != nil {
					c.freeze(freeze, time.Duration(rnd.IntN(120))*time.Second)
				}
				c.mu.Lock()
				done := true
				for _, m := range c.mates {
					done = done && (m.dead || !m.over.IsZero())
				}
				c.mu.Unlock()
				if done {
					return
				}
			}
			state := ""
			for i, m := range c.mates {
				state += fmt.Sprintf("\n%d: over %v dead %v frozen %v work %d, %s", i, !m.over.IsZero(), m.dead, m.frozen != nil, work[i], m.rounds.Why())
			}
			t.Fatalf("seed %d: not all have ended %v after the last work:%s", seed, time.Since(last), state)
		})
		if t.Failed() {
			return
		}
	}
}

// A node that comes back when the others have ended and left ends as well, if its earlier life saw all expected nodes.
func TestArmedInAnEarlierLife(t *testing.T) {
	for _, armed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.ExpectedNodes = 3
			r := New(cfg, Deps{Armed: armed,
				Arm:   func() { t.Error("one node counts as three") },
				Ended: func(string) {},
				Waits: func(string) {},
				View:  func() view.View { return view.View{Self: "a", Settled: []string{"a"}, Majority: true} },
				State: func() State { return State{Idle: true, Seeded: true} }})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if over := r.Run(ctx); over != armed {
				t.Errorf("all expected nodes were there is %v, and it ended is %v", armed, over)
			}
		})
	}
}

// A node that has seen all expected nodes stays armed when some of them end and leave.
func TestArmedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 3)
		c.set(func() {
			for _, m := range c.mates {
				m.state.Idle = false
			}
		})
		c.goesOn(3 * every)
		c.set(func() {
			c.mates[2].gone = true
			for _, m := range c.mates {
				m.state.Idle = true
			}
		})
		c.endsBy(10 * every) // a question to the one that left may still be out
	})
}

// A member that answers nobody, though it counts as alive, holds up the end for ten minutes, whether it is the one that asks or
// not. It goes on: it has work, and does not hear of the end. Where half of all do not answer, nobody ends.
func TestMuteAtTheEnd(t *testing.T) {
	for name, test := range map[string]struct {
		nodes int
		mute  []int
		ends  bool
	}{"the one that asks": {5, []int{0}, true}, "another": {5, []int{3}, true}, "the first two": {5, []int{0, 1}, true}, "half": {4, []int{2, 3}, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, test.nodes, test.nodes)
				c.set(func() {
					for _, i := range test.mute {
						c.mates[i].dead, c.mates[i].state.Idle = true, false
					}
				})
				c.goesOn(muteFor)
				if !test.ends {
					c.goesOn(3 * muteFor)
					return
				}
				c.endsBy(time.Duration(len(test.mute)) * (muteFor + 3*probeEvery))
				for _, i := range test.mute {
					if !slices.ContainsFunc(c.mates, func(m *mate) bool {
						return strings.Contains(m.why, "idle but") && strings.Contains(m.why, c.mates[i].id)
					}) {
						t.Errorf("nobody says that it ends without %s", c.mates[i].id)
					}
				}
				for _, i := range test.mute {
					if m := c.mates[i]; !m.over.IsZero() {
						t.Errorf("%s has ended with work left: %q", m.id, m.why)
					}
				}
			})
		})
	}
}

// A node that was busy until the others knew that one is mute has not asked that one yet. It is told of the end all the same; and if it is not, it
// ends by itself, as the others were there until they left.
func TestBusyWhileAnotherIsMute(t *testing.T) {
	for name, deaf := range map[string]bool{"told": false, "not told": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, 5, 5)
				c.set(func() {
					c.gossip = true
					c.mates[0].dead, c.mates[0].state.Idle, c.mates[4].state.Idle = true, false, false
					c.lose = func(to string, end bool) bool { return deaf && end && to == c.mates[4].id }
				})
				c.goesOn(muteFor + 5*time.Minute)
				c.set(func() { c.mates[4].state.Idle = true })
				if deaf {
					c.endsBy(muteFor + 3*probeEvery)
				} else {
					c.endsBy(tellFor + 12*every) // a question without an answer takes five rounds
				}
			})
		})
	}
}

// Idle nodes make sure once a minute that the node that asks is there.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 10, 10)
		c.set(func() { c.mates[0].state.Idle, c.mates[5].state.Idle = false, false })
		time.Sleep(5*probeEvery + every)
		c.set(func() {
			if c.asked != 5*8 {
				t.Errorf("eight idle nodes asked %d times in five minutes", c.asked)
			}
			c.mates[0].state.Idle, c.mates[5].state.Idle = true, true
		})
		c.endsBy(3 * every)
	})
}

// A member that answers now and then is no mute one, nor is one that was not asked for long.
func TestNotMute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Default(), Deps{})
		mute := func() bool { return len(r.present(view.View{Settled: []string{"a", "b", "c"}})) < 3 }
		silent := func(every, during time.Duration) {
			for range during / every {
				time.Sleep(every)
				r.note("b", false)
			}
		}
		if silent(time.Minute, muteFor); mute() {
			t.Error("mute too early")
		}
		if silent(time.Minute, time.Minute); !mute() {
			t.Error("not mute after ten minutes")
		}
		if r.note("b", true); mute() {
			t.Error("mute after an answer")
		}
		if silent(time.Minute, muteFor-probeEvery); mute() {
			t.Error("the silence before the answer counts")
		}
		if silent(2*probeEvery+time.Second, 2*muteFor); mute() {
			t.Error("mute without having been asked in between")
		}
	})
}
