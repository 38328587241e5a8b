package member

import (
	"math"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// All are told of a place when it differs enough from what they know.
func TestPlacesWorthTelling(t *testing.T) {
	at := func(x, height, err float64) place {
		return place{coord: ncoord.Coordinate{Vec: [4]float64{x}, Height: height, Error: err}}
	}
	fast := func(load, bytes, queue float64, samples int) place {
		return place{factors: assign.Factors{LoadMs: load, BytesPerMs: bytes, QueueMs: queue, Samples: samples}}
	}
	for i, c := range []struct {
		was, is place
		stale   bool
	}{
		{at(0, 0, 0), at(2, 0, 0), false}, {at(0, 0, 0), at(2.1, 0, 0), true}, {at(90, 0, 0), at(100, 0, 0), false}, {at(89.9, 0, 0), at(100, 0, 0), true},
		{at(0.6, 1.5, 0), at(0, 0, 0), true}, {at(0, 2, 0), at(0, 0, 0), false}, {at(400, 10, 0), at(400, 7.5, 0), false}, {at(400, 10, 0), at(400, 7.4, 0), true},
		{at(0, 0, 0.1), at(0, 0, 0.04), true}, {at(0, 0, 0.09), at(0, 0, 0.05), false}, {at(0, 0, 0.5), at(0, 0, 0.4), false}, {at(0, 0, 0.5), at(0, 0, 0.37), true},
		{fast(0, 0, 0, 9), fast(5, 0, 0, 9), false}, {fast(0, 0, 0, 9), fast(5.1, 0, 0, 9), true}, {fast(0, 75, 0, 9), fast(0, 100, 0, 9), false},
		{fast(0, 74, 0, 9), fast(0, 100, 0, 9), true}, {fast(0, 0, 0, 9), fast(0, 0, 50, 9), false}, {fast(0, 0, 0, 9), fast(0, 0, 51, 9), true},
		{fast(0, 0, 0, 0), fast(0, 0, 0, 1), true}, {fast(0, 0, 0, 1), fast(0, 0, 0, 9), false},
	} {
		if c.is.near(c.was) == c.stale {
			t.Errorf("%d: from %+v to %+v: worth telling %v", i, c.was, c.is, !c.stale)
		}
	}
}

// Factors that cannot be are ignored.
func TestWhatANodeSaysOfItself(t *testing.T) {
	m := lone(t)
	for f, ok := range map[assign.Factors]bool{{LoadMs: 7}: true, {LoadMs: -1}: false, {QueueMs: 5}: true, {QueueMs: -1}: false, {QueueMs: math.NaN()}: false} {
		rev := m.locator.place.rev
		if m.SetFactors(f); (m.locator.place.factors == f) != ok || woken(m.wakeTend) != ok || (m.locator.place.rev > rev) != ok || !saysWhatIs(m) {
			t.Errorf("%+v counts: %v", f, !ok)
		}
	}
	rev := m.locator.place.rev
	if m.SetFactors(m.locator.place.factors); m.locator.place.rev != rev {
		t.Error("the same factors make a new place")
	}
}

// What round trips take longer than before counts as load, in what all are told. Each tells peers where the node is now.
func TestDelayIsLoad(t *testing.T) {
	m := lone(t)
	m.SetFactors(assign.Factors{QueueMs: 50})
	rev := m.locator.place.rev
	for i := range 16 {
		rtt := time.Duration(10+i/8*50) * time.Millisecond
		if err := m.locator.observe(nodeID(2), ncoord.Coordinate{Error: 1}, nil, rtt, m.now()); err != nil || !saysWhatIs(m) {
			t.Fatalf("sample %d is not told: %v", i, err)
		}
	}
	if by := m.locator.place.coord.Height - m.locator.node.Coordinate().Height; by < 95 || m.locator.place.rev == rev {
		t.Errorf("50 ms of load and 50 of delay raise place %d by %v", m.locator.place.rev, by)
	}
}

// A load that has fallen goes from a node's place with time alone.
func TestLoadFadesWithTime(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	m := lone(t, func(_ *Config, d *Deps) { d.Now = func() time.Time { return now } })
	var heights []float64
	for _, load := range []float64{0, 100, 0} {
		m.SetFactors(assign.Factors{QueueMs: load})
		m.update()
		heights = append(heights, m.locator.place.coord.Height)
	}
	now = now.Add(time.Hour)
	m.update()
	if last := m.locator.place.coord.Height; heights[1] < heights[0]+90 || heights[2] < heights[0]+90 || last > heights[0]+1 {
		t.Errorf("with a load, after it, and later the height is %v, %v", heights, last)
	}
}
