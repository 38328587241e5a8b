package node_test

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/crawl"
	"proxima/node/netsim"
	"proxima/node/placement"
	"proxima/node/runlog"
	"proxima/node/view"
)

// part cuts the overlay in two, or makes it whole; the web stays reachable from both sides.
func (b *bed) part(side []int, cut bool) {
	if !cut {
		b.net.Heal()
		return
	}
	var some []netip.Addr
	for _, i := range side {
		some = append(some, b.place(i))
	}
	b.net.Partition(some)
}

// TestOverlayPartition: each side of a partition asks only servers that the other does not ask (the judge sees to it), and
// within a minute after it has healed every host has one owner again.
func TestOverlayPartition(t *testing.T) {
	at := append(square(), point{50, 50, 1})
	inBed(t, at, func(b *bed) {
		for i := range 10 { // homes and owners on both sides, in all four ways
			b.site(b.homed(i%5), address(i), beside(at[(i*3+i/5)%5]), 400, 5000)
		}
		b.startAll(0)
		b.await("all hosts are assigned", 5*time.Minute, func() bool { return b.since(time.Now()) > 3*time.Minute })
		b.part([]int{0, 1}, true)
		time.Sleep(4 * time.Minute)
		during := map[string]map[string]int{} // pages of each site by node, in the last minute
		for _, s := range b.sites {
			during[s] = b.by(s, time.Now().Add(-time.Minute))
		}
		b.part([]int{0, 1}, false)
		time.Sleep(time.Minute)
		healed := time.Now()
		time.Sleep(2 * time.Minute)
		for _, s := range b.sites {
			if small := during[s]["n0"] + during[s]["n1"]; small > 0 {
				t.Errorf("%s was crawled on the smaller side when its time had run out: %v", s, during[s])
			}
			by := b.by(s, healed)
			moves, explored := b.turns(s, healed)
			t.Logf("%s: home n%d, %v while it was cut, %v after it healed, %d moves, %d explorations", s, b.homeOf(s), during[s], by,
				moves, explored)
			// In two minutes an owner explores a server at each of twelve looks at most, and another node must have been the better
			// one for half a minute before each move.
			if moves > 4 || explored > 12 || len(by) == 0 {
				t.Errorf("%s has several owners a minute after the overlay is whole: %v in %d moves and %d explorations", s, by, moves, explored)
			}
		}
		b.awaitEnd(30 * time.Minute)
		b.complete(400, true)
	})
}

// turns counts how often the pages of a site passed to another node since then. A single page between two of one node is an
// exploration; two owners that took turns would make many of either.
func (b *bed) turns(site string, since time.Time) (moves, explored int) {
	all := slices.DeleteFunc(b.pagesOf(site), func(v Visit) bool { return !v.Start.After(since) })
	for i := 1; i < len(all); i++ {
		switch owner := all[i-1].From; {
		case all[i].From == owner:
		case i+1 < len(all) && all[i+1].From == owner:
			explored++
			i++ // back
		default:
			moves++
		}
	}
	return moves, explored
}

// TestOverlaySlowNode: a node whose access becomes five times slower loses its hosts within a minute and a half, and gets
// some again when it has recovered.
func TestOverlaySlowNode(t *testing.T) {
	at := []point{{0, 0, 1}, {25, 0, 1}, {0, 25, 1}}
	inBed(t, at, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Politeness.MinGap, c.Politeness.Factor = 500*time.Millisecond, 0.5 }
		for i := range 3 {
			b.site(fmt.Sprintf("s%d.test", i), address(i), beside(at[0]), 4000, 100_000)
		}
		b.startAll(80 * time.Second)
		for _, s := range b.sites {
			b.owned(s, 0, 20, 10*time.Minute)
		}
		share := func() float64 { // of the pages of the last seconds, that of the node
			mine, all := 0, 0
			for _, s := range b.sites {
				for from, n := range b.by(s, time.Now().Add(-10*time.Second)) {
					if all += n; from == b.name(0) {
						mine += n
					}
				}
			}
			return float64(mine) / float64(max(all, 1))
		}
		b.nodes[0].rate.Store(2e6 / 5)
		lost := b.await("a slow node loses its hosts", 90*time.Second, func() bool { return share() < 0.1 })
		time.Sleep(30 * time.Second)
		if s := share(); s > 0.1 {
			t.Errorf("a slow node has %.2f of the pages again", s)
		}
		b.nodes[0].rate.Store(2e6)
		again := b.await("a node that has recovered gets hosts again", 15*time.Minute, func() bool { return share() > 0.25 })
		t.Logf("lost its hosts after %v, and had one again %v after it had recovered", lost, again)
	})
}

// TestOverlayFullOutboxes: two nodes whose outboxes are full for each other go on, and lose nothing.
func TestOverlayFullOutboxes(t *testing.T) {
	at := []point{{0, 0, 1}, {80, 0, 1}}
	inBed(t, at, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Peer.OutboxLinks, c.Peer.OutboxMessageLinks = 2, 2
			c.Politeness.MinGap, c.Politeness.Factor = 50*time.Millisecond, 0
		}
		const pages = 300
		for i := range 2 {
			b.site(b.homed(i), address(i), beside(at[i]), 0, 1000)
		}
		for i := range 2 { // every page links to three of the other site, none to its own
			s := b.Site(b.sites[i], address(i)).Took(5 * time.Millisecond)
			other := "http://" + b.sites[1-i] + "/"
			link := func(n int) string { return fmt.Sprint(other, n%pages) }
			s.Page("/", link(0), link(1), link(2), link(3))
			for n := range pages {
				s.Page(fmt.Sprint("/", n), link(3*n+1), link(3*n+2), link(3*n+3))
			}
		}
		b.startAll(0)
		b.awaitEnd(30 * time.Minute)
		b.complete(pages, false)
		t.Logf("ended after %v", b.since(time.Now()))
	})
}

// TestOverlayExplorerWithoutWeb: a node that cannot reach the web is asked for pages from time to time, and what it fails at
// is not held against their hosts.
func TestOverlayExplorerWithoutWeb(t *testing.T) {
	at := []point{{0, 0, 1}, {40, 0, 1}}
	inBed(t, at, func(b *bed) {
		const pages = 400
		b.cfg = func(_ int, c *node.Config) { c.Politeness.MinGap, c.Politeness.Factor = 200*time.Millisecond, 0 }
		b.site(b.homed(0), address(0), beside(at[0]), pages, 5000)
		b.startAll(80 * time.Second)
		b.await("the site is assigned", 5*time.Minute, func() bool { return b.nodes[0].node.Status().Overlay.Batch.HandedOff > 0 })
		b.Cut(b.name(1), true)
		cut := time.Now()
		b.awaitEnd(30 * time.Minute)
		b.complete(pages, false)
		asked := b.nodes[1].end.Rows[crawl.RowFailure]
		if longest := b.longestPause(b.sites[0], cut); asked == 0 || longest > 10*time.Second {
			t.Errorf("%d pages were asked for in vain, the longest pause was %v", asked, longest)
		}
	})
}

// TestOverlayFullNode: a node whose disk is full takes no links. The other goes on with its own sites all the same, and keeps the links. The crawl
// does not end without them, but when there is room again.
func TestOverlayFullNode(t *testing.T) {
	// With less than a quarter of what is to stay free, nothing is written.
	for what, free := range map[string]int64{"for pages": 50, "for anything": 10} {
		t.Run(what, func(t *testing.T) {
			at := []point{{0, 0, 1}, {60, 0, 1}, {60, 60, 1}}
			inBed(t, at, func(b *bed) {
				b.cfg = func(i int, c *node.Config) {
					switch i {
					case 0:
						c.Peer.OutboxLinks, c.Batch.Mode = 2, placement.ModeCrawl
					case 1:
						c.Frontier.MinFreeMiB = 100
					}
				}
				b.nodes[1].full.Store(free)
				full := b.homed(1)
				const sites, perSite = 12, 20
				b.site(full, address(sites), beside(at[1]), 0, 1000)
				to := b.Site(full, address(sites))
				for i := range sites { // more than there are fetchers
					name := b.homed(0)
					b.site(name, address(i), beside(at[0]), 0, 1000)
					s := b.Site(name, address(i)).Page("/", "/0")
					for n := range perSite {
						page := fmt.Sprintf("/%d-%d", i, n)
						s.Page(fmt.Sprint("/", n), fmt.Sprint("/", (n+1)%perSite), "http://"+full+page)
						to.Page(page)
					}
				}
				b.seeds = func(i int) []string {
					if i == 0 {
						return b.fronts()[1:]
					}
					return nil
				}
				b.startAll(80 * time.Second)
				b.await("all pages of the other sites", 5*time.Minute, func() bool {
					by := 0
					for _, v := range pages(b.Visits(nil)) {
						if v.Site != full && v.From == b.name(0) {
							by++
						}
					}
					return by >= sites*(perSite+1)
				})
				// The links of the last pages, which have only just been asked for, come a moment later.
				b.await("all links wait", time.Minute, func() bool { return b.nodes[0].node.Status().Overlay.Outbox >= sites*perSite })
				time.Sleep(20 * time.Minute)
				if slices.ContainsFunc(b.nodes, (*bedNode).hasEnded) {
					t.Fatal("a node has ended, though links wait")
				}
				b.nodes[1].full.Store(0)
				b.awaitEnd(30 * time.Minute)
				if n := len(b.got()); n != sites*(2*perSite+1) {
					t.Errorf("%d pages", n)
				}
			})
		})
	}
}

// TestOverlayEstimatorCutOff: a node that is cut off from the others goes on with the page that it was asked for. Its server
// is left alone until then (the judge sees to it), whoever gets it, and the batch does not wait for the end of it.
func TestOverlayEstimatorCutOff(t *testing.T) {
	at := []point{{0, 0, 1}, {40, 0, 1}, {0, 40, 1}}
	inBed(t, at, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Fetch.HeaderTimeout = time.Minute }
		site := b.homed(0)
		b.site(site, address(0), beside(at[2]), 60, 1000)
		b.Site(site, address(0)).Took(45 * time.Second).Pages(60)
		b.startAll(80 * time.Second)
		at1 := func() bool { // it is at work for the home
			all := b.pagesOf(site)
			return len(all) > 0 && all[len(all)-1].From == b.name(1) && all[len(all)-1].End.IsZero()
		}
		b.await("a peer makes an estimate", 30*time.Minute, at1)
		b.part([]int{1}, true)
		cut := time.Now()
		b.await("the batch is decided", time.Minute, func() bool { return b.nodes[0].node.Status().Overlay.Batch.HandedOff > 0 })
		if !at1() {
			t.Errorf("the batch was decided after %v only", time.Since(cut))
		}
		b.await("others go on", 5*time.Minute, func() bool { return b.by(site, cut)[b.name(1)] == 0 && len(b.by(site, cut)) > 0 })
		t.Logf("others go on after %v", time.Since(cut))
	})
}

// withoutRoom runs a test with three nodes, of which one has a disk too full to write anything.
func withoutRoom(t *testing.T, full int, set func(c *node.Config), test func(b *bed)) {
	inBed(t, []point{{0, 0, 1}, {60, 0, 1}, {60, 60, 1}}, func(b *bed) {
		b.cfg = func(i int, c *node.Config) {
			if set(c); i == full {
				c.Frontier.MinFreeMiB = 1 << 23 // eight times what there is
			}
		}
		test(b)
	})
}

// TestOverlayNodeWithoutRoom: a node that can write nothing still knows who is there, finds out how it is reached, and stops in order.
func TestOverlayNodeWithoutRoom(t *testing.T) {
	withoutRoom(t, 1, func(c *node.Config) { c.Crawl.End, c.Crawl.MaxPages = crawl.EndNever, 1000 }, func(b *bed) {
		b.startAll(time.Second)
		time.Sleep(2 * time.Minute)
		if reach := b.nodes[1].node.Status().Overlay.Reach.Reach; reach != "direct" {
			t.Errorf("it is reached by %q", reach)
		}
		b.kill(2)
		time.Sleep(time.Minute)
		all := logged[runlog.Member](b, 1, runlog.LogMember)
		if last := all[len(all)-1]; last.Members != 3 || !last.Majority {
			t.Errorf("it last saw %d settled members, majority %v", last.Members, last.Majority)
		}
	})
}

// TestOverlayGrantorWithoutRoom: leases are renewed by a node that can write nothing.
func TestOverlayGrantorWithoutRoom(t *testing.T) {
	withoutRoom(t, 1, func(c *node.Config) { c.Batch.Mode = placement.ModeCrawl }, func(b *bed) {
		here, all := 0, view.View{Homes: []string{netsim.ID(0), netsim.ID(1), netsim.ID(2)}}
		for all.Grantor(netip.MustParseAddr(address(here))) != netsim.ID(1) {
			here++
		}
		name := b.homed(0)
		b.site(name, address(here), beside(b.nodes[0].at), 600, 1000)
		b.startAll(time.Second)
		time.Sleep(2 * time.Minute)
		begun := time.Now()
		time.Sleep(18 * time.Minute)
		visits := b.pagesOf(name)
		if pause, since := b.longestPause(name, begun), time.Since(visits[len(visits)-1].Start); pause > 20*time.Second || since > 20*time.Second {
			t.Errorf("there was no page for %v, and at last for %v", pause, since)
		}
	})
}

// TestOverlayHungDisk: while the disk of a node does not answer, the others crawl its hosts. It takes part again when the disk does. If it never
// does, they end without it.
func TestOverlayHungDisk(t *testing.T) {
	const hung, perSite = 1, 50
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint(answers), func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) {
					c.Batch.Mode, c.Frontier.MinFreeMiB, c.Politeness.MinGap = placement.ModeCrawl, 1, 10*time.Second
				}
				var waits atomic.Bool
				defer waits.Store(false)
				b.free = func(i int) {
					for i == hung && waits.Load() {
						time.Sleep(time.Second)
					}
				}
				b.sitesBeside(10, perSite, 1)
				b.startAll(2 * time.Second)
				b.awaitPages(50)
				began := time.Now()
				waits.Store(true)
				time.Sleep(2 * time.Minute)
				if s := b.nodes[hung].node.Status(); s.Overlay.Majority || s.Frontier.Paused != "the disk does not answer" {
					t.Errorf("after two minutes it has a majority: %v, and is paused by %q", s.Overlay.Majority, s.Frontier.Paused)
				}
				if answers {
					time.Sleep(3 * time.Minute)
					waits.Store(false)
					b.await("it is there again", 2*time.Minute, func() bool { o := b.nodes[hung].node.Status().Overlay; return o.Majority && o.Alive == 5 })
					b.awaitEnd(3 * time.Hour)
				} else {
					others := slices.Delete(slices.Clone(b.nodes), hung, hung+1)
					b.await("the others end", 3*time.Hour, func() bool {
						return !slices.ContainsFunc(others, func(n *bedNode) bool { return !n.hasEnded() })
					})
					none(t, pages(b.Visits(nil)), "though its disk does not answer", func(v Visit) bool {
						return v.From == b.name(hung) && v.Start.After(began.Add(90*time.Second))
					})
				}
				b.complete(perSite, true)
			})
		})
	}
}
