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

func TestEndsEverywhere(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		withCrew(t, n, n, func(t *testing.T, c *crew) {
			c.goesOn(every * 9 / 8) // one idle round proves nothing
			c.endsBy(every * 2 / 5) // so all end at about the same time
			c.wg.Wait()             // Run returns by itself
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
	// busy changes what a node has to do, sees what nodes see, dead whether one answers.
	busy := func(i int, why string) func(c *crew) func() {
		return func(c *crew) func() {
			c.set(func() { c.mates[i].state.Idle, c.mates[i].state.Why = false, why })
			return func() { c.idle(true, i) }
		}
	}
	sees := func(what func(c *crew, of string, v view.View) view.View) func(c *crew) func() {
		return func(c *crew) func() {
			c.set(func() { c.view = func(of string, v view.View) view.View { return what(c, of, v) } })
			return func() { c.set(func() { c.view = nil }) }
		}
	}
	dead := func(i int) func(c *crew) func() {
		return func(c *crew) func() {
			c.set(func() { c.mates[i].dead = true })
			return func() { c.set(func() { c.mates[i].dead = false }) }
		}
	}
	for _, test := range []struct {
		name     string
		expected int
		// begin starts the trouble, lift ends it.
		begin func(c *crew) (lift func())
		// why is a part of the reason that the node that asks gives meanwhile.
		why string
	}{
		{"expected nodes missing", nodes + 1, func(c *crew) func() { return func() { c.join() } }, "4 of 5 nodes expected are there"},
		{"a node is busy", nodes, busy(2, "it has pages"), "it has pages"},
		{"the node that asks is busy", nodes, busy(0, "a batch"), "a batch"},
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
		{"a node does not answer", nodes, dead(3), "does not answer"},
		{"no view yet", nodes, sees(func(_ *crew, of string, _ view.View) view.View { return view.View{Self: of, Majority: true} }), ""},
		{"a node that has come back, and is not settled, is busy", nodes - 1, func(c *crew) func() { // it is told of the end, too
			sees(func(_ *crew, _ string, v view.View) view.View {
				v.Settled = v.Settled[:min(nodes-1, len(v.Settled))]
				return v
			})(c)
			return busy(nodes-1, "")(c)
		}, ""},
		{"the node that asks has died, and is still a member", nodes, func(c *crew) func() {
			time.Sleep(every * 9 / 8) // after one idle round
			dead(0)(c)
			return func() { c.set(func() { c.mates[0].gone = true }) } // the next one asks
		}, ""},
		{"all are busy until one has left", nodes, func(c *crew) func() { // they have seen all expected nodes
			c.idle(false, 0, 1, 2, 3)
			return func() {
				c.set(func() { c.mates[3].gone = true })
				c.idle(true, 0, 1, 2)
			}
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			withCrew(t, nodes, test.expected, func(t *testing.T, c *crew) {
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

// While a node is busy a round asks only that node. Only when it is idle are the others asked.
func TestOnlyTheBusyNodeIsAsked(t *testing.T) {
	withCrew(t, 10, 10, func(t *testing.T, c *crew) {
		messages := func() (n int) {
			c.set(func() { n, c.asked = c.asked, 0 })
			return n
		}
		c.idle(false, 7)
		time.Sleep(10*every + every/2)
		if n := messages(); n > 9+9 {
			t.Errorf("%d messages in ten rounds of which one node is busy", n)
		}
		c.idle(true, 7)
		c.idle(false, 0)
		time.Sleep(10 * every)
		if n := messages(); n > 0 {
			t.Errorf("%d messages while the node that asks is busy", n)
		}
		c.idle(true, 0)
		c.endsBy(4 * every)
	})
}

// Nodes make sure once a minute that the node that asks is there, whether they are idle or not.
func TestProbes(t *testing.T) {
	withCrew(t, 10, 10, func(t *testing.T, c *crew) {
		c.idle(false, 0, 5)
		time.Sleep(5*probeEvery + every)
		c.set(func() {
			if c.asked != 5*9 {
				t.Errorf("nine nodes asked %d times in five minutes", c.asked)
			}
		})
		c.idle(true, 0, 5)
		c.endsBy(3 * every)
	})
}

// Only the settled node with the lowest id can end a crawl, and only at nodes that are idle and armed.
func TestLiar(t *testing.T) {
	const stranger = "00000000000000000000000000000000" // lower than any
	for _, test := range []struct {
		name string
		from string
		bend func(c *crew, m *mate)
		over bool
	}{
		{"the lowest", idOf(1), func(*crew, *mate) {}, true},
		{"not the lowest", idOf(2), func(*crew, *mate) {}, false},
		{"itself", idOf(3), func(*crew, *mate) {}, false},
		{"the lowest, to a busy node", idOf(1), func(_ *crew, m *mate) { m.state.Idle = false }, false},
		{"the lowest, to a node that is not armed", idOf(1), func(_ *crew, m *mate) { m.rounds.met, m.rounds.cfg.ExpectedNodes = 0, 4 }, false},
		{"a stranger", stranger, func(*crew, *mate) {}, false},
		{"a stranger, to a node without a view", stranger, func(c *crew, _ *mate) {
			c.view = func(of string, _ view.View) view.View { return view.View{Self: of} }
		}, false},
	} {
		withCrew(t, 3, 3, func(t *testing.T, c *crew) {
			m := c.mates[2]
			m.rounds.met = 3
			c.set(func() { test.bend(c, m) })
			if _, err := m.rounds.Idle(c.ctx, test.from, &wire.IdleRequest{End: true}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := len(c.ended()) > 0; got != test.over {
				t.Errorf("an end told by %s: over is %v", test.name, got)
			}
		})
	}
}

// A node that comes back when the others have ended and left ends as well, if its earlier life saw all expected nodes.
func TestArmedInAnEarlierLife(t *testing.T) {
	for _, armed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := New(Config{RoundEvery: every, ExpectedNodes: 3}, Deps{Armed: armed,
				Arm:   func() { t.Error("one node counts as three") },
				Ended: func(string) {},
				Waits: func(string) {},
				View:  func() view.View { return view.View{Self: "a", Settled: []string{"a"}, Majority: true} },
				State: func() State { return State{Idle: true} }})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if over := r.Run(ctx); over != armed {
				t.Errorf("all expected nodes were there is %v, and it ended is %v", armed, over)
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
	withCrew(t, 2, 2, func(t *testing.T, c *crew) {
		time.Sleep(every / 2) // between two rounds
		for _, step := range []struct {
			why    string
			rounds time.Duration
		}{
			{"it has pages to download", 1}, {"7 links wait for other nodes", 1}, {"it has pages to download", 1}, // too short to be told
			{"8 links wait for other nodes", 4}, {"5 links wait for other nodes", 4}, {"3 links wait for other nodes", 4}, {"", 10},
		} {
			c.set(func() { c.mates[1].state.Idle, c.mates[1].state.Why = step.why == "", step.why })
			time.Sleep(step.rounds * every)
		}
		c.endsBy(0)
		c.set(func() {
			for i, want := range []string{c.mates[1].id + ": 8 links wait for other nodes", "8 links wait for other nodes"} {
				if got := c.mates[i].told; !slices.Equal(got, []string{want}) {
					t.Errorf("node %d told %q, not %q", i, got, want)
				}
			}
		})
	})
}
