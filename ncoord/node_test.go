package ncoord_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"proxima/ncoord"
)

// plane is a settled space of n nodes on a plane, its matrix, and who measures whom.
func plane(n, rounds int) (*ours, matrix, [][]int, *rand.Rand) {
	m := topology(n, func(a, b int) float64 { return 4 + 20*onGrid(a, b, 6) })
	rnd := rand.New(rand.NewPCG(11, 9))
	s := newOurs(n, 11)
	peers := neighbours(m, 32, rnd)
	run(m, s, peers, rounds, rnd)
	return s, m, peers, rnd
}

// TestLoadsThatCannotBe: no load is negative, or more than a coordinate may have.
func TestLoadsThatCannotBe(t *testing.T) {
	n := ncoord.NewNode(rand.New(rand.NewPCG(1, 1)))
	for _, bad := range []struct{ load, height float64 }{{math.NaN(), 5}, {-5, 5}, {math.Inf(1), ncoord.MaxComponent}, {0, 5}} {
		n.SetLoad(bad.load, start)
		if c, _ := n.Publish(start.Add(time.Hour)); c.Check() != nil || c.Height != bad.height {
			t.Errorf("load %v gives %v", bad.load, c)
		}
	}
}

// TestPublishedIsStable compares how much the moving and the published coordinate move under noise, and how well both
// predict.
func TestPublishedIsStable(t *testing.T) {
	s, m, peers, rnd := plane(36, 1500)
	var moving, told float64
	changes := 0
	for _, n := range s.nodes {
		n.Publish(start)
	}
	last, lastTold := s.nodes[0].Coordinate(), s.nodes[0].Published()
	const rounds = 1000
	for r := range rounds {
		now := start.Add(time.Duration(1500+r) * time.Second)
		for i := range m {
			k := peers[i][rnd.IntN(len(peers[i]))]
			s.observe(i, k, m[i][k]*(1+0.3*rnd.ExpFloat64()), now)
			if r%5 != 0 {
				continue
			}
			if _, changed := s.nodes[i].Publish(now); i == 0 && changed {
				changes++
			}
		}
		c, p := s.nodes[0].Coordinate(), s.nodes[0].Published()
		moving, told = moving+distanceMoved(last, c), told+distanceMoved(lastTold, p)
		last, lastTold = c, p
	}
	nobody := make([][]int, len(m)) // counts as measured
	plain := stat.Mean(unmeasured(m, s, nobody), nil)
	s.published = true
	published := stat.Mean(unmeasured(m, s, nobody), nil)
	t.Logf("moved %.1f ms, published %.1f ms in %d changes; mean error %.3f and %.3f", moving, told, changes, plain, published)
	if told > moving/5 || changes > rounds/20 {
		t.Errorf("the published coordinate moved %.1f of %.1f ms in %d changes", told, moving, changes)
	}
	if published > plain*1.25+0.02 {
		t.Errorf("published coordinates are off by %.3f, the moving ones by %.3f", published, plain)
	}
}

// TestNoDrift lets a settled overlay run on: as a whole it must stay where the origin is.
func TestNoDrift(t *testing.T) {
	s, _, _, _ := plane(36, 3000)
	var centre ncoord.Coordinate
	for _, n := range s.nodes {
		for i, v := range n.Coordinate().Vec {
			centre.Vec[i] += v / 36
		}
	}
	centre.Error = 1
	if far := ncoord.Distance(centre, ncoord.Coordinate{}); far > 40 {
		t.Errorf("the centre of the overlay is %.1f ms from the origin", far)
	}
}
