package member_test

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/member"
	"proxima/node/netsim"
)

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
