package member_test

import (
	"testing"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

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
