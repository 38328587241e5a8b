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
		"another run":    func(_ *member.Config, d *member.Deps) { d.Label = "other" },
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

// Two of five are lost for good when a third is stopped in order. The others wait for it, and go on once it is back.
func TestStoppedWithoutAMajority(t *testing.T) {
	settled(t, flat(40), 5, func(t *testing.T, o *overlay) {
		o.kill(0)
		o.kill(1)
		time.Sleep(time.Minute)
		o.expect("two are dead", []int{2, 3, 4}, []int{2, 3, 4}, upTo(5), true)
		o.leave(4)
		time.Sleep(time.Minute)
		for _, i := range []int{2, 3} {
			if o.nodes[i].View().Majority {
				t.Errorf("node %d goes on", i)
			}
		}
		o.start(4, 2)
		time.Sleep(time.Minute)
		for _, i := range []int{2, 3, 4} {
			if v := o.nodes[i].View(); !v.Majority {
				t.Errorf("node %d waits: %s", i, v.Reason)
			}
		}
	})
}
