package member_test

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/ncoord"
	"proxima/node/member"
	"proxima/node/netsim"
)

func TestNodesConverge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 16
		o := newOverlay(t, world(n, 7))
		o.startAll(n)
		time.Sleep(10 * time.Second)
		o.expect("after 10 s", upTo(n), upTo(n), upTo(n), true)
		time.Sleep(3 * time.Minute)
		o.expect("after 3 min", upTo(n), upTo(n), upTo(n), true)
		var errs, published, seen []float64
		for i := range n {
			for _, p := range o.nodes[i].View().Peers {
				j := slices.Index(ids(upTo(n)...), p.ID)
				if i == j {
					continue
				}
				s := o.nodes[i].sees(j)
				if !p.Placed || s.RTT == 0 || p.Addr != netsim.GossipAt(j) || s.Boot != 1 {
					t.Fatalf("node %d sees node %d as %+v, %+v", i, j, p, s)
				}
				if math.Abs(s.RTT-o.rtt(i, j)) > 1 {
					t.Errorf("round trip from %d to %d is %v, not %v", i, j, s.RTT, o.rtt(i, j))
				}
				errs = append(errs, math.Abs(ncoord.Distance(o.nodes[i].Coordinate(), p.Coord)-o.rtt(i, j))/o.rtt(i, j))
				self := o.nodes[i].sees(i)
				published = append(published, math.Abs(ncoord.Distance(self.Coord, p.Coord)-o.rtt(i, j))/o.rtt(i, j))
				own, _ := o.nodes[j].Addr(p.ID)
				if got, ok := o.nodes[i].Addr(p.ID); !ok || got != own {
					t.Errorf("node %d dials %q for node %d, which says %q", i, got, j, own)
				}
			}
			seen = append(seen, float64(o.nodes[i].count(member.EventSample, ""))/190)
			if k := o.nodes[i].count(member.EventDeath, ""); k > 0 {
				t.Errorf("node %d saw %d deaths", i, k)
			}
		}
		t.Logf("relative error of distances: median %.3f, samples a second: median %.2f", median(errs), median(seen))
		if m := median(errs); m > 0.06 {
			t.Errorf("median relative error is %.3f, above 0.06", m)
		}
		t.Logf("of what is published: median %.3f", median(published))
		if m := median(published); m > 0.12 {
			t.Errorf("median relative error of what is published is %.3f, above 0.12", m)
		}
		if m := median(seen); m < 0.95 {
			t.Errorf("%.2f samples a second, below 1", m)
		}
		for i := range n {
			if c := o.sent(i); c > 190*40 {
				t.Errorf("node %d sent %d packets in 190 s", i, c)
			}
		}
		o.close()
	})
}

// An answer counts from when its question was asked: one to a question from before a node stood still says nothing of the time since.
func TestAnswersToEarlierQuestionsDoNotCount(t *testing.T) {
	settled(t, flat(400), 3, func(t *testing.T, o *overlay) {
		n := o.nodes[0]
		for range 20 {
			n.Stopped()
			time.Sleep(200 * time.Millisecond) // half a round trip
			synctest.Wait()
			if n.View().Majority {
				t.Error("a majority before any answer can have come")
			}
		}
		time.Sleep(2 * time.Second)
		if v := n.View(); !v.Majority {
			t.Errorf("no majority when others have answered: %s", v.Reason)
		}
	})
}
