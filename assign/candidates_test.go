package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"proxima/ncoord"
)

// Looking only at the nodes that may win must not lose the winner by much, whether nothing but a location is known, nothing at
// all, or some downloads by random nodes.
func TestCandidatesHoldTheBest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	anywhere := func() *ncoord.Location {
		return &ncoord.Location{Lat: -40 + 100*rnd.Float64(), Lon: -180 + 360*rnd.Float64()}
	}
	rtt := func(a, b *ncoord.Location) float64 { return 5 + 0.018*ncoord.GreatCircleKm(*a, *b) }
	var v View
	for i := range 1000 {
		n := Node{ID: fmt.Sprintf("node%04d", i), Location: anywhere()}
		p := chord(n.Location)
		n.Coord = ncoord.Coordinate{Vec: p.x, Height: 3, Error: 0.1}
		n.Factors = Factors{LoadMs: 15 * math.Exp(1.2*rnd.NormFloat64()), LoadError: 0.3,
			BytesPerMs: 1250 * math.Exp(rnd.NormFloat64()), BytesError: 0.3, Samples: 100}
		v.Nodes = append(v.Nodes, n)
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
			at := anywhere()
			var m Memory
			if c.located {
				m.Location = at
			}
			for range c.downloads {
				n := v.Nodes[rnd.IntN(len(v.Nodes))]
				ms := rtt(n.Location, at)
				d := func(x float64) time.Duration { return time.Duration(x * 1e6) }
				m.Observe(n.ID, n.Coord, Timing{Connect: d(ms), FirstByte: d(ms + 60), Total: d(3*ms + 60), Bytes: 20_000, Fresh: true}, time.Unix(0, 0))
			}
			s := learnt(&m)
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
