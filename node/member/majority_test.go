package member_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

// Nodes die one after the other: the rest goes on as long as each time a majority was left.
func TestRollingDeath(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		rest := upTo(5)
		for _, i := range []int{1, 4, 2} {
			o.kill(i)
			rest = slices.DeleteFunc(rest, func(k int) bool { return k == i })
			time.Sleep(member.Default().MajorityWindow + time.Minute)
			o.expect("another death", rest, rest, rest, true)
		}
		o.kill(0)
		time.Sleep(30 * time.Minute)
		// Of two, the one with the higher id cannot know which of them is cut off.
		o.expect("alone", []int{3}, []int{3}, []int{3}, false)
	})
}

// A founder that restarts while its peers are gone takes itself neither for a founder nor for the majority.
func TestRestartedMinorityIsNoFounder(t *testing.T) {
	settled(t, flat(30), 4, func(t *testing.T, o *overlay) {
		for i := range 4 {
			o.kill(i)
		}
		o.start(0, 2) // it knows no address but those that it kept
		time.Sleep(2 * time.Hour)
		o.expect("hours alone", []int{0}, []int{0}, []int{0}, false)
		reason := o.nodes[0].View().Reason
		for _, part := range []string{"waiting for 3 of 4 nodes", netsim.ID(2)[:8], "not seen since this node started at " +
			netsim.GossipAt(2), "proxima go-alone"} {
			if !strings.Contains(reason, part) {
				t.Errorf("%q does not say %q", reason, part)
			}
		}
		o.start(1, 2, func(c *member.Config, _ *member.Deps) { c.Join = nil })
		time.Sleep(6 * time.Minute)
		// Half of the voters, with the lowest.
		o.expect("another is back", []int{0, 1}, []int{0, 1}, []int{0, 1}, true)
	})
}

// A newcomer makes no majority of a minority, and a node whose disk was erased is one.
func TestErasedDiskIsANewcomer(t *testing.T) {
	settled(t, flat(30), 3, func(t *testing.T, o *overlay) {
		o.kill(1)
		o.kill(2)
		o.start(5, 1)
		o.start(6, 1)
		o.start(7, 1)
		time.Sleep(15 * time.Minute)
		o.expect("with newcomers", []int{0, 5, 6, 7}, []int{0, 5, 6, 7}, []int{0}, false)
		o.start(2, 2)
		time.Sleep(3 * time.Minute)
		o.expect("one came back", []int{0, 2, 5, 6, 7}, []int{0, 2, 5, 6, 7}, []int{0, 2, 5, 6, 7}, true)
	})
}

// All others leave in order, at any pace: the last goes on.
func TestOthersLeave(t *testing.T) {
	for name, gap := range map[string]time.Duration{"at once": 0, "soon": time.Second, "slowly": 5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
				for _, i := range []int{0, 2, 1, 4} {
					if gap == 0 {
						o.nodes[i].stop()
						continue
					}
					o.leave(i)
					time.Sleep(gap)
				}
				if gap == 0 {
					for _, i := range []int{0, 2, 1, 4} {
						<-o.nodes[i].done
						delete(o.nodes, i)
					}
				}
				time.Sleep(10 * time.Second)
				o.expect("alone", []int{3}, []int{3}, []int{3}, true)
				// Who comes back finds it, and has a vote again.
				o.start(0, 2, func(c *member.Config, _ *member.Deps) { c.Join = []string{netsim.GossipAt(3)} })
				time.Sleep(2 * time.Minute)
				o.expect("two", []int{0, 3}, []int{0, 3}, []int{0, 3}, true)
				if v := o.nodes[3].View(); v.Voters != 2 {
					t.Errorf("%d voters", v.Voters)
				}
			})
		})
	}
}

// All stop in order at once, and start again another day.
func TestAllStopAndStart(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		o.close()
		clear(o.nodes)
		time.Sleep(24 * time.Hour)
		for i := range 5 {
			o.start(i, 2)
		}
		time.Sleep(10 * time.Second)
		o.expect("again", upTo(5), upTo(5), upTo(5), true)
	})
}

// A node that was away for long, at first alone, takes over what the others have decided.
func TestBackAfterLong(t *testing.T) {
	settled(t, flat(30), 3, func(t *testing.T, o *overlay) {
		o.kill(0)
		time.Sleep(20 * time.Minute)
		o.part([]int{0})
		o.start(0, 2)
		time.Sleep(30 * time.Minute)
		o.expect("cut off", []int{0}, []int{0}, []int{0}, false)
		o.expect("the others", []int{1, 2}, []int{1, 2}, []int{1, 2}, true)
		o.net.Heal()
		time.Sleep(8 * time.Minute)
		o.expect("back", upTo(3), upTo(3), upTo(3), true)
	})
}

// What a voter has promised is on its disk before anybody hears of it: without a majority that can write nothing is decided.
func TestVotersWithFullDisksDecideNothing(t *testing.T) {
	settled(t, flat(30), 3, func(t *testing.T, o *overlay) {
		full := func(are bool) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.nodes[1].full, o.nodes[2].full = are, are
		}
		full(true)
		o.start(3, 1)
		time.Sleep(3 * time.Minute)
		if n := o.nodes[0].View().Voters; n != 3 {
			t.Errorf("%d voters, by promises that nobody could keep", n)
		}
		full(false)
		time.Sleep(time.Minute)
		if n := o.nodes[0].View().Voters; n != 4 {
			t.Errorf("%d voters, when the disks have room", n)
		}
	})
}

// An operator says that those who are not seen are gone; when they come back after all, they follow.
func TestGoAlone(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		o.part([]int{3, 4})
		time.Sleep(20 * time.Minute)
		o.expect("cut off", []int{3, 4}, []int{3, 4}, []int{3, 4}, false)
		dropped, err := o.nodes[4].GoAlone("told")
		if want := ids(0, 1, 2); err != nil || !slices.Equal(dropped, want) {
			t.Errorf("dropped %v, want %v: %v", dropped, want, err)
		}
		time.Sleep(5 * time.Second)
		o.expect("alone", []int{3, 4}, []int{3, 4}, []int{3, 4}, true)
		if o.nodes[4].count(member.EventAlone, "") != 1 {
			t.Error("no event says so")
		}
		o.net.Heal()
		time.Sleep(8 * time.Minute)
		o.expect("healed", upTo(5), upTo(5), upTo(5), true)
		if v := o.nodes[0].View(); v.Voters != 5 {
			t.Errorf("%d voters", v.Voters)
		}
		if dropped, err := o.nodes[0].GoAlone("told"); err != nil || len(dropped) > 0 {
			t.Errorf("dropped %v of those that are there: %v", dropped, err)
		}
	})
}

func TestGoAloneAfter(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		o.part([]int{3, 4})
		time.Sleep(14 * time.Minute)
		o.expect("not yet", []int{3, 4}, []int{3, 4}, []int{3, 4}, false)
		time.Sleep(2 * time.Minute)
		o.expect("by itself", []int{3, 4}, []int{3, 4}, []int{3, 4}, true)
		if k := o.nodes[3].count(member.EventAlone, "") + o.nodes[4].count(member.EventAlone, ""); k != 1 {
			t.Errorf("told %d times", k)
		}
	}, func(c *member.Config, _ *member.Deps) { c.GoAloneAfter = 15 * time.Minute })
}

// Who has found that the crawl is over says so to all before it leaves. It is remembered whatever becomes of it, newcomers
// are told, and nobody is a minority because of those.
func TestOver(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		for i := range 4 {
			if v := o.nodes[4].View(); !slices.Equal(v.Over, ids(upTo(i)...)) {
				t.Errorf("after %d: over at %v", i, v.Over)
			}
			if err := o.nodes[i].Over(); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond) // gossip alone would take longer
			o.kill(i)                          // its farewell is lost
		}
		time.Sleep(30 * time.Minute)
		o.expect("all others are gone", []int{4}, []int{4}, []int{4}, true)
		o.start(5, 1, func(c *member.Config, _ *member.Deps) { c.Join = []string{netsim.GossipAt(4)} })
		time.Sleep(10 * time.Second)
		for _, i := range []int{4, 5} {
			if v := o.nodes[i].View(); !slices.Equal(v.Over, ids(0, 1, 2, 3)) {
				t.Errorf("node %d: over at %v", i, v.Over)
			}
		}
		// In a new life it has not said so.
		o.start(0, 2, func(c *member.Config, _ *member.Deps) { c.Join = []string{netsim.GossipAt(4)} })
		time.Sleep(10 * time.Second)
		if v := o.nodes[4].View(); !slices.Equal(v.Over, ids(1, 2, 3)) {
			t.Errorf("over at %v", v.Over)
		}
	})
}

// A node that is cut off knows within Config.HearWithin, however many members it has yet to find dead.
func TestCutOffNodeKnowsSoon(t *testing.T) {
	settled(t, flat(30), 12, func(t *testing.T, o *overlay) {
		o.part([]int{3})
		time.Sleep(member.Default().HearWithin + time.Second)
		if o.nodes[3].View().Majority {
			t.Error("a node that is cut off believes that it sees a majority")
		}
		if v := o.nodes[0].View(); !v.Majority || len(v.Missing) != 1 {
			t.Errorf("the others: majority %v, missing %v", v.Majority, v.Missing)
		}
		o.net.Heal()
		time.Sleep(20 * time.Second)
		o.expect("healed", []int{0, 3}, upTo(12), upTo(12), true)
	})
}

// A node that stood still may have been replaced meanwhile: it sees a majority when that has answered anew.
func TestStoppedNodeAsksAnew(t *testing.T) {
	settled(t, flat(30), 5, func(t *testing.T, o *overlay) {
		o.part([]int{3})
		o.nodes[3].Stopped()
		time.Sleep(100 * time.Millisecond)
		if o.nodes[3].View().Majority {
			t.Error("it believes that it sees a majority, which it saw before")
		}
		o.net.Heal()
		o.nodes[3].Stopped()
		time.Sleep(5 * time.Second)
		if v := o.nodes[3].View(); !v.Majority {
			t.Errorf("it sees no majority: %s", v.Reason)
		}
	})
}
