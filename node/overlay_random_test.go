package node_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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

// Random faults of whole nodes: kills, stops, erased disks, partitions, broken paths, nodes that can dial nobody, or not reach the web, full and
// hung disks, clocks that jump, slow accesses, and operators who move hosts. In the end all is well again. Every page is crawled, all nodes end,
// and no server is asked twice at once (the judge sees to it).
func TestOverlayRandom(t *testing.T) {
	for i := range *overlayRuns {
		seed := *overlaySeed + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) { randomly(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

// troubles are the faults of one overlay.
type troubles struct {
	*bed
	rng    *rand.Rand
	ends   []func()      // of faults that last
	hung   []atomic.Bool // nodes whose disk does not answer
	erased time.Time     // when a disk was erased last
	ids    int           // given to nodes with new disks
	late   int           // nodes that were down when all others had ended
}

const (
	randomSites = 10
	randomPages = 80 // a site has besides its front page
)

func randomly(t *testing.T, rng *rand.Rand) {
	at := append(square(), point{50, 50, 1})
	inBed(t, at, func(b *bed) {
		x := &troubles{bed: b, rng: rng, hung: make([]atomic.Bool, len(at)), ids: len(at)}
		mode := []string{placement.ModeCrawl, placement.ModeCycle}[rng.IntN(2)]
		gap := time.Duration(5+rng.IntN(9)) * time.Second
		b.cfg = func(_ int, c *node.Config) {
			c.Batch.Mode, c.Frontier.MinFreeMiB, c.Politeness.MinGap = mode, 100, gap
			c.Member.Join = []string{netsim.GossipAt(0), netsim.GossipAt(1), netsim.GossipAt(2)}
		}
		b.free = func(i int) {
			for x.hung[i].Load() {
				time.Sleep(time.Second)
			}
		}
		b.sitesBeside(randomSites, randomPages, 1+rng.IntN(5000))
		b.startAll(2 * time.Second)
		b.awaitPages(20)
		for range 5 + rng.IntN(20) {
			if b.ended() {
				break
			}
			x.one()
			time.Sleep(time.Duration(rng.ExpFloat64() * float64(30*time.Second)))
			if len(x.ends) > 0 && rng.IntN(5) < 2 {
				x.end(rng.IntN(len(x.ends)))
			}
		}
		for len(x.ends) > 0 {
			x.end(0)
		}
		x.log("all is well")
		b.awaitEnd(6 * time.Hour)
		if missing := x.missing(); len(missing) > 0 {
			t.Errorf("pages are missing of %v", missing)
		}
		x.log("the end")
	})
}

// missing returns the sites of which pages are missing, but for those of which the overlay said that it has no copy: both may be on disks of nodes
// that were down until all others had ended.
func (x *troubles) missing() (sites []string) {
	named, got := map[string]bool{}, x.got()
	for i := range x.nodes {
		for _, m := range logged[runlog.Member](x.bed, i, runlog.LogMember) {
			if m.Change == string(ownership.NoCopy) {
				named[strings.TrimPrefix(m.Host, "http://")] = true
			}
		}
	}
	for _, site := range x.sites {
		all := !slices.ContainsFunc(append(numbered(randomPages), "/"), func(path string) bool { return got[site+path] == 0 })
		if !all && !(x.late > 1 && named[site]) {
			sites = append(sites, site)
		}
	}
	return sites
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

// faults are what may happen to a node.
var faults = []func(x *troubles, i int){
	(*troubles).isKilled, (*troubles).isKilled, (*troubles).leaves, (*troubles).losesItsDisk, (*troubles).isCutOff, (*troubles).losesAPath,
	(*troubles).isMute, (*troubles).losesTheWeb, (*troubles).isFull, (*troubles).hangs, (*troubles).jumps, (*troubles).isSlow, (*troubles).moves,
}

// one begins a fault of a node that is well enough for one.
func (x *troubles) one() {
	i := x.rng.IntN(len(x.nodes))
	if n := x.nodes[i]; !n.dead.Load() && !x.hung[i].Load() && !n.hasEnded() {
		faults[x.rng.IntN(len(faults))](x, i)
	}
}

// downs notes that a node is down until the fault ends. It stays down if the others have ended meanwhile.
func (x *troubles) downs(i int, what string) {
	x.lasts(x.name(i)+what, func() {
		if x.ended() {
			x.late++
		} else {
			x.start(i)
		}
	})
}

func (x *troubles) isKilled(i int) {
	x.kill(i)
	x.downs(i, " is killed")
}

func (x *troubles) leaves(i int) {
	x.leave(i)
	x.downs(i, " has left")
}

// losesItsDisk erases a disk. What is on it is on another one, unless that had a fault as well.
func (x *troubles) losesItsDisk(i int) {
	if len(x.ends) > 0 || time.Since(x.erased) < 5*time.Minute {
		return
	}
	x.kill(i)
	must(x.t, os.RemoveAll(filepath.Join(x.dir, x.name(i))))
	x.erased = time.Now()
	x.ids++
	data := x.config(i).Node.Data
	must(x.t, os.MkdirAll(data, 0o700))
	must(x.t, os.WriteFile(filepath.Join(data, "node.json"), fmt.Appendf(nil, `{"v":1,"node":%q,"boot":0}`, netsim.ID(x.ids)), 0o600))
	x.downs(i, " has lost its disk")
}

func (x *troubles) isCutOff(int) {
	side := x.rng.Perm(len(x.nodes))[:1+x.rng.IntN(2)]
	x.part(side, true)
	x.lasts(fmt.Sprint("partition of ", side), func() { x.part(nil, false) })
}

func (x *troubles) losesAPath(i int) {
	j := (i + 1 + x.rng.IntN(len(x.nodes)-1)) % len(x.nodes)
	x.net.Cut(netsim.Place(i), netsim.Place(j))
	x.lasts(fmt.Sprintf("no path between %s and %s", x.name(i), x.name(j)), func() { x.part(nil, false) })
}

func (x *troubles) isMute(i int) {
	x.nodes[i].mute.Store(true)
	x.lasts(x.name(i)+" dials nobody", func() { x.nodes[i].mute.Store(false) })
}

func (x *troubles) losesTheWeb(i int) {
	x.Cut(x.name(i), true)
	x.lasts(x.name(i)+" has no web", func() { x.Cut(x.name(i), x.nodes[i].dead.Load()) })
}

func (x *troubles) isFull(i int) {
	free := []int64{10, 50}[x.rng.IntN(2)] // for anything, for pages
	x.nodes[i].full.Store(free)
	x.lasts(fmt.Sprintf("%s has %d MiB free", x.name(i), free), func() { x.nodes[i].full.Store(0) })
}

func (x *troubles) hangs(i int) {
	x.hung[i].Store(true)
	x.lasts(x.name(i)+" has a hung disk", func() {
		x.hung[i].Store(false)
		if x.nodes[i].hasEnded() { // as a failure: it could write nothing more
			x.nodes[i].dead.Store(true)
			x.late++
		}
	})
}

func (x *troubles) jumps(i int) {
	d := time.Duration((x.rng.Float64() - 0.5) * float64(10*time.Hour))
	x.log("the clock of %s jumps by %v", x.name(i), d)
	x.nodes[i].jump.Add(int64(d))
}

func (x *troubles) isSlow(i int) {
	x.nodes[i].rate.Store(2e5)
	x.lasts(x.name(i)+" is slow", func() { x.nodes[i].rate.Store(2e6) })
}

func (x *troubles) moves(i int) {
	host := x.sites[x.rng.IntN(len(x.sites))]
	_, err := x.operator(i).Move(x.t.Context(), host, netsim.ID(x.rng.IntN(len(x.nodes))), "ann")
	x.log("%s is asked to move %s: %v", x.name(i), host, err)
}
