package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// manyNodes is a world with random round trips, bandwidths and thoughts.
func manyNodes(seed uint64, nodes, servers int) rundir.World {
	random := rand.New(rand.NewPCG(seed, 1))
	w := rundir.World{Scenario: "many", Seed: seed, Assigners: []string{"nearest", "vivaldi", "random", "geographic"}}
	for i := range nodes {
		w.Nodes = append(w.Nodes, rundir.Node{Name: fmt.Sprintf("n%02d", i), Down: 200 + 2000*random.Float64()})
		w.RTTMs = append(w.RTTMs, make([]float64, servers))
		w.NodeRTTMs = append(w.NodeRTTMs, make([]float64, nodes))
		for j := range i {
			w.NodeRTTMs[i][j] = 5 + 250*random.Float64()
			w.NodeRTTMs[j][i] = w.NodeRTTMs[i][j]
		}
	}
	for k := range servers {
		w.Servers = append(w.Servers, rundir.Server{Addr: netip.AddrFrom4([4]byte{198, 18, byte(k / 250), byte(1 + k%250)}),
			Hosts:   []string{fmt.Sprintf("h%03d.test", k)},
			ThinkMs: 5 + 100*random.Float64()})
		for i := range nodes {
			w.RTTMs[i][k] = 5 + 250*random.Float64()
		}
	}
	return w
}

// play is what a played crawl must give a row.
type play struct {
	urls                                int64
	measured, expected, best, bestShare float64
}

// crawl plays a comparison: nearest always chooses the best node, vivaldi the second best, random and geographic any. A download
// takes what it should, times noise.
func (b *bed) crawl(pages int) map[string]*play {
	labels := b.world.Assigners
	random := rand.New(rand.NewPCG(b.world.Seed, 2))
	truth := &b.world
	all := func(int) bool { return true }
	plays := map[string]*play{}
	for _, label := range labels {
		plays[label] = &play{}
	}
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	second := 10.0
	for k, s := range b.world.Servers {
		const size = 20_000
		best, _ := truth.Best(k, size, at(second), all)
		next, _ := truth.Best(k, size, at(second), func(i int) bool { return i != best })
		choice := map[string]int{"nearest": best, "vivaldi": next, "random": random.IntN(len(b.nodes)), "geographic": random.IntN(len(b.nodes))}
		batch := fmt.Sprintf("%.12s-1-%d", b.nodes[0].id, k/20+1)
		for _, label := range labels {
			b.nodes[0].decide(second, runlog.Assign{Batch: batch, Label: label, Host: s.Hosts[0], Owner: b.nodes[choice[label]].id})
			if choice[label] == best {
				plays[label].bestShare += 1 / float64(len(b.world.Servers))
			}
		}
		for page := range pages {
			made := map[int]bool{}
			for _, label := range labels {
				node := choice[label]
				second += .01
				should := truth.DownloadMs(node, k, size, at(second))
				_, least := truth.Best(k, size, at(second), all)
				took := should * math.Exp(.2*random.NormFloat64())
				if made[node] {
					continue
				}
				made[node] = true
				var mine []string
				for _, other := range labels {
					if choice[other] == node {
						mine = append(mine, other)
						p := plays[other]
						p.urls++
						p.measured, p.expected, p.best = p.measured+took, p.expected+should, p.best+least
					}
				}
				f := assigned(strings.Join(mine, ","), fmt.Sprintf("%s/%d", s.Hosts[0], page), took)
				f.Bytes = size
				f.Batch = batch
				b.nodes[node].fetch(second+took/1000, f)
			}
		}
	}
	for _, n := range b.nodes {
		n.queue(second+1, runlog.Queue{})
		n.stop()
	}
	return plays
}

// TestPlayedWorld: what was played is what is found. The log keeps microseconds and the compare float32: a thousandth is allowed.
func TestPlayedWorld(t *testing.T) {
	w := manyNodes(3, 10, 40)
	w.Pages = 40 * 30
	w.Events = []rundir.Event{
		{AtS: 12, Kind: rundir.EventBandwidth, Node: "n03", Factor: .2},
		{AtS: 16, Kind: rundir.EventSlow, Server: w.Servers[30].Addr, AddMs: 500},
		{AtS: 30, Kind: rundir.EventBandwidth, Node: "n03", Factor: 1},
	}
	b := newBed(t, t.TempDir(), w)
	plays := b.crawl(30)
	r := read(t, b.write())
	for label, p := range plays {
		a := r.of(t, label)
		if a.URLs != p.urls || a.Downloaded != p.urls || a.Failed != 0 {
			t.Errorf("%s: %d URLs, %d downloaded, want %d", label, a.URLs, a.Downloaded, p.urls)
		}
		near(t, label+" choice", a.ChoiceRatio, p.expected/p.best)
		near(t, label+" total", a.TotalRatio, p.measured/p.best)
		near(t, label+" mean", a.MeanMs, p.measured/float64(p.urls))
		near(t, label+" best share", a.BestShare, p.bestShare)
		if label != "random" {
			near(t, label+" difference", &a.Difference.Ms, (p.measured-plays["random"].measured)/float64(p.urls))
			if d := a.Difference; d.LowMs > d.Ms || d.HighMs < d.Ms || d.Servers != 40 || d.Pairs != p.urls {
				t.Errorf("%s: %+v", label, d)
			}
		}
	}
	if d := r.of(t, "nearest").Difference; d.High >= 0 {
		t.Errorf("nearest is not certainly better: %+v", d)
	}
	if d := r.of(t, "geographic").Difference; d.Low > 0 || d.High < 0 {
		t.Errorf("another draw is certainly different from random: %+v", d)
	}
	if !strings.HasPrefix(r.Headline(), "nearest was faster than all others: it needed ") {
		t.Errorf("headline %q", r.Headline())
	}
	near(t, "overlap", r.Crawl.Overlap, 0)
	near(t, "coverage of the list", r.Crawl.CoverageGenerated, 1)
	if r.Crawl.Lost == nil || *r.Crawl.Lost != 0 {
		t.Errorf("lost %v %s", r.Crawl.Lost, r.Crawl.Withheld)
	}
}

// TestRounds: in mode persistent pages are downloaded again and again on purpose.
func TestRounds(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	b.nodes[0].fetch(1, runlog.Fetch{URL: "http://a.test/1", TotalMs: 40, Bytes: 100})
	for round := 1; round <= 3; round++ {
		batch := fmt.Sprintf("%s.%d", batchOne, round)
		for i, label := range b.world.Assigners {
			b.nodes[0].decide(float64(10*round), runlog.Assign{Batch: batch, Label: label, Host: "a.test", Owner: b.nodes[i].id})
			page := assigned(label, "a.test/1", []float64{40, 500}[i])
			page.Batch = batch
			b.nodes[i].fetch(float64(10*round+i+1), page)
		}
	}
	r := read(t, b.write())
	near(t, "overlap", r.Crawl.Overlap, 0)
	if a := r.of(t, "nearest"); a.URLs != 3 || a.Downloaded != 3 || a.Decisions != 3 {
		t.Errorf("%+v", a)
	}
	near(t, "random total", r.of(t, "random").TotalRatio, 500./40)
}

// TestRoundOfOneAssigner: an estimate in a round is no download of the page.
func TestRoundOfOneAssigner(t *testing.T) {
	w := twoNodes()
	w.Assigners = []string{"nearest"}
	b := newBed(t, t.TempDir(), w)
	for i, page := range []runlog.Fetch{assigned("nearest", "a.test/1", 40), estimated("nearest", "a.test/1", 500)} {
		page.Batch += ".1"
		b.nodes[i].fetch(float64(2-i), page)
	}
	a := read(t, b.write()).of(t, "nearest")
	near(t, "mean", a.MeanMs, 40)
	near(t, "with estimates", a.TotalRatioWithEstimates, (40.+500)/80)
}
