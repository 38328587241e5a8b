package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
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

// play is what a played crawl must give.
type play struct {
	measured, expected, best map[string]float64
	bestShare                map[string]float64
	urls                     int64
}

// crawl plays a comparison: nearest always chooses the best node, vivaldi the second best, random and geographic any. A download
// takes what it should, times noise.
func (b *bed) crawl(pages int, labels []string, only string) play {
	random := rand.New(rand.NewPCG(b.world.Seed, 2))
	truth := &b.world
	all := func(int) bool { return true }
	p := play{measured: map[string]float64{}, expected: map[string]float64{}, best: map[string]float64{}, bestShare: map[string]float64{}}
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	second := 10.0
	for k, s := range b.world.Servers {
		const size = 20_000
		best, _ := truth.Best(k, size, at(second), all)
		next, _ := truth.Best(k, size, at(second), func(i int) bool { return i != best })
		choice := map[string]int{"nearest": best, "vivaldi": next, "random": random.IntN(len(b.nodes)), "geographic": random.IntN(len(b.nodes))}
		batch := fmt.Sprintf("%.12s-1-%d", b.nodes[0].id, k/20+1)
		for _, label := range labels {
			b.nodes[0].decide(second, runlog.Assign{Batch: batch, Label: label, Host: s.Hosts[0], Server: s.Addr.String(),
				Owner: b.nodes[choice[label]].id})
			if choice[label] == best {
				p.bestShare[label] += 1 / float64(len(b.world.Servers))
			}
		}
		for page := range pages {
			p.urls++
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
						p.measured[other] += took
						p.expected[other] += should
						p.best[other] += least
					}
				}
				f := runlog.Fetch{URL: fmt.Sprintf("http://%s/%d", s.Hosts[0], page), Host: s.Hosts[0], Server: s.Addr.String(), TotalMs: took,
					Bytes:  size,
					Origin: runlog.OriginAssigned, Label: strings.Join(mine, ","), Batch: batch}
				if only != "" {
					f.Batch = "" // the owner's own download
				}
				b.nodes[node].fetch(second+took/1000, f)
			}
		}
	}
	for _, n := range b.nodes {
		n.queue(second+1, runlog.Queue{})
		n.stop()
	}
	return p
}

// TestPlayedWorld: what was played is what is found. The log keeps microseconds and the compare float32: a thousandth is allowed.
func TestPlayedWorld(t *testing.T) {
	w := manyNodes(3, 10, 40)
	w.Pages = 40 * 30
	w.Events = []rundir.Event{{AtS: 12, Kind: rundir.EventBandwidth, Node: "n03", Factor: .2}, {AtS: 16, Kind: rundir.EventSlow,
		Server: w.Servers[30].Addr, AddMs: 500},
		{AtS: 30, Kind: rundir.EventBandwidth, Node: "n03", Factor: 1}}
	b := newBed(t, t.TempDir(), w)
	p := b.crawl(30, w.Assigners, "")
	r := read(t, b.write())
	for _, label := range w.Assigners {
		a := r.of(t, label)
		if a.URLs != p.urls || a.Downloaded != p.urls || a.Failed != 0 {
			t.Errorf("%s: %d URLs, %d downloaded, want %d", label, a.URLs, a.Downloaded, p.urls)
		}
		near(t, label+" choice", a.ChoiceRatio, p.expected[label]/p.best[label])
		near(t, label+" total", a.TotalRatio, p.measured[label]/p.best[label])
		near(t, label+" mean", a.MeanMs, p.measured[label]/float64(p.urls))
		near(t, label+" best share", a.BestShare, p.bestShare[label])
		if label != "random" {
			near(t, label+" difference", &a.Difference.Ms, (p.measured[label]-p.measured["random"])/float64(p.urls))
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

// TestSeparateRuns: runs of one assigner each, with two seeds, beside a comparison.
func TestSeparateRuns(t *testing.T) {
	top := t.TempDir()
	plays := map[string]play{}
	for seed := range uint64(2) {
		for _, label := range []string{"nearest", "random"} {
			w := manyNodes(seed+1, 5, 12)
			w.Assigners = []string{label}
			b := newBed(t, filepath.Join(top, fmt.Sprint(seed+1), label), w)
			plays[fmt.Sprintf("%d%s", seed+1, label)] = b.crawl(20, w.Assigners, label)
			b.write()
		}
	}
	r := read(t, top)
	if len(r.Runs) != 4 {
		t.Fatalf("%d runs", len(r.Runs))
	}
	n, q := r.of(t, "nearest"), r.of(t, "random")
	var measured, best, base float64
	for seed := 1; seed <= 2; seed++ {
		p := plays[fmt.Sprintf("%dnearest", seed)]
		measured, best = measured+p.measured["nearest"], best+p.best["nearest"]
		base += plays[fmt.Sprintf("%drandom", seed)].measured["random"]
	}
	near(t, "total", n.TotalRatio, measured/best)
	if n.Difference == nil || n.Difference.Pairs != 2*12*20 || n.Difference.Servers != 24 {
		t.Fatalf("difference %+v", n.Difference)
	}
	near(t, "difference", &n.Difference.Ms, (measured-base)/(2*12*20))
	if len(n.Seeds) != 2 || n.Seeds[0].Seed != 1 || n.Seeds[1].Seed != 2 {
		t.Errorf("seeds %+v", n.Seeds)
	}
	near(t, "second seed", n.Seeds[1].Total, plays["2nearest"].measured["nearest"]/plays["2nearest"].best["nearest"])
	for _, a := range []Assigner{n, q} {
		if a.MakespanS == nil || *a.MakespanS <= 0 || a.BalanceCV == nil || a.Balance.MaxURLs == 0 {
			t.Errorf("%s: makespan %v %s, balance %+v", a.Name, a.MakespanS, a.MakespanWhy, a.Balance)
		}
	}
	// Beside a comparison they tell makespan and balance alone.
	w := manyNodes(1, 5, 12)
	b := newBed(t, filepath.Join(top, "all"), w)
	p := b.crawl(10, w.Assigners, "")
	b.write()
	r = read(t, top)
	n = r.of(t, "nearest")
	near(t, "total of the comparison", n.TotalRatio, p.measured["nearest"]/p.best["nearest"])
	if n.MakespanS == nil || n.URLs != 120 || n.Difference.Pairs != 120 {
		t.Errorf("makespan %v, %d URLs, %+v", n.MakespanS, n.URLs, n.Difference)
	}
	if v := r.of(t, "vivaldi"); v.MakespanS != nil || v.MakespanWhy == "" {
		t.Error("a makespan of vivaldi, which had no run of its own")
	}
}

// TestRounds: in mode persistent pages are downloaded again and again on purpose.
func TestRounds(t *testing.T) {
	w := twoNodes()
	b := newBed(t, t.TempDir(), w)
	server := w.Servers[0].Addr.String()
	page := runlog.Fetch{URL: "http://a.test/1", Host: "a.test", Server: server, TotalMs: 40, Bytes: 100}
	b.nodes[0].fetch(1, page)
	for round := 1; round <= 3; round++ {
		batch := fmt.Sprintf("%s.%d", batchOne, round)
		for i, label := range w.Assigners {
			b.nodes[0].decide(float64(10*round), runlog.Assign{Batch: batch, Label: label, Host: "a.test", Server: server, Owner: b.nodes[i].id})
			page.Origin, page.Label, page.Batch, page.TotalMs = runlog.OriginAssigned, label, batch, []float64{40, 500}[i]
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
	page := runlog.Fetch{URL: "http://a.test/1", Host: "a.test", Server: w.Servers[0].Addr.String(), TotalMs: 500, Label: "nearest",
		Batch: batchOne + ".1"}
	page.Origin = runlog.OriginEstimate
	b.nodes[1].fetch(1, page)
	page.Origin, page.TotalMs = runlog.OriginAssigned, 40
	b.nodes[0].fetch(2, page)
	a := read(t, b.write()).of(t, "nearest")
	near(t, "mean", a.MeanMs, 40)
	near(t, "with estimates", a.TotalRatioWithEstimates, (40.+500)/80)
}
