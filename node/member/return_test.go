package member_test

import (
	"bytes"
	"errors"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

func TestPartition(t *testing.T) {
	const n = 11
	settled(t, world(n, 5), n, func(t *testing.T, o *overlay) {
		small, large := []int{0, 1, 2, 3}, []int{4, 5, 6, 7, 8, 9, 10}
		o.part(small)
		time.Sleep(2 * time.Minute)
		o.expect("parted, the few", small, small, small, false)
		o.expect("parted, the many", large, large, large, true)
		if o.nodes[0].count(member.EventMinority, "") != 1 {
			t.Errorf("the minority was told %d times", o.nodes[0].count(member.EventMinority, ""))
		}
		o.net.Heal()
		took := o.agreed(upTo(n), 6*time.Minute)
		t.Logf("healed in %v", took)
		time.Sleep(20 * time.Second)
		o.expect("healed", upTo(n), upTo(n), upTo(n), true)
	})
}

// After the end nothing is sent, though goroutines of memberlist wait for answers that never come. They end soon.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, flat(30))
		o.startAll(3, func(c *member.Config, _ *member.Deps) { c.LeaveTimeout = 0 })
		time.Sleep(10 * time.Second)
		o.kill(1)
		o.kill(2)
		time.Sleep(1500 * time.Millisecond) // a probe waits
		n := o.nodes[0]
		delete(o.nodes, 0)
		n.stop()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
		sent := o.sent(0)
		time.Sleep(30 * time.Second)
		if k := o.sent(0) - sent; k > 0 {
			t.Errorf("%d packets were sent after the end", k)
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if k := bytes.Count(stacks, []byte("memberlist.(*Memberlist)")); k > 0 {
			t.Errorf("%d calls of memberlist are left", k)
		}
	})
}

// hearsay is how long news of a node may take: gossip misses one now and then, who hears of it when states are exchanged.
const hearsay = 35 * time.Second

func TestRestart(t *testing.T) {
	const n = 8
	settled(t, world(n+1, 6), n, func(t *testing.T, o *overlay) {
		for _, down := range []time.Duration{0, 30 * time.Second} {
			o.kill(3)
			time.Sleep(down)
			o.start(3, 2)
			time.Sleep(hearsay)
			o.expect("restarted", upTo(n), upTo(n), upTo(n), true)
			if p := o.nodes[1].sees(3); p.Boot != 2 {
				t.Errorf("after %v node 1 sees life %d", down, p.Boot)
			}
			time.Sleep(time.Minute)
			sent := o.sent(3)
			if o.leave(3); o.sent(3)-sent > 40 { // two packets to each, some again, and the gossip
				t.Errorf("a farewell takes %d packets", o.sent(3)-sent)
			}
			time.Sleep(2 * time.Second)
			o.start(3, 1)
			time.Sleep(90 * time.Second)
		}
		// Down for too long: it counts no more, and waits its turn.
		o.kill(3)
		time.Sleep(100 * time.Second)
		o.start(3, 3)
		time.Sleep(hearsay)
		o.expect("restarted late", upTo(n), upTo(n), []int{0, 1, 2, 4, 5, 6, 7}, true)
		time.Sleep(time.Minute)
		o.expect("settled again", upTo(n), upTo(n), upTo(n), true)
	})
}

func TestMovedAddress(t *testing.T) {
	settled(t, flat(40), 5, func(t *testing.T, o *overlay) {
		o.kill(3)
		o.start(9, 2, func(_ *member.Config, d *member.Deps) { d.ID = netsim.ID(3) })
		time.Sleep(20 * time.Second)
		o.expect("moved", []int{0, 1, 2, 4, 9}, upTo(5), upTo(5), true)
		if a, _ := o.nodes[1].Addr(netsim.ID(3)); a != netsim.GossipAt(9) {
			t.Errorf("node 1 dials %q", a)
		}
	})
}

func TestDuplicate(t *testing.T) {
	for _, c := range []struct {
		name string
		join int
		boot uint64
	}{{"by another node", 0, 2}, {"by its duplicate", 3, 2}, {"of the same life", 0, 1}} {
		t.Run(c.name, func(t *testing.T) {
			settled(t, flat(40), 5, func(t *testing.T, o *overlay) {
				duplicate := o.start(9, c.boot, func(cfg *member.Config, d *member.Deps) {
					d.ID, cfg.Join = netsim.ID(3), []string{netsim.GossipAt(c.join)}
				})
				select {
				case err := <-duplicate.done:
					if !errors.Is(err, member.ErrDuplicate) {
						t.Errorf("Run returned %v", err)
					}
				case <-time.After(30 * time.Second):
					t.Error("the duplicate runs on")
					duplicate.stop()
					<-duplicate.done
				}
				delete(o.nodes, 9)
				time.Sleep(20 * time.Second)
				o.expect("without the duplicate", upTo(5), upTo(5), upTo(5), true)
				if a, _ := o.nodes[1].Addr(netsim.ID(3)); a != netsim.GossipAt(3) {
					t.Errorf("node 1 dials %q", a)
				}
			})
		})
	}
}

func TestStrangersAreNotAdmitted(t *testing.T) {
	for name, change := range map[string]setup{
		"another secret": func(_ *member.Config, d *member.Deps) { d.Secrets = [][]byte{slices.Repeat([]byte{7}, 32)} },
		"another run":    func(_ *member.Config, d *member.Deps) { d.Run = "other" },
		"other times":    func(c *member.Config, _ *member.Deps) { c.Faster = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOverlay(t, flat(40))
				o.startAll(3)
				o.start(3, 1, change)
				time.Sleep(2 * time.Minute)
				o.expect("members", upTo(3), upTo(3), upTo(3), true)
				o.expect("stranger", []int{3}, []int{3}, []int{3}, false)
				if o.nodes[0].count(member.EventTrouble, "") == 0 {
					t.Error("nobody complained of the stranger")
				}
				if k := o.nodes[0].count(member.EventTrouble, ""); k > 121 {
					t.Errorf("%d complaints in two minutes", k)
				}
				o.close()
			})
		})
	}
}

// A node that gave its vote up while nobody heard it, and came back, is no voter before the next decision, for nobody: a death meanwhile does not
// leave the others waiting for it.
func TestUnheardFarewell(t *testing.T) {
	settled(t, flat(30), 4, func(t *testing.T, o *overlay) {
		o.part([]int{0})
		begin := time.Now()
		o.leave(0)
		if took, limit := time.Since(begin), member.Default().LeaveTimeout; took > limit {
			t.Errorf("a farewell that nobody hears takes %v, more than %v", took, limit)
		}
		o.net.Heal()
		o.start(0, 2)
		o.kill(1)
		rest := []int{0, 2, 3}
		time.Sleep(2 * time.Minute)
		o.expect("one left unheard and came back, one died", rest, rest, rest, true)
	})
}

// TestFarewellReachesWhomGossipMissed: a node that hears nothing while another one leaves hears the farewell all the same, as
// one: the gossip alone would tell it of an end later, and make no difference between that and a death.
func TestFarewellReachesWhomGossipMissed(t *testing.T) {
	for seed := range uint64(2) {
		const n = 10
		settled(t, world(n, seed), n, func(t *testing.T, o *overlay) {
			for i := range n {
				o.net.Cut(netsim.Place(4), netsim.Place(i))
			}
			time.AfterFunc(700*time.Millisecond, o.net.Heal)
			begin := time.Now()
			o.leave(0)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("leaving took %v", took)
			}
			rest := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
			o.expect("after a farewell", rest, rest, rest, true)
			time.Sleep(40 * time.Second)
			for _, i := range rest {
				if left, died := o.nodes[i].count(member.EventLeave, netsim.ID(0)), o.nodes[i].count(member.EventDeath, netsim.ID(0)); left != 1 || died > 0 {
					t.Errorf("seed %d: node %d was told %d times that the other left, and %d times that it died", seed, i, left, died)
				}
			}
		})
	}
}

// The last voter leaves while others wait to become voters: it makes them the voters, and they go on.
func TestLastVoterHandsOver(t *testing.T) {
	settled(t, flat(30), 1, func(t *testing.T, o *overlay) {
		o.start(1, 1)
		o.start(2, 1)
		time.Sleep(15 * time.Second)
		o.expect("two newcomers", upTo(3), upTo(3), []int{0}, true)
		o.leave(0)
		time.Sleep(2 * time.Second)
		o.expect("the only voter has left", []int{1, 2}, []int{1, 2}, []int{1, 2}, true)
	})
}
