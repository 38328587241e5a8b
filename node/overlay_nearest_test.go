package node_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/member"
	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// TestOverlayNearest: hosts go where they are fastest, by distance and by bandwidth.
func TestOverlayNearest(t *testing.T) { nearest(t, 8, 32, 80, 1.1, false) }

// TestOverlayLiar: a member that says it is far away from everything, and sure of it, changes nobody's choices. It is asked
// for estimates that it never makes, so homes decide later, some of them while the newest member becomes a home: a host or
// two stay where they were when the crawl is as short as here.
func TestOverlayLiar(t *testing.T) {
	nearest(t, 6, 18, 75, 1.25, true)
}

// nearest has nodes share out sites of one server each, and judges their choices by the paths: the least percentage of hosts
// at their best nodes, and the most that the expected time of the choices may be over the best time.
func nearest(t *testing.T, nodes, sites, percent int, over float64, lied bool) {
	at := append(scattered(3, nodes), point{300, 300, 5}) // the last has the seeds, and is near nothing
	inBed(t, at, func(b *bed) {
		const bytes, pages = 20_000, 70
		for i := range b.nodes {
			b.nodes[i].rate.Store([]int64{4e6, 1e6, 2e6}[i%3])
		}
		where := scattered(4, sites)
		for i, p := range where {
			b.site(fmt.Sprintf("s%d.test", i), address(i), p, pages, bytes)
		}
		if lied {
			b.early = func() {
				time.Sleep(90 * time.Second) // until newcomers do not count as members at once
				b.lie(fmt.Sprint("crawl v", peer.Version))
			}
		}
		b.startAll(80 * time.Second)
		b.awaitEnd(15 * time.Minute)
		b.complete(pages, false)
		for i := range b.nodes {
			met := slices.ContainsFunc(logged[runlog.Member](b, i, runlog.LogMember), func(m runlog.Member) bool {
				if m.Change == member.EventBadMeta {
					t.Errorf("%s cannot read what a liar says: %s", b.name(i), m.Reason)
				}
				return m.Peer == netsim.ID(len(at)) && m.Change == member.EventJoin
			})
			samples := slices.ContainsFunc(logged[runlog.Coord](b, i, runlog.LogCoord), func(c runlog.Coord) bool {
				return c.Peer == netsim.ID(len(at))
			})
			if met != lied || samples != lied {
				t.Errorf("%s has met a liar: %v, and has heard its lies: %v", b.name(i), met, samples)
			}
		}
		best, chosen, least := 0, time.Duration(0), time.Duration(0)
		for i, p := range where {
			site, owner := b.sites[i], 0
			by := b.by(site, b.began)
			for k := range b.nodes {
				if by[b.name(k)] > by[b.name(owner)] {
					owner = k
				}
			}
			nearest, there := b.nearest(p, bytes)
			here := b.expected(owner, p, bytes)
			if owner == nearest {
				best++
			} else {
				t.Logf("%s (home %s) at %s in %v, %s would take %v: %v", site, b.name(b.homeOf(site)), b.name(owner), here, b.name(nearest), there, by)
			}
			chosen, least = chosen+here, least+there
		}
		ratio := float64(chosen) / float64(least)
		t.Logf("%d of %d hosts at the best node, %.3f of the best time", best, sites, ratio)
		if best*100 < percent*sites || ratio > over {
			t.Errorf("%d of %d hosts at the best node, %.3f of the best time", best, sites, ratio)
		}
	})
}

// lie has a liar join at the place behind those of the nodes, in an overlay with a label. The forms are those of node/member: what it says can be read.
func (b *bed) lie(label string) {
	place := len(b.nodes)
	wild := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{50_000, -50_000}, Error: 0.001}
	part := func(to, b []byte) []byte { return append(binary.AppendUvarint(to, uint64(len(b))), b...) }
	coord := wild.AppendBinary(nil)
	says := part(part([]byte{1}, coord), assign.Factors{}.AppendBinary(nil)) // revision, coordinate, factors
	var liar netsim.Rogue
	liar.Meta = append([]byte{5, 1 << 2, 1}, make([]byte, 8)...) // version; placed; boot; stamp
	liar.Meta = part(append(liar.Meta, says...), []byte("192.0.2.1:7947"))
	liar.Ack = append(part([]byte{1, 1}, coord), says...)
	secret, err := peer.Load(b.secret)
	must(b.t, err)
	leave, err := liar.Join(netsim.ID(place), label, secret.GossipKeys()[0], b.enter(place)) // who met it is in the logs
	must(b.t, err)
	b.guests = append(b.guests, func() {
		if err := leave(); err != nil {
			b.t.Error(err)
		}
	})
}
