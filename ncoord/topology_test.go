package ncoord_test

import (
	"math"
	"math/rand/v2"
	"testing"
)

// topology makes a matrix of a distance.
func topology(n int, distance func(a, b int) float64) matrix {
	m := make(matrix, n)
	for i := range m {
		m[i] = make([]float64, n)
		for k := range m[i] {
			if i != k {
				m[i][k] = distance(i, k)
			}
		}
	}
	return m
}

// onGrid is how far two of the places on a grid of this width are from each other.
func onGrid(a, b, width int) float64 {
	return math.Hypot(float64(a%width-b%width), float64(a/width-b/width))
}

func TestTopologies(t *testing.T) {
	height := func(i int) float64 { return float64(1 + 7*(i%5)) }
	for _, c := range []struct {
		name           string
		m              matrix
		rounds         int
		median, p95    float64
		wrongOf14, off float64 // share of wrong choices, mean loss in ms
	}{
		{"line", topology(40, func(a, b int) float64 { return 10 * math.Abs(float64(a-b)) }), 400, 0.05, 0.35, 0.25, 2},
		{"grid", topology(49, func(a, b int) float64 { return 20 * onGrid(a, b, 7) }), 400, 0.06, 0.30, 0.15, 2},
		{"clusters", topology(48, func(a, b int) float64 {
			if a%3 == b%3 {
				return 4
			}
			return 120
		}), 400, 0.02, 0.60, 0, 0},
		{"heights", topology(48, func(a, b int) float64 { return 30*onGrid(a, b, 7) + height(a) + height(b) }), 400, 0.06, 0.30, 0.35, 4},
		{"one place", topology(30, func(a, b int) float64 { return 0.2 }), 400, 0.05, 0.10, 0, 0},
		{"thirty in two minutes", topology(30, func(a, b int) float64 { return 5 + 40*onGrid(a, b, 6) }), 120, 0.10, 0.80, 0.30, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(5) {
				rnd := rand.New(rand.NewPCG(seed, 9))
				s := newOurs(len(c.m), seed)
				peers := neighbours(c.m, 16, rnd)
				run(c.m, s, peers, c.rounds, rnd)
				errs := unmeasured(c.m, s, peers)
				right, loss := nearest(c.m, s, 14, rnd)
				median, p95 := percentile(errs, 0.5), percentile(errs, 0.95)
				if median > c.median || p95 > c.p95 || 1-right > c.wrongOf14 || loss > c.off {
					t.Errorf("seed %d: median %.3f, 95th %.3f, wrong %.2f, loss %.1f ms; want at most %v, %v, %v, %v", seed,
						median, p95, 1-right, loss, c.median, c.p95, c.wrongOf14, c.off)
				}
				for i, n := range s.nodes {
					if err := n.Coordinate().Check(); err != nil {
						t.Fatalf("node %d: %v", i, err)
					}
				}
			}
		})
	}
}

// TestNearNodesDoNotOvershoot sets two nodes very near to each other and far from the rest: their heights must not swing.
func TestNearNodesDoNotOvershoot(t *testing.T) {
	m := topology(20, func(a, b int) float64 {
		if a < 2 && b < 2 {
			return 0.5
		}
		return 20 + 10*math.Abs(float64(max(a, 1)-max(b, 1)))
	})
	rnd := rand.New(rand.NewPCG(4, 9))
	s := newOurs(len(m), 4)
	peers := neighbours(m, 19, rnd)
	run(m, s, peers, 800, rnd)
	for r := range 100 {
		run(m, s, peers, 1, rnd)
		for i := range 2 {
			if h := s.nodes[i].Coordinate().Height; h > 25 {
				t.Fatalf("round %d: the height of node %d is %.1f ms", r, i, h)
			}
		}
		if d := s.distance(0, 1); d > 25 {
			t.Fatalf("round %d: the near pair is %.1f ms apart", r, d)
		}
	}
}
