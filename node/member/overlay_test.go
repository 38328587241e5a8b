package member_test

import (
	"context"
	"fmt"
	"math"
	"net/netip"
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

func TestDeath(t *testing.T) {
	const n = 10
	settled(t, world(n, 2), n, func(t *testing.T, o *overlay) {
		changed := o.nodes[3].Changed()
		before := o.nodes[3].View().Version
		o.kill(5)
		rest := []int{0, 1, 2, 3, 4, 6, 7, 8, 9}
		time.Sleep(30 * time.Second)
		o.expect("30 s after a death", rest, rest, upTo(n), true)
		select {
		case <-changed:
		default:
			t.Error("Changed was silent about a death")
		}
		if o.nodes[3].View().Version == before {
			t.Error("Version did not grow")
		}
		if _, ok := o.nodes[3].Addr(netsim.ID(5)); ok {
			t.Error("a dead peer has an address")
		}
		time.Sleep(70 * time.Second)
		o.expect("100 s after a death", rest, rest, rest, true)
		if o.nodes[0].count(member.EventDeath, netsim.ID(5)) != 1 ||
			o.nodes[0].count(member.EventForgotten, netsim.ID(5)) != 1 {
			t.Error("the death was not told once")
		}
	})
}

func TestNewcomerWaits(t *testing.T) {
	settled(t, world(8, 4), 6, func(t *testing.T, o *overlay) {
		o.kill(4)
		time.Sleep(20 * time.Second)
		o.start(7, 1)
		time.Sleep(hearsay)
		// The newcomer never saw node 4, and counts it as the others do.
		o.expect("a newcomer came", []int{0, 1, 2, 3, 5, 7}, []int{0, 1, 2, 3, 5, 7}, upTo(6), true)
		time.Sleep(70 * time.Second)
		o.expect("it is settled", []int{0, 1, 2, 3, 5, 7}, []int{0, 1, 2, 3, 5, 7}, []int{0, 1, 2, 3, 5, 7}, true)
	})
}

func TestFoundersStaySettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, flat(50))
		for i := range 6 { // the last is 25 s younger than the first
			o.start(i, 1)
			time.Sleep(5 * time.Second)
		}
		for range 400 { // until 70 s after the first start
			time.Sleep(100 * time.Millisecond)
			o.expect("while growing", upTo(6), upTo(6), upTo(6), true)
			if t.Failed() {
				t.FailNow()
			}
		}
		o.start(6, 1)
		time.Sleep(hearsay)
		o.expect("a newcomer", upTo(7), upTo(7), upTo(6), true)
		time.Sleep(75 * time.Second) // a minute, and some for the news to spread
		o.expect("settled", upTo(7), upTo(7), upTo(7), true)
		o.close()
	})
}

func TestTwoLoneNodesMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, flat(20))
		o.start(0, 1)
		o.expect("alone", []int{0}, []int{0}, []int{0}, true)
		time.Sleep(2 * time.Minute)
		o.start(1, 1, func(c *member.Config, _ *member.Deps) { c.Join = []string{} })
		time.Sleep(5 * time.Second)
		o.expect("alone", []int{1}, []int{1}, []int{1}, true)
		// Node 2 knows both by one name: the older overlay is the one that counts.
		o.start(2, 1, func(c *member.Config, d *member.Deps) {
			c.Join = []string{fmt.Sprintf("nodes.test:%d", netsim.GossipPort)}
			d.Resolve = func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.AddrFrom16(netsim.Place(0).As16()), netsim.Place(1)}, nil
			}
		})
		time.Sleep(5 * time.Second)
		o.expect("met", upTo(3), upTo(3), []int{0}, true)
		time.Sleep(time.Minute)
		o.expect("later", upTo(3), upTo(3), upTo(3), true)
		o.close()
	})
}
