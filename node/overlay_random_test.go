package node_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/ownership"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// Flags for more: go test ./node -run OverlayRandom -overlay.seed 1 -overlay.runs 100
var (
	overlaySeed = flag.Uint64("overlay.seed", 1, "first seed of TestOverlayRandom")
	overlayRuns = flag.Int("overlay.runs", 1, "seeds of TestOverlayRandom")
)

// Random faults of whole nodes: kills, stops, erased and older disks, nodes that never come back or come back at another address, partitions, broken
// paths, nodes that can dial nobody, or not reach the web or a site, full and hung disks, clocks that jump, slow accesses. Some nodes are behind NATs.
// Some sites have other addresses for each node, some share a server, some move to another one. Operators add seeds, move, block and drop hosts, drain
// and pause nodes, and rotate the secret. Sites fail for minutes. Some overlays use or compare other assigners than nearest, some have a limit for all
// pages or for those of a host, some visit pages again without end.
// In the end all is well again. Every page is crawled, or as many as the limits allow, all nodes end, and no server is asked twice at once (the judge
// sees to it).
func TestOverlayRandom(t *testing.T) {
	for i := range *overlayRuns {
		seed := *overlaySeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomly(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// troubles are the faults of one overlay.
type troubles struct {
	*bed
	rng     *rand.Rand
	paths   []string        // of each site
	ends    []func()        // of faults that last
	failed  map[int]bool    // sites that have failed
	bars    sync.Map        // the node that cannot reach a server, by its address
	hung    []atomic.Bool   // nodes whose disk does not answer
	erased  time.Time       // when a disk was erased last
	ids     int             // given to nodes with new disks
	alone   bool            // a node was told to go on without others
	lost    bool            // one node is lost for good
	behind  int             // nodes that were down when all others had ended
	disks   int             // that were erased, or of the node that is lost
	spread  int             // sites with as many addresses
	roams   []int           // sites that only the name server knows
	roamed  int             // that have moved to another server
	late    []string        // sites that are not begun yet
	added   map[string]int  // the nodes that began sites later
	blocked string          // a site that no node asks
	given   map[string]bool // sites that were blocked or dropped

	limit, hostLimit int64 // of pages; 0 for none
	again            bool  // pages are visited again, without end
}

const (
	randomSites = 10
	randomPages = 80 // a site has besides its front page
	randomFar   = 20 // a site has to which only other sites link
	randomLate  = 5  // sites that nothing links to
)

func randomly(t *testing.T, rng *rand.Rand) {
	at := append(square(), point{50, 50, 1})
	inBed(t, at, func(b *bed) {
		x := &troubles{bed: b, rng: rng, failed: map[int]bool{}, hung: make([]atomic.Bool, len(at)), ids: len(at), given: map[string]bool{}, added: map[string]int{}}
		b.moved = map[int]int{}
		mode := []string{placement.ModeCrawl, placement.ModeCycle}[rng.IntN(2)]
		gap := time.Duration(5+rng.IntN(9)) * time.Second
		assigners := []string{assign.Nearest}
		switch rng.IntN(8) {
		case 0:
			mode, assigners = placement.ModeCycle, []string{assign.Nearest, assign.Random}
		case 1:
			x.limit = 200 + rng.Int64N(randomSites*randomPages)
		case 2:
			x.hostLimit = 20 + rng.Int64N(randomPages)
		case 3:
			x.again = true
		case 4:
			assigners = []string{assign.Names()[rng.IntN(len(assign.Names()))]}
		}
		b.cfg = func(i int, c *node.Config) {
			c.Batch.Mode, c.Frontier.MinFreeMiB, c.Politeness.MinGap, c.Batch.Assigners = mode, 100, gap, assigners
			c.Crawl.MaxPages, c.Crawl.MaxHostPages = x.limit, x.hostLimit
			c.Recrawl.Enabled, c.Recrawl.Min, c.Recrawl.Max, c.Recrawl.Budget = x.again, 20*time.Minute, time.Hour, 0
			c.Member.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1), netsim.GossipAt(2)}
			for k := range x.spread {
				c.Fetch.DNS.Hosts[x.sites[k]] = []string{spreadAt(k, i%x.spread)}
			}
			for _, k := range x.roams {
				delete(c.Fetch.DNS.Hosts, x.sites[k])
			}
		}
		b.free = func(i int) {
			for x.hung[i].Load() {
				time.Sleep(time.Second)
			}
		}
		b.barred = func(i int, server netip.Addr) bool {
			who, barred := x.bars.Load(server)
			return barred && who == i
		}
		switch rng.IntN(6) {
		case 0:
			b.shield = behindNAT(3)
		case 1:
			b.shield = behindNAT(2, 3)
		}
		weight := 1 + rng.IntN(5000)
		b.sitesBeside(randomSites, randomPages, weight)
		x.spread = rng.IntN(4)
		for k := range x.spread {
			var addrs []string
			for j := range x.spread {
				addrs = append(addrs, spreadAt(k, j))
				b.servers[netip.MustParseAddr(spreadAt(k, j))] = beside(at[j])
			}
			b.Site(x.sites[k], addrs...).Took(20 * time.Millisecond).Weight(weight).Pages(randomPages)
		}
		for k := range rng.IntN(3) { // two sites at one server
			b.Site(x.sites[3+k], address(7+k)).Took(20 * time.Millisecond).Weight(weight).Pages(randomPages)
		}
		for k := range rng.IntN(3) {
			x.roams = append(x.roams, k+5)
			b.names.set(x.sites[k+5], address(k+5))
			b.servers[netip.MustParseAddr(roamsTo(k+5))] = beside(at[k])
			b.Site("other."+x.sites[k+5], roamsTo(k+5))
		}
		x.linked()
		for k := range randomLate {
			site := fmt.Sprintf("late%d.example", k)
			b.servers[netip.MustParseAddr(address(randomSites+k))] = beside(at[k])
			b.Site(site, address(randomSites+k)).Took(20 * time.Millisecond).Pages(randomPages)
			x.late = append(x.late, site)
		}
		b.startAll(2 * time.Second)
		b.awaitPages(20)
		for range 5 + rng.IntN(20) {
			if b.ended() {
				break
			}
			x.one()
			mean := 30 * time.Second
			if rng.IntN(12) == 0 {
				mean = 10 * time.Minute
			}
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(mean)))
			if len(x.ends) > 0 && rng.IntN(5) < 2 {
				x.end(rng.IntN(len(x.ends)))
			}
			if rng.IntN(8) == 0 {
				x.resume()
			}
		}
		for len(x.ends) > 0 {
			x.end(0)
		}
		x.resume()
		x.log("all is well")
		well, since := time.Now(), b.began
		if x.again {
			since = well
			for range 24 { // 6 hours
				time.Sleep(15 * time.Minute)
				if x.help(well); x.missing(since) == nil {
					break
				}
			}
		} else {
			b.await("the end of the crawl", 6*time.Hour, func() bool {
				x.help(well)
				return b.ended()
			})
			x.judgeEnd()
		}
		if missing := x.missing(since); x.limit+x.hostLimit == 0 && missing != nil {
			t.Error(missing)
		}
		none(t, pages(b.Visits(nil)), "though it is blocked", func(v Visit) bool { return v.Site == x.blocked && v.Start.After(well.Add(10*time.Minute)) })
		x.log("the end")
	})
}

// spreadAt is an address of a site that has several: the nodes do not look up the same one.
func spreadAt(site, i int) string {
	if i == 0 {
		return address(site)
	}
	return address(randomSites + randomLate + 10*i + site)
}

// roamsTo is the address to which a site moves.
func roamsTo(site int) string { return address(100 + site) }

// help does what an operator does for nodes that wait for a majority an hour after all was well: it stops those that came back when most others had
// ended, and tells one to go on without those that are gone for good if two are.
func (x *troubles) help(well time.Time) {
	if time.Since(well) < time.Hour {
		return
	}
	ended := slices.ContainsFunc(x.nodes, func(n *bedNode) bool { return !n.dead.Load() && n.hasEnded() })
	for i, n := range x.nodes {
		switch {
		case n.dead.Load() || n.hasEnded() || n.node.Status().Overlay.Majority:
		case !ended && x.disks >= 2 && !x.alone:
			gone, err := x.operator(i).GoAlone("ann")
			x.log("%s goes on without %v: %v", x.name(i), gone, err)
			x.alone = true
		case ended:
			x.log("%s came back too late", x.name(i))
			x.leave(i)
			x.behind++
		}
	}
}

// linked gives each site pages to which only another site links, or redirects.
func (x *troubles) linked() {
	x.paths = append(numbered(randomPages), "/")
	for n := range randomFar {
		far := fmt.Sprintf("/far%d", n)
		x.paths = append(x.paths, far)
		for i, from := range x.sites {
			to, page := x.sites[(i+1+n)%randomSites], fmt.Sprintf("/%d", n*randomPages/randomFar)
			if n%2 == 0 {
				x.Web.sites[from].Page(page, "http://"+to+far)
			} else {
				x.Web.sites[from].Page(page, "/to"+far).Redirect("/to"+far, "http://"+to+far)
			}
			x.Web.sites[to].Page(far)
		}
	}
}

// judgeEnd complains if nodes did not end as they should, or asked for more pages than the limits allow.
func (x *troubles) judgeEnd() {
	if x.limit == 0 {
		x.awaitEnd(time.Minute)
	}
	got, by := x.got(), map[string]int64{} // a page that comes again, as after a crash, counts once
	if n := int64(len(got)); x.limit > 0 && n > x.limit {
		x.t.Errorf("%d pages are asked for, of %d", n, x.limit)
	}
	for page := range got {
		site, _, _ := strings.Cut(page, "/")
		by[site]++
	}
	lost := map[string]int64{} // owners of a site that died or were cut off, perhaps with a request that their replica had not heard of
	for i := range x.nodes {
		for _, m := range logged[runlog.Member](x.bed, i, runlog.LogMember) {
			if m.Change == string(ownership.Took) {
				lost[strings.TrimPrefix(m.Host, "http://")]++
			}
		}
	}
	for site, n := range by {
		if x.hostLimit > 0 && n > x.hostLimit+lost[site] {
			x.t.Errorf("%d pages of %s are asked for, of %d, and %d owners were lost", n, site, x.hostLimit, lost[site])
		}
	}
}

// missing says which pages of which sites nobody asked for since a time. Two copies may be on disks of nodes that were down until all others had ended,
// or one of them on a disk that is lost. Then sites are left out of which the overlay said that it has no copy, and pages to which another site links.
func (x *troubles) missing(since time.Time) (list []string) {
	named, got := map[string]bool{}, map[string]bool{}
	for _, v := range x.Visits(nil) {
		got[v.Site+v.Path] = got[v.Site+v.Path] || !v.Start.Before(since)
	}
	for i := range x.nodes {
		for _, m := range logged[runlog.Member](x.bed, i, runlog.LogMember) {
			if m.Change == string(ownership.NoCopy) {
				named[strings.TrimPrefix(m.Host, "http://")] = true
			}
		}
	}
	paths := x.paths
	if x.behind == 0 || x.behind+x.disks < 2 {
		clear(named)
	} else {
		paths = paths[:len(paths)-randomFar]
	}
	for site := range x.given {
		named[site], paths = true, x.paths[:randomPages+1]
	}
	for _, site := range slices.Concat(x.sites, slices.Sorted(maps.Keys(x.added))) {
		by, later := x.added[site]
		if later {
			paths = x.paths[:randomPages+1]
		}
		if later && x.nodes[by].dead.Load() { // perhaps it told nobody
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return got[site+path] })
		if !named[site] && len(missing) > 0 {
			list = append(list, fmt.Sprintf("%d pages of %s are missing: %v", len(missing), site, missing))
		}
	}
	return list
}

func (x *troubles) log(format string, args ...any) {
	x.t.Logf("%9v %s", x.since(time.Now()).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// end ends a fault.
func (x *troubles) end(k int) {
	end := x.ends[k]
	x.ends = slices.Delete(x.ends, k, k+1)
	end()
}

// lasts notes how a fault ends.
func (x *troubles) lasts(what string, end func()) {
	x.log("%s", what)
	x.ends = append(x.ends, func() { x.log("no more: %s", what); end() })
}
