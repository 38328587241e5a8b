package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"proxima/ncoord"
)

func anywhere(rnd *rand.Rand) *ncoord.Location {
	return &ncoord.Location{Lat: -40 + 100*rnd.Float64(), Lon: -180 + 360*rnd.Float64()}
}

// published is a node anywhere that has published its factors and its coordinate, as if the globe were the space.
func published(rnd *rand.Rand, i int) Node {
	at := anywhere(rnd)
	return Node{ID: fmt.Sprintf("node%06d", i), Location: at, Coord: ncoord.Coordinate{Vec: chord(at).x, Height: 3, Error: 0.1},
		Factors: Factors{LoadMs: 15 * math.Exp(1.2*rnd.NormFloat64()), LoadError: 0.3, BytesPerMs: 1250 * math.Exp(rnd.NormFloat64()),
			BytesError: 0.3, Samples: 100}}
}

// large is a view of very many nodes and a batch of very many servers, spread over the globe: some nodes have only been heard of
// and have neither coordinate nor factors, some servers no location.
func large(nodes, servers int) (View, Batch) {
	rnd := rand.New(rand.NewPCG(1, 9))
	var v View
	for i := range nodes {
		n := published(rnd, i)
		if i%10 == 0 {
			n.Coord, n.Factors = ncoord.Coordinate{}, Factors{}
		}
		v.Nodes = append(v.Nodes, n)
	}
	b := Batch{ID: "large"}
	for i := range servers {
		s := Server{Addr: netip.AddrFrom4([4]byte{100, byte(i >> 16), byte(i >> 8), byte(i)})}
		if i%5 > 0 {
			s.Location = anywhere(rnd)
		}
		b.Servers = append(b.Servers, s)
	}
	return v, b
}

func decideLarge(t testing.TB, v View, b Batch) []Choice {
	t.Helper()
	now := time.Unix(0, 0)
	cfg := Default()
	cfg.Nearest.Estimates = 0
	a, err := New(Nearest, cfg, b, v, now)
	if err != nil {
		t.Fatal(err)
	}
	a.Asks(now)
	choices, done := a.Decide(now)
	if !done || len(choices) != len(b.Servers) {
		t.Fatalf("%d choices for %d servers, done %v", len(choices), len(b.Servers), done)
	}
	return choices
}

// Memory for a server does not grow with the nodes. All that is allocated is counted: what is in use at a time is less.
func TestLargeBatchInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("10,000 servers among 2,000 nodes are left out with -short")
	}
	v, b := large(2000, 10_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	choices := decideLarge(t, v, b)
	runtime.ReadMemStats(&after)
	kib := float64(after.TotalAlloc-before.TotalAlloc) / 1024 / float64(len(choices))
	t.Logf("%d servers among %d nodes: %.1f KiB a server allocated in all", len(choices), len(v.Nodes), kib)
	// A prediction of each node for each server would be 80 KiB a server alone.
	if kib > 40 {
		t.Errorf("%.1f KiB a server allocated, want at most 40", kib)
	}
}

// 100,000 servers among 10,000 nodes, nothing known of the servers but most locations: what a home would do that has to place
// them all at once.
func BenchmarkDecideLarge(b *testing.B) {
	v, batch := large(10_000, 100_000)
	var m runtime.MemStats
	for b.Loop() {
		decideLarge(b, v, batch)
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
	}
}

// Looking only at the nodes that may win must not lose the winner by much, whether nothing but a location is known, nothing at
// all, or some downloads by random nodes.
func TestCandidatesHoldTheBest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	rtt := func(a, b *ncoord.Location) float64 { return 5 + 0.018*ncoord.GreatCircleKm(*a, *b) }
	v := View{}
	for i := range 1000 {
		v.Nodes = append(v.Nodes, published(rnd, i))
	}
	for _, c := range []struct {
		what      string
		located   bool
		downloads int
		most      float64 // of the median and of the worst ratio
		worst     float64
	}{
		{"a location", true, 0, 1.01, 1.05}, {"nothing", false, 0, 1.01, 1.05}, {"6 downloads", false, 6, 1.01, 1.2},
		{"a location and 6 downloads", true, 6, 1.01, 1.05},
	} {
		var ratios []float64
		for range 60 {
			at := anywhere(rnd)
			var m Memory
			if c.located {
				m.Location = at
			}
			for range c.downloads {
				n := v.Nodes[rnd.IntN(len(v.Nodes))]
				ms := rtt(n.Location, at)
				d := func(x float64) time.Duration { return time.Duration(x * 1e6) }
				m.Observe(n.ID, n.Coord, Timing{Connect: d(ms), FirstByte: d(ms + 60), Total: d(3*ms + 60), Bytes: 20_000}, time.Unix(0, 0))
			}
			s := learntServer{memory: &m}
			l := newLearner(v, []*learntServer{&s}, 0)
			l.fit(m.latest())
			all := l.ranking(&s)
			if len(all) > 500 {
				t.Fatalf("%s: %d of %d nodes are candidates", c.what, len(all), l.live)
			}
			f, best := l.posterior(&s), math.Inf(1)
			for i := range l.live {
				best = min(best, l.predict(&s, f, i).ms)
			}
			ratios = append(ratios, all[0].ms/best)
		}
		slices.Sort(ratios)
		t.Logf("%s: the best candidate is %.3f of the best node's time at the median, %.3f at worst", c.what, ratios[30], ratios[59])
		if ratios[30] > c.most || ratios[59] > c.worst {
			t.Errorf("%s: the best candidate is %.3f of the best node's time at the median, %.3f at worst", c.what, ratios[30], ratios[59])
		}
	}
}
