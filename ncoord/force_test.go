package ncoord

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestGravityIsInMs holds the pull of gravity against its definition: (far/gravityMs)² ms a sample.
func TestGravityIsInMs(t *testing.T) {
	for _, c := range []struct{ far, samples, want float64 }{
		{200, 1, 0.01}, {200, 16, 0.16}, {-2000, 1, 1}, {60_000, 1, 900}, {60_000, 1000, 30_000}, {0, 1, 0},
	} {
		at := Coordinate{Vec: [MaxDims]float64{0, c.far}}
		gravity(&at, c.samples)
		if got := math.Abs(c.far) - math.Abs(at.Vec[1]); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v ms from the origin, %v samples pull by %v ms, not %v", c.far, c.samples, got, c.want)
		}
	}
}

// TestPullOfOneSample bounds what any one sample can do, whatever it says.
func TestPullOfOneSample(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		to   Coordinate
		ms   float64
		most float64
	}{
		{Coordinate{Vec: [MaxDims]float64{60_000, 60_000, 60_000, 60_000}, Height: 60_000}, 0.1, 0.1},
		{Coordinate{Vec: [MaxDims]float64{300}, Height: 1}, 1, 120},
		{Coordinate{}, 20_000, 1},
		{Coordinate{Vec: [MaxDims]float64{1e-9}}, 100, 70},
		{Coordinate{Vec: [MaxDims]float64{100}, Height: 1}, 104, 1e-9},
	} {
		at := Coordinate{Height: 3, Error: 1}
		pull(&at, &c.to, planar(&at, &c.to), c.ms, 1, rnd)
		moved := spot{at.Vec[0], at.Vec[1], at.Vec[2], at.Vec[3], at.Height}
		if by := moved.to(&spot{4: 3}); !(by <= c.most) {
			t.Errorf("%v ms to %v moves by %v ms, more than %v", c.ms, c.to, by, c.most)
		}
		if err := at.Check(); err != nil {
			t.Error(err)
		}
	}
}

// Of a move the heights take their share of the distance, within its bounds, and no coordinate leaves the range that others accept.
func TestShareOfHeights(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ heights, distance, share float64 }{{2, 100, shareMin}, {7, 100, 0.07}, {50, 100, shareMax}} {
		at := Coordinate{Height: c.heights / 2}
		to := Coordinate{Vec: [MaxDims]float64{c.distance - c.heights}, Height: c.heights / 2}
		pull(&at, &to, planar(&at, &to), c.distance+20, 1, rnd) // it is farther than that
		up, away := at.Height-c.heights/2, -at.Vec[0]
		if got := up / (up + away); math.Abs(got-c.share) > 1e-9 || up <= 0 {
			t.Errorf("of heights %v in %v ms the share is %v, want %v", c.heights, c.distance, got, c.share)
		}
	}
	at := Coordinate{Height: 20}
	if pull(&at, &Coordinate{Height: 10}, 0, 20, 1, rnd); at.Vec != [MaxDims]float64{} || math.Abs(20-at.Height-10*clipMs/(clipMs+10)) > 1e-9 {
		t.Errorf("too near to a peer at the same place it is moved to %v", at)
	}
	peer := Coordinate{Vec: [MaxDims]float64{3, 4}, Height: 5}
	same := peer
	pull(&same, &peer, 0, 30, 1, rnd)
	move := 20 * clipMs / (clipMs + 20)
	if away := planar(&same, &peer); math.Abs(away-move*(1-shareMin)) > 1e-9 || math.Abs(same.Height-5-move*shareMin) > 1e-9 {
		t.Errorf("too far from a peer at the same place it moves away by %v and up by %v, of %v in all", away, same.Height-5, move)
	}
	var sides [MaxDims][2]bool
	for range 100 { // in any direction
		var at Coordinate
		scatter(&at, 1, rnd)
		for i, v := range at.Vec {
			sides[i][0], sides[i][1] = sides[i][0] || v < 0, sides[i][1] || v > 0
		}
	}
	if sides != [MaxDims][2]bool{{true, true}, {true, true}, {true, true}, {true, true}} {
		t.Errorf("it is moved to some sides only: %v", sides)
	}
	for _, ms := range []float64{10, 40} { // two places just far enough apart to have a direction
		at := Coordinate{Height: 10}
		pull(&at, &Coordinate{Vec: [MaxDims]float64{coincide}, Height: 10}, coincide, ms, 1, rnd)
		if miss := ms - 20 - coincide; math.Abs(at.Vec[0]+miss*clipMs/(clipMs+math.Abs(miss))*(1-shareMax)) > 1e-9 || at.Vec[1] != 0 {
			t.Errorf("%v ms apart instead of 20 they are moved to %v", ms, at)
		}
	}
	low := Coordinate{Height: heightMin}
	if pull(&low, &Coordinate{Height: 10}, 0, 1, 1, rnd); low.Height != heightMin {
		t.Errorf("the least height falls to %v", low.Height)
	}
	high := Coordinate{Height: heightMax - 0.01}
	if pull(&high, &Coordinate{Vec: [MaxDims]float64{1}}, 1, 2*heightMax, 1, rnd); high.Height > heightMax {
		t.Errorf("the greatest height rises to %v", high.Height)
	}
	for _, side := range []float64{1, -1} {
		edge := Coordinate{Vec: [MaxDims]float64{side * (MaxComponent - 1)}, Height: 1, Error: 1}
		if pull(&edge, &Coordinate{Height: 1}, MaxComponent-1, MaxComponent+100, 1, rnd); edge.Vec[0] != side*MaxComponent || edge.Check() != nil {
			t.Errorf("at the edge it is moved to %v", edge)
		}
	}
}
