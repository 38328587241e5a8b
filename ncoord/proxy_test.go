package ncoord_test

import (
	"math"
	"slices"
	"testing"

	"proxima/ncoord"
)

// TestProxyFindsTheServer places servers from noisy samples of settled nodes and chooses the nearest node by it.
func TestProxyFindsTheServer(t *testing.T) {
	s, _, _, rnd := plane(36, 1500)
	var loss, off []float64
	for server := range 40 {
		x, y := rnd.Float64()*5, rnd.Float64()*5
		truth := func(i int) float64 { return 5 + 20*math.Hypot(x-float64(i%6), y-float64(i/6)) }
		p := ncoord.NewProxy()
		for i := range 60 {
			k := (i*7 + server) % 36
			if err := p.Observe(s.nodes[k].Coordinate(), truth(k)*(1+0.1*rnd.ExpFloat64()), rnd); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Coord.Check(); err != nil || p.Updates != 60 {
			t.Fatalf("after %d updates: %v", p.Updates, err)
		}
		all := make([]int, 36)
		for i := range all {
			all[i] = i
		}
		predicted := func(i int) float64 { return ncoord.Distance(p.Coord, s.nodes[i].Coordinate()) }
		chosen := slices.MinFunc(all, func(a, b int) int { return compare(predicted(a), predicted(b)) })
		best := slices.MinFunc(all, func(a, b int) int { return compare(truth(a), truth(b)) })
		loss = append(loss, truth(chosen)-truth(best))
		for i := range all {
			off = append(off, math.Abs(predicted(i)-truth(i))/truth(i))
		}
	}
	slices.Sort(off)
	if mean, median := average(loss), percentile(off, 0.5); mean > 5 || median > 0.15 {
		t.Errorf("the chosen nodes are %.1f ms further than the best, predictions off by %.2f", mean, median)
	}
}

func TestProxyRefuses(t *testing.T) {
	good := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{10, 20}, Height: 3, Error: 0.3}
	for _, c := range []struct {
		from ncoord.Coordinate
		ms   float64
		want error
	}{
		{good, 50, nil},
		{good, math.NaN(), ncoord.BadRTT},
		{good, math.Inf(1), ncoord.BadRTT},
		{good, 0, ncoord.BadRTT},
		{good, 20_001, ncoord.BadRTT},
		{ncoord.Coordinate{}, 50, ncoord.BadCoordinate},
	} {
		p := ncoord.NewProxy()
		if err := p.Observe(c.from, c.ms, nil); err != c.want {
			t.Errorf("%v, %v ms: %v, want %v", c.from, c.ms, err, c.want)
		}
		if moved := p != ncoord.NewProxy(); moved != (c.want == nil) {
			t.Errorf("%v, %v ms: moved %v", c.from, c.ms, moved)
		}
	}
	// The zero value and one spoilt on its way begin anew.
	for _, p := range []ncoord.Proxy{{}, {Coord: ncoord.Coordinate{Height: math.NaN()}, Updates: 7}} {
		if err := p.Observe(good, 50, nil); err != nil || p.Coord.Check() != nil || p.Updates != 1 {
			t.Errorf("%v: %v, %v", p, err, p.Coord.Check())
		}
	}
	// A node at the origin and no randomness: the proxy leaves it all the same.
	p := ncoord.NewProxy()
	for range 200 {
		if err := p.Observe(ncoord.Coordinate{Error: 0.1}, 80, nil); err != nil {
			t.Fatal(err)
		}
	}
	if d := ncoord.Distance(p.Coord, ncoord.Coordinate{}); math.Abs(d-80) > 8 {
		t.Errorf("80 ms away the proxy is at %.1f", d)
	}
}
