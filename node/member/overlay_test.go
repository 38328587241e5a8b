package member_test

import (
	"context"
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
			for _, p := range o.nodes[i].View().Members {
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

// With every preset all notice a death in time, and nobody takes the living for dead.
func TestPresets(t *testing.T) {
	for preset, limit := range map[string]time.Duration{
		member.PresetLAN:     12 * time.Second,
		member.PresetTestbed: 16 * time.Second,
		member.PresetWAN:     30 * time.Second,
	} {
		t.Run(preset, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 16
				o := newOverlay(t, world(n, 12))
				o.startAll(n, func(c *member.Config, _ *member.Deps) { c.Preset = preset })
				time.Sleep(30 * time.Second)
				packets, bytes := o.net.Sent(netsim.Place(1))
				time.Sleep(20 * time.Second)
				allPackets, allBytes := o.net.Sent(netsim.Place(1))
				t.Logf("a node sends %d packets and %d bytes a second", (allPackets-packets)/20,
					(allBytes-bytes)/20)
				o.kill(7)
				noticed := map[int]time.Duration{}
				for begin := time.Now(); len(noticed) < n-1 && time.Since(begin) < limit; time.Sleep(100 * time.Millisecond) {
					for i, m := range o.nodes {
						if _, ok := m.Addr(netsim.ID(7)); !ok && noticed[i] == 0 {
							noticed[i] = time.Since(begin)
						}
					}
				}
				var first, last time.Duration
				for _, d := range noticed {
					if first == 0 || d < first {
						first = d
					}
					last = max(last, d)
				}
				t.Logf("a death is noticed after %v by the first, %v by the last", first, last)
				if len(noticed) < n-1 {
					t.Errorf("%d of %d noticed a death within %v", len(noticed), n-1, limit)
				}
				for i, m := range o.nodes {
					if k := m.count(member.EventDeath, ""); k != 1 {
						t.Errorf("node %d saw %d deaths", i, k)
					}
				}
				o.close()
			})
		})
	}
}

// When the second founder says that it is settled, no packet reaches the first one for a second. The first one never takes it for a newcomer:
// it would take its hosts for its own.
func TestNewsOfAFounderThatGetLost(t *testing.T) {
	const settleAfter = 20 * time.Second
	for range 6 {
		synctest.Test(t, func(t *testing.T) {
			o := newOverlay(t, flat(60))
			defer o.close()
			calm := func(c *member.Config, _ *member.Deps) {
				c.Preset, c.SettleAfter, c.AnnounceEvery = member.PresetLAN, settleAfter, time.Hour
			}
			began := time.Now()
			first := o.start(0, 1, calm)
			time.Sleep(200 * time.Millisecond)
			o.start(1, 1, calm)
			time.Sleep(settleAfter - 100*time.Millisecond - time.Since(began))
			o.net.Shield(netsim.Place(0), false, true)
			time.AfterFunc(1300*time.Millisecond, func() { o.net.Shield(netsim.Place(0), false, false) })
			for time.Since(began) < 2*settleAfter {
				time.Sleep(50 * time.Millisecond)
				if v := first.View(); len(v.Settled) != 2 {
					t.Fatalf("after %v it sees %v", time.Since(began), v.Settled)
				}
			}
		})
	}
}

// A node joins by a name soon, however many of its addresses are those of nodes that are gone.
func TestJoiningByANameWithDeadAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, flat(30))
		o.startAll(3)
		gone := []netip.Addr{netsim.Place(20), netsim.Place(21), netsim.Place(22)}
		for _, a := range gone {
			o.net.Add(a)
		}
		o.net.Partition(gone)
		time.Sleep(10 * time.Second)
		o.start(3, 1, func(c *member.Config, d *member.Deps) {
			c.Join = []string{"nodes.test:7946"}
			d.Resolve = func(context.Context, string) ([]netip.Addr, error) { return append(gone[:3:3], netsim.Place(0)), nil }
		})
		time.Sleep(5 * time.Second)
		o.expect("after 5 s", upTo(4), upTo(4), upTo(4), true)
		o.close()
	})
}

// Of two nodes with one id that do not reach each other, as behind NATs, neither ends. They say so, now and then.
func TestTwinOutOfReach(t *testing.T) {
	settled(t, flat(40), 5, func(t *testing.T, o *overlay) {
		o.net.Cut(netsim.Place(3), netsim.Place(9))
		o.start(9, 2, func(_ *member.Config, d *member.Deps) { d.ID = netsim.ID(3) })
		time.Sleep(4 * time.Minute)
		told := func() int {
			return o.nodes[3].count(member.EventDuplicate, "") + o.nodes[9].count(member.EventDuplicate, "")
		}
		if n := told(); n > 0 {
			t.Errorf("they tell of each other %d times within 4 minutes: it may be an earlier life", n)
		}
		time.Sleep(56 * time.Minute)
		if n := told(); n < 3 || n > 12 {
			t.Errorf("they tell of each other %d times in an hour", n)
		}
	})
}

// A node whose earlier life knew many members that are gone, because all have other addresses now, joins soon after one of those that it is to
// join has started.
func TestJoiningWhereAllHaveMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlay(t, flat(30))
		var gone []netip.Addr
		for i := range 40 {
			gone = append(gone, netsim.Place(20+i))
			o.net.Add(gone[i])
		}
		o.net.Partition(gone)
		o.net.Add(netsim.Place(0))
		o.start(1, 1, func(_ *member.Config, d *member.Deps) {
			for _, a := range gone {
				d.Known = append(d.Known, netip.AddrPortFrom(a, netsim.GossipPort).String())
			}
		})
		time.Sleep(3 * time.Second)
		o.start(0, 1)
		time.Sleep(5 * time.Second)
		o.expect("5 s later", upTo(2), upTo(2), upTo(2), true)
		o.close()
	})
}
