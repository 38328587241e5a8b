package node_test

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node"
	"proxima/node/member"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// scattered are n points drawn on a plane of 200 by 120 ms.
func scattered(seed uint64, n int) []point {
	r := rand.New(rand.NewPCG(seed, 0))
	at := make([]point, n)
	for i := range at {
		at[i] = point{200 * r.Float64(), 120 * r.Float64(), 1 + 4*r.Float64()}
	}
	return at
}

func address(i int) string { return fmt.Sprintf("198.51.100.%d", i+1) }

// expected is what a page of a site costs a node over a fresh connection, without the server's think time.
func (b *bed) expected(i int, at point, bytes int) time.Duration {
	n := b.nodes[i]
	ms := netsim.DownloadMs(float64(n.at.trip(at))/float64(time.Millisecond), float64(n.rate.Load())/1000, 0, 0, int64(bytes))
	return time.Duration(ms * float64(time.Millisecond))
}

// nearest is the node that a page of a site costs the least, and what it costs there.
func (b *bed) nearest(at point, bytes int) (node int, cost time.Duration) {
	for k := range b.nodes {
		if c := b.expected(k, at, bytes); k == 0 || c < cost {
			node, cost = k, c
		}
	}
	return node, cost
}

// TestOverlayOfThirty: all find all others and their places, and what they crawl together ends at all of them.
func TestOverlayOfThirty(t *testing.T) {
	at := scattered(1, 30)
	inBed(t, at, func(b *bed) {
		for i := range 30 {
			b.site(fmt.Sprintf("s%d.test", i), address(i), scattered(2, 30)[i], 10, 2000)
		}
		b.cfg = func(_ int, c *node.Config) { c.Batch.URLs, c.Assign.Nearest.Estimates = 8, 6 }
		b.startAll(80 * time.Second)
		b.awaitEnd(15 * time.Minute)
		b.complete(10, false)
		t.Logf("ended after %v", time.Since(b.began))
		var places []ncoord.Coordinate
		for i := range at {
			members := logged[runlog.Member](b, i, runlog.LogMember)
			peers := map[string]bool{}
			for _, m := range members {
				switch m.Change {
				case member.EventJoin:
					peers[m.Peer] = true
				case member.EventDeath:
					t.Errorf("%s took %s for dead after %v", b.name(i), m.Peer, b.since(m.Time))
				}
			}
			if len(peers) != len(at)-1 {
				t.Errorf("%s met %d peers", b.name(i), len(peers))
			}
			samples := logged[runlog.Coord](b, i, runlog.LogCoord)
			last := samples[len(samples)-1]
			places = append(places, ncoord.Coordinate{Vec: [ncoord.MaxDims]float64(last.Vector), Height: last.HeightMs})
		}
		var errs []float64
		for i, p := range places {
			for j, q := range places[:i] {
				real := runlog.Ms(at[i].trip(at[j]))
				errs = append(errs, math.Abs(ncoord.Distance(p, q)-real)/real)
			}
		}
		slices.Sort(errs)
		median, high := errs[len(errs)/2], errs[len(errs)*9/10]
		t.Logf("relative error of the distances: median %.3f, 90th percentile %.3f", median, high)
		if median > 0.15 || high > 0.5 {
			t.Errorf("places are not found: relative error of the distances %.3f, 90th percentile %.3f", median, high)
		}
	})
}

// homeOf is the home of a host while all nodes are settled.
func (b *bed) homeOf(host string) int {
	var ids []string
	for i := range b.nodes {
		ids = append(ids, netsim.ID(i))
	}
	return slices.Index(ids, assign.Rendezvous(identity.RegistrableDomain(host), ids))
}

// homed is the name of a site whose home is a node.
func (b *bed) homed(home int) string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("h%d.test", i); b.homeOf(name) == home && !slices.Contains(b.sites, name) {
			return name
		}
	}
}

// TestOverlayEqualNodes: two nodes at one place share what there is to crawl.
func TestOverlayEqualNodes(t *testing.T) {
	for name, far := range map[string]float64{"near": 0, "far": 1} {
		t.Run(name, func(t *testing.T) {
			inBed(t, []point{{0, 0, 0}, {0, 0, 0}}, func(b *bed) {
				const pages, sites = 150, 40
				for i, p := range scattered(4, sites) {
					b.site(fmt.Sprintf("s%d.test", i), address(i), point{p.x * far, p.y * far, p.access * far}, pages, 20_000)
				}
				b.startAll(20 * time.Second)
				b.awaitEnd(15 * time.Minute)
				b.complete(pages, false)
				by := map[string]int{}
				for _, site := range b.sites {
					for node, n := range b.by(site, b.began) {
						by[node] += n
					}
				}
				t.Logf("pages by node: %v", by)
				all := by[b.name(0)] + by[b.name(1)]
				// Forty sites go to a node as a whole, and where the nodes' places differ by more than their doubt that decides: of
				// forty runs two gave 27 and 30 %, the others 36 and more. A node without a share would have below 5 %.
				for i := range b.nodes {
					if n := by[b.name(i)]; n*5 < all {
						t.Errorf("%s downloaded %d of %d pages, less than 20 %%", b.name(i), n, all)
					}
				}
			})
		})
	}
}

var overlayNodes = flag.Int("overlay.nodes", 10, "nodes of TestOverlayCost")

// TestOverlayCost counts messages, requests and answers, while ten nodes (or more) crawl in calm with the times of the testbed, where
// they are dearest: leases of 8 s, and some 2.3 pages a second for each node.
func TestOverlayCost(t *testing.T) {
	nodes := *overlayNodes
	at := append(scattered(3, nodes-1), point{300, 300, 5})
	inBed(t, at, func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Termination.ExpectedNodes, c.Termination.RoundEvery = nodes+1, time.Second
			c.Member.SettleAfter, c.Member.ForgetAfter, c.Member.MajorityWindow, c.Member.HearWithin = 2*time.Second, 10*time.Second, time.Minute, 4*time.Second
			c.Member.Redial, c.Member.RedialMax, c.Member.AnnounceEvery = 2*time.Second, 10*time.Second, 2*time.Second
			c.Lease.Time, c.Lease.Skew = 8*time.Second, 5*time.Second
			c.Ownership.RenewEvery, c.Ownership.SuspendAfter, c.Ownership.TakeAfter, c.Ownership.Collect = 3*time.Second, 9*time.Second, 14*time.Second, 4*time.Second
			c.RemoteWait, c.Peer.OutboxWait, c.Peer.OutboxBackoff = 20*time.Second, 500*time.Millisecond, 3*time.Second
		}
		for i, p := range scattered(4, nodes*48/10) {
			b.site(fmt.Sprintf("s%d.test", i), address(i), p, 140, 15_000)
		}
		b.startAll(20 * time.Second)
		count := func() (pages, all int, by map[string]int) {
			by = map[string]int{}
			for _, n := range b.nodes {
				s := n.node.Status()
				for name, p := range s.Overlay.Calls.Procedures {
					by[name] += int(p.MessagesSent)
					all += int(p.MessagesSent)
				}
				pages += int(s.Frontier.Done)
			}
			return pages, all, by
		}
		time.Sleep(time.Minute)
		pagesBefore, allBefore, before := count()
		time.Sleep(2 * time.Minute)
		pages, all, by := count()
		pages, all = pages-pagesBefore, all-allBefore
		for name := range by {
			by[name] -= before[name]
		}
		t.Logf("%d pages, %.2f messages a page: %v", pages, float64(all)/float64(pages), by)
		most := 4 + nodes/40 // with more nodes, fewer leases of a holder come from one grantor, and share its messages
		if pages < 200*nodes || all > most*pages || by["Idle"] > 24*nodes {
			t.Errorf("%d messages for %d pages: %v", all, pages, by)
		}
	})
}

// since is a time since the bed was made.
func (b *bed) since(t time.Time) time.Duration { return t.Sub(b.began).Round(time.Millisecond) }

// got are the pages that were downloaded, with how often; robots.txt files are none.
func (b *bed) got() map[string]int {
	n := map[string]int{}
	for _, v := range pages(b.Visits(nil)) {
		n[v.Site+v.Path]++
	}
	return n
}

// complete complains about pages that were not downloaded, or more often than once where nothing was killed. It returns how many came again.
func (b *bed) complete(pages int, repeats bool) (again int) {
	b.t.Helper()
	got, missing := b.got(), 0
	example := ""
	for _, site := range b.sites {
		for _, path := range append(numbered(pages), "/") {
			switch n := got[site+path]; {
			case n == 0:
				missing++
				example = fmt.Sprintf("%s%s is missing", site, path)
			case n > 1:
				again += n - 1
				example = fmt.Sprintf("%s%s came %d times", site, path, n)
			}
		}
	}
	if missing > 0 || again > 0 && !repeats {
		b.t.Errorf("%d pages are missing, %d came again: %s", missing, again, example)
	}
	return again
}

// by counts the pages of a site by the node that asked, from a time on.
func (b *bed) by(site string, from time.Time) map[string]int {
	n := map[string]int{}
	for _, v := range pages(b.Visits(At(site))) {
		if !v.Start.Before(from) {
			n[v.From]++
		}
	}
	return n
}

// pagesOf are the visits of a site's pages.
func (b *bed) pagesOf(site string) []Visit { return pages(b.Visits(At(site))) }

// longestPause is the longest time without a request for a page of a site, from a time until its last one.
func (b *bed) longestPause(site string, from time.Time) (longest time.Duration) {
	for _, v := range b.pagesOf(site) {
		if v.Start.After(from) {
			longest, from = max(longest, v.Start.Sub(from)), v.Start
		}
	}
	return longest
}
