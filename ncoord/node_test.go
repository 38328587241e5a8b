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
	m := topology(n, func(a, b int) float64 {
		return 4 + 20*math.Hypot(float64(a%6-b%6), float64(a/6-b/6))
	})
	rnd := rand.New(rand.NewPCG(11, 9))
	s := newOurs(n, 11)
	peers := neighbours(m, 32, rnd)
	run(m, s, peers, rounds, rnd)
	return s, m, peers, rnd
}

// TestJumpRestoresTheTimestep moves a settled node to the place of another.
func TestJumpRestoresTheTimestep(t *testing.T) {
	s, m, peers, rnd := plane(36, 1500)
	before := make([]int, len(m))
	for i, n := range s.nodes {
		before[i] = n.Jumps()
	}
	for i := range 36 {
		m[0][i] = 4 + 20*math.Hypot(5-float64(i%6), 5-float64(i/6)) // it was at 0, 0
		m[i][0] = m[0][i]
	}
	run(m, s, peers, 1200, rnd)
	var off []float64
	for i := 1; i < 35; i++ {
		off = append(off, math.Abs(s.distance(0, i)-m[0][i])/m[0][i])
	}
	if mean := stat.Mean(off, nil); mean > 0.25 {
		t.Errorf("after the move predictions are off by %.2f on average", mean)
	}
	if s.nodes[0].Jumps() == before[0] {
		t.Error("the node that moved did not notice")
	}
	for i := 1; i < 36; i++ {
		if s.nodes[i].Jumps() != before[i] {
			t.Errorf("node %d, which stayed, thinks it jumped", i)
		}
	}
}

// TestLoadCountsOnce loads a node: its delay and its published height tell, the places of all stay.
func TestLoadCountsOnce(t *testing.T) {
	s, m, peers, rnd := plane(36, 1000)
	n := s.nodes[0]
	if d := n.Delay(); d > 0.01 {
		t.Fatalf("an idle node has a delay of %.2f ms", d)
	}
	before := n.Coordinate()
	now := start.Add(1000 * time.Second)
	published, _ := n.Publish(now)
	const wait = 80.0
	for r := range 60 { // a minute in which only the loaded node's round trips are long
		now = now.Add(time.Second)
		k := peers[0][rnd.IntN(len(peers[0]))]
		if err := n.Observe(s.names[k], s.nodes[k].Coordinate(), nil, duration(m[0][k]+wait), now); err != nil {
			t.Fatal(err)
		}
		n.SetLoad(n.Delay(), now)
		if c, _ := n.Publish(now); r > 20 && math.Abs(c.Height-published.Height-wait) > 10 {
			t.Fatalf("after %d s the published height is %.1f ms, %.1f before the load of %v", r, c.Height, published.Height, wait)
		}
	}
	if moved := distanceMoved(before, n.Coordinate()); moved > 5 {
		t.Errorf("load moved the node by %.1f ms", moved)
	}
	// It falls slowly, and is gone in the end.
	n.SetLoad(0, now)
	c, _ := n.Publish(now.Add(10 * time.Second))
	if c.Height < published.Height+wait/2 {
		t.Errorf("10 s after the load the height is %.1f ms already", c.Height)
	}
	for range 60 {
		now = now.Add(5 * time.Second)
		c, _ = n.Publish(now)
	}
	if math.Abs(c.Height-published.Height) > 1 {
		t.Errorf("5 minutes after the load the height is %.2f ms, %.2f before", c.Height, published.Height)
	}
}

// TestLoadDoesNotFlutter changes the load a little, over and over.
func TestLoadDoesNotFlutter(t *testing.T) {
	n := ncoord.NewNode(rand.New(rand.NewPCG(1, 1)))
	changes := 0
	for i := range 100 {
		n.SetLoad(50+float64(i%2)*5, start.Add(time.Duration(i)*time.Second))
		if _, changed := n.Publish(start.Add(time.Duration(i) * time.Second)); changed {
			changes++
		}
	}
	if changes != 1 {
		t.Errorf("a load between 50 and 55 ms was published %d times, not once", changes)
	}
	for _, bad := range []struct{ load, height float64 }{{math.NaN(), 5}, {-5, 5}, {math.Inf(1), ncoord.MaxComponent}, {0, 5}} {
		n.SetLoad(bad.load, start)
		if c, _ := n.Publish(start.Add(time.Hour)); c.Check() != nil || c.Height != bad.height {
			t.Errorf("load %v gives %v", bad.load, c)
		}
	}
}

// TestSurenessIsPublished: others learn that a node has become surer of its place, though it hardly moves any more.
func TestSurenessIsPublished(t *testing.T) {
	s, _, _, _ := plane(36, 1500)
	n, now := ncoord.NewNode(rand.New(rand.NewPCG(1, 1))), start
	for i := range 600 {
		at, peer := i%30, s.nodes[i%30].Coordinate()
		rtt := ncoord.Distance(n.Coordinate(), peer)
		if i < 100 { // then all fits
			rtt *= 1.5
		}
		now = now.Add(time.Second)
		if err := n.Observe(s.names[at], peer, nil, duration(rtt), now); err != nil {
			t.Fatal(err)
		}
		n.Publish(now)
	}
	if told, is := n.Published().Error, n.Coordinate().Error; math.Abs(told-is) > max(0.05, 0.25*told) {
		t.Errorf("an error of %.3f is published, and is %.3f", told, is)
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
	plain := unmeasuredAll(m, s)
	s.published = true
	published := unmeasuredAll(m, s)
	t.Logf("moved %.1f ms, published %.1f ms in %d changes; mean error %.3f and %.3f", moving, told, changes, plain, published)
	if told > moving/5 || changes > rounds/20 {
		t.Errorf("the published coordinate moved %.1f of %.1f ms in %d changes", told, moving, changes)
	}
	if published > plain*1.25+0.02 {
		t.Errorf("published coordinates are off by %.3f, the moving ones by %.3f", published, plain)
	}
}

// unmeasuredAll is the mean relative error of all pairs.
func unmeasuredAll(m matrix, s space) float64 {
	var errs []float64
	for i := range m {
		for k := range i {
			errs = append(errs, math.Abs(s.distance(i, k)-m[i][k])/m[i][k])
		}
	}
	return stat.Mean(errs, nil)
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

// TestSameSeedSamePlace is what makes every figure here one that can be had again.
func TestSameSeedSamePlace(t *testing.T) {
	a, _, _, _ := plane(36, 200)
	b, _, _, _ := plane(36, 200)
	for i := range a.nodes {
		if a.nodes[i].Coordinate() != b.nodes[i].Coordinate() {
			t.Fatalf("node %d: %v and %v", i, a.nodes[i].Coordinate(), b.nodes[i].Coordinate())
		}
	}
}
