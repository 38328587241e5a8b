package termination

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

func TestEndsEverywhere(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, n, n)
			c.goesOn(every * 9 / 8) // one idle round proves nothing
			c.endsBy(every / 2)
			first, last := c.mates[0].over, c.mates[0].over
			for _, m := range c.mates {
				if m.over.Before(first) {
					first = m.over
				}
				if m.over.After(last) {
					last = m.over
				}
			}
			if spread := last.Sub(first); spread > every/2 {
				t.Errorf("%d nodes ended over %v", n, spread)
			}
			c.wg.Wait() // Run returns by itself
		})
	}
}

// Each of these keeps a crawl from ending for as long as it lasts, and no longer.
func TestGoesOn(t *testing.T) {
	const (
		nodes = 4
		long  = 5 * time.Minute
	)
	// repeat changes something between any two rounds, until lift.
	repeat := func(c *crew, change func(n int)) (lift func()) {
		lifted := false
		c.wg.Go(func() {
			time.Sleep(confirm / 2)
			for n := 0; c.ctx.Err() == nil; n++ {
				c.set(func() {
					if !lifted {
						change(n)
					}
				})
				time.Sleep(confirm)
			}
		})
		return func() { c.set(func() { lifted = true }) }
	}
	// state changes what a node has to do, sees what nodes see.
	state := func(i int, on, off func(s *State)) func(c *crew) func() {
		return func(c *crew) func() {
			c.set(func() { on(&c.mates[i].state) })
			return func() { c.set(func() { off(&c.mates[i].state) }) }
		}
	}
	sees := func(what func(c *crew, of string, v view.View) view.View) func(c *crew) func() {
		return func(c *crew) func() {
			c.set(func() { c.view = func(of string, v view.View) view.View { return what(c, of, v) } })
			return func() { c.set(func() { c.view = nil }) }
		}
	}
	idle, seeded := func(s *State) { s.Idle = true }, func(s *State) { s.Seeded = true }
	unseeded := func(s *State) { s.Seeded = false }
	for _, test := range []struct {
		name     string
		expected int
		// begin starts the trouble, lift ends it.
		begin func(c *crew) (lift func())
		// why is a part of the reason that the node that asks gives meanwhile.
		why string
	}{
		{"expected nodes missing", nodes + 1, func(c *crew) func() {
			return func() { c.join() }
		}, "4 of 5 nodes expected are there"},
		{"a node is busy", nodes, state(2, func(s *State) { s.Idle, s.Why = false, "it has pages" }, idle), "it has pages"},
		{"the node that asks is busy", nodes, state(0, func(s *State) { s.Idle, s.Why = false, "a batch" }, idle), "a batch"},
		{"seeds are not acknowledged", nodes, state(3, unseeded, seeded), "its seeds are not acknowledged"},
		{"seeds of the node that asks", nodes, state(0, unseeded, seeded), "its seeds are not acknowledged"},
		{"counters change between rounds", nodes, func(c *crew) func() {
			return repeat(c, func(int) { c.mates[1].state.Counters++ })
		}, ""},
		{"idle every other round", nodes, func(c *crew) func() {
			c.set(func() {
				c.lose = func(to string, _ bool) bool {
					if m := c.mates[1]; to == m.id {
						m.state.Idle = !m.state.Idle
					}
					return false
				}
			})
			return func() { c.set(func() { c.lose, c.mates[1].state.Idle = nil, true }) }
		}, ""},
		{"members change between rounds", nodes, func(c *crew) func() {
			n := 0
			c.join()
			c.join()
			back := sees(func(_ *crew, _ string, v view.View) view.View { // another of two newcomers each time
				v.Settled = append(v.Settled[:nodes:nodes], v.Settled[nodes+n%2])
				return v
			})(c)
			lift := repeat(c, func(i int) { n = i })
			return func() { lift(); back() }
		}, ""},
		{"the smaller side of a partition", nodes, sees(func(_ *crew, _ string, v view.View) view.View {
			v.Majority = false
			return v
		}), ""},
		{"a node sees other members", nodes, sees(func(c *crew, of string, v view.View) view.View {
			if of == c.mates[2].id {
				v.Settled = append(v.Settled, "f0000000000000000000000000000000")
			}
			return v
		}), "sees other members"},
		{"a node does not answer", nodes, func(c *crew) func() {
			c.set(func() { c.mates[3].dead = true })
			return func() { c.set(func() { c.mates[3].dead = false }) }
		}, "does not answer"},
		{"no view yet", nodes, sees(func(_ *crew, of string, _ view.View) view.View { return view.View{Self: of, Majority: true} }), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew(t, nodes, test.expected)
				lift := test.begin(c)
				c.goesOn(long)
				if why := c.mates[0].rounds.Why(); !strings.Contains(why, test.why) {
					t.Errorf("the reason is %q, not %q", why, test.why)
				}
				lift()
				c.endsBy(10 * every) // a question without an answer takes five rounds
			})
		})
	}
}

// A node that comes back with much to do, and is not settled yet: no node ends before it is idle, and it is told of the end.
func TestUnsettledNodeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 2)
		c.set(func() {
			c.view = func(_ string, v view.View) view.View {
				v.Alive = v.Settled
				if len(v.Settled) == 3 {
					v.Settled = v.Settled[:2]
				}
				return v
			}
			c.mates[2].state.Idle = false
		})
		c.goesOn(time.Minute)
		c.set(func() { c.mates[2].state.Idle = true })
		c.endsBy(3 * every)
	})
}

// While a node is busy a round asks only that node. Only when it is idle are the others asked.
func TestOnlyTheBusyNodeIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 10, 10)
		c.set(func() { c.mates[7].state.Idle = false })
		time.Sleep(10*every + every/2)
		messages := func() (n int) {
			c.set(func() { n, c.asked = c.asked, 0 })
			return n
		}
		if n := messages(); n > 9+9 {
			t.Errorf("%d messages in ten rounds of which one node is busy", n)
		}
		c.set(func() { c.mates[7].state.Idle, c.mates[0].state.Idle = true, false })
		time.Sleep(10 * every)
		if n := messages(); n > 0 {
			t.Errorf("%d messages while the node that asks is busy", n)
		}
		c.set(func() { c.mates[0].state.Idle = true })
		time.Sleep(4 * every)
		if n := len(c.ended()); n != 10 {
			t.Errorf("%d have ended", n)
		}
	})
}

// A node that is not told of the end finds it when it is the one to ask.
func TestMissedEnd(t *testing.T) {
	for _, test := range []struct {
		name   string
		misses []int
	}{{"one", []int{2}}, {"all others", []int{1, 2, 3}}} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, 4, 4)
			c.set(func() {
				c.lose = func(to string, end bool) bool {
					return end && slices.ContainsFunc(test.misses, func(i int) bool { return to == c.mates[i].id })
				}
			})
			c.endsBy(time.Duration(len(test.misses)+1) * (tellFor + 10*every))
			if last := c.mates[test.misses[0]].over; !last.After(c.mates[0].over) {
				t.Errorf("%s: nobody missed the end", test.name)
			}
		})
	}
}

// A node that got work after it had answered that it is idle does not end with the others.
func TestBusyAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 3)
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
		c.set(func() { c.mates[1].state.Idle = true })
		c.endsBy(3 * every) // by itself: the others are gone
	})
}

// When the node that asks dies, the next one asks.
func TestTheOneThatAsksDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 3)
		time.Sleep(every * 9 / 8)
		c.set(func() { c.mates[0].dead = true })
		c.goesOn(time.Minute) // the dead node is still a member
		c.set(func() { c.mates[0].gone = true })
		c.endsBy(10 * every)
	})
}

// Only the settled node with the lowest id can end a crawl, and only at nodes that are idle and armed.
func TestLiar(t *testing.T) {
	for _, test := range []struct {
		name   string
		from   int
		bend   func(m *mate)
		over   bool
		listed bool
	}{
		{"the lowest", 0, func(*mate) {}, true, true},
		{"not the lowest", 1, func(*mate) {}, false, true},
		{"itself", 2, func(*mate) {}, false, true},
		{"the lowest, to a busy node", 0, func(m *mate) { m.state.Idle = false }, false, true},
		{"the lowest, to a node that is not armed", 0, func(m *mate) { m.state.Seeded = false }, false, true},
		{"a stranger", -1, func(*mate) {}, false, true},
		{"a stranger, to a node without a view", -1, nil, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t, 3, 3)
			from := "00000000000000000000000000000000" // lower than any
			if test.from >= 0 {
				from = c.mates[test.from].id
			}
			m := c.mates[2]
			if test.bend == nil { // it was armed before its view was lost
				if _, err := m.rounds.Idle(c.ctx, from, &wire.IdleRequest{}); err != nil {
					t.Fatal(err)
				}
				test.bend = func(*mate) {}
			}
			c.set(func() {
				test.bend(m)
				if !test.listed {
					c.view = func(of string, _ view.View) view.View { return view.View{Self: of} }
				}
			})
			if _, err := m.rounds.Idle(c.ctx, from, &wire.IdleRequest{End: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := len(c.ended()) > 0; got != test.over {
				t.Errorf("an end told by %s: over is %v", test.name, got)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "expected_nodes") {
		t.Errorf("a crawl of no nodes: %v", err)
	}
}

// The node that waits and the node that asks each tell a reason once, even if the numbers in it change.
func TestReasonIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 2, 2)
		busy := func(why string) {
			c.set(func() { c.mates[1].state.Idle, c.mates[1].state.Why = why == "", why })
		}
		time.Sleep(every / 2) // between two rounds
		for _, why := range []string{"it has pages to download", "7 links wait for other nodes", "it has pages to download"} {
			busy(why)
			time.Sleep(every)
		}
		for _, why := range []string{"8 links wait for other nodes", "5 links wait for other nodes", "3 links wait for other nodes"} {
			busy(why)
			time.Sleep(4 * every)
		}
		busy("")
		time.Sleep(10 * every)
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := c.mates[1].told; !slices.Equal(got, []string{"8 links wait for other nodes"}) {
			t.Errorf("the node that waits told %q", got)
		}
		if got := c.mates[0].told; !slices.Equal(got, []string{c.mates[1].id + ": 8 links wait for other nodes"}) {
			t.Errorf("the node that asks told %q", got)
		}
		for _, m := range c.mates {
			if m.over.IsZero() {
				t.Error("it has not ended")
			}
		}
	})
}
