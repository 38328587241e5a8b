package ncoord

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestJumpIsTold: a node takes itself for one that has jumped where its error is far above that of its calm time, which follows
// a falling error at once and a rising one slowly. Then it begins anew, and says that it is unsure.
func TestJumpIsTold(t *testing.T) {
	for _, c := range []struct {
		err, calm         float64
		wantErr, wantCalm float64
		jump              bool
	}{
		{0.3, 0.3, 0.3, 0.3, false},
		{0.2, 0.3, 0.2, 0.2, false},
		{0.5, 0.2, 0.5, 0.2003, false},
		{0.59, 0.2, 0.59, 0.20039, false},
		{0.75, 0.275, 0.75, 0.275475, false}, // exactly a jump is none yet
		{0.61, 0.2, 0.61, 0.61, true},
		{0.21, 0.01, 0.21, 0.0102, false},
		{0.23, 0.01, jumpError, jumpError, true},
	} {
		n := &Node{coord: Coordinate{Error: c.err}, calm: c.calm, samples: 100}
		n.watch()
		if math.Abs(n.coord.Error-c.wantErr)+math.Abs(n.calm-c.wantCalm) > 1e-9 || (n.samples == 0) != c.jump {
			t.Errorf("an error of %v after %v: error %v, calm %v, %d samples; want %v", c.err, c.calm, n.coord.Error, n.calm, n.samples, c)
		}
	}
	if n := NewNode(nil); n.calm != MaxError {
		t.Errorf("a new node takes its first errors for a jump: it was calm at %v", n.calm)
	}
}

// teller is a node that has told one place and is at another. It may have a window of places there, after one elsewhere.
func teller(told, elsewhere, is Coordinate, full bool) *Node {
	n := &Node{coord: is, settled: told}
	for range energyWindow {
		n.energy.add(&elsewhere)
	}
	n.energy.start = n.energy.recent
	for range energyWindow {
		n.energy.add(&is)
	}
	if !full {
		n.energy.moves = energyWindow - 1
	}
	return n
}

// TestWhatIsWorthTelling: a new node tells each step that shows in a choice; one that has a window of places what differs from
// the last window, and how sure it is if that has changed by more than a quarter.
func TestWhatIsWorthTelling(t *testing.T) {
	was := Coordinate{Height: 5, Error: 0.4}
	for _, c := range []struct {
		is   Coordinate
		full bool // there is a window of places
		want bool
	}{
		{was, false, false},
		{Coordinate{Vec: [MaxDims]float64{1.9}, Height: 5, Error: 0.4}, false, false},
		{Coordinate{Vec: [MaxDims]float64{energyMs / 4}, Height: 5, Error: 0.4}, false, false},
		{Coordinate{Vec: [MaxDims]float64{2.25}, Height: 5, Error: 0.4}, false, true},
		{Coordinate{Vec: [MaxDims]float64{1.5}, Height: 4.4, Error: 0.4}, false, true},
		{Coordinate{Vec: [MaxDims]float64{1.5}, Height: 5.6, Error: 0.4}, false, true},
		{Coordinate{Height: 5, Error: 0.49}, false, false},
		{Coordinate{Height: 5, Error: 0.29}, false, true},
		{Coordinate{Height: 5, Error: 0.51}, false, true},
		{Coordinate{Vec: [MaxDims]float64{0.1}, Height: 5, Error: 0.4}, true, false},
		{Coordinate{Vec: [MaxDims]float64{energyMs / energyWindow}, Height: 5, Error: 0.4}, true, false}, // every place has moved by that
		{Coordinate{Vec: [MaxDims]float64{2.25}, Height: 5, Error: 0.4}, true, true},
		{Coordinate{Height: 5, Error: 0.49}, true, false},
		{Coordinate{Height: 5, Error: 0.29}, true, true},
		{Coordinate{Height: 5, Error: 0.51}, true, true},
	} {
		n := teller(was, was, c.is, c.full)
		n.load = load{raw: 10.5, level: 10.5, shown: 10}
		got, told := n.Publish(time.Unix(1e9, 0))
		before := was
		c.is.Height += 10 // a load that has changed little is told as it was
		before.Height += 10
		if want := map[bool]Coordinate{true: c.is, false: before}[c.want]; told != c.want || got != want {
			t.Errorf("%v, with a window: %v: told: %v, %v; want %v", c.is, c.full, told, got, want)
		}
		if got, told := n.Publish(time.Unix(1e9, 0)); told {
			t.Errorf("%v is told twice, %v", c.is, got)
		}
	}
}

// An error that has changed by just the bound is not told: by 0.1 of a new node, by a quarter of one that has a window of places.
// By more it is told, and the place stays as it was told before.
func TestErrorsAtTheBound(t *testing.T) {
	for _, c := range []struct {
		was, is float64
		full    bool
		told    bool
	}{{0.2, 0.1, false, false}, {0.1, 0.2, false, false}, {0.5, 0.625, true, false}, {0.5, 0.375, true, false}, {1, 0.75, true, false}, {0.5, 0.3, true, true}} {
		is := Coordinate{Vec: [MaxDims]float64{1}, Height: 5, Error: c.is}
		n := teller(Coordinate{Height: 5, Error: c.was}, is, is, c.full)
		if got, told := n.Publish(time.Unix(1e9, 0)); told != c.told || told && got != (Coordinate{Height: 5, Error: c.is}) {
			t.Errorf("%+v is told: %v, %v", c, told, got)
		}
	}
}

// TestShortestRoundTrips: below a tenth of a millisecond round trips are not told apart.
func TestShortestRoundTrips(t *testing.T) {
	var at [2]Coordinate
	for i, rtt := range []time.Duration{time.Microsecond, 99 * time.Microsecond} {
		n := NewNode(rand.New(rand.NewPCG(1, 1)))
		_ = n.Observe("p", Coordinate{Error: 1}, nil, rtt, time.Unix(1e9, 0))
		at[i] = n.coord
	}
	if at[0] != at[1] {
		t.Errorf("a round trip of 1 µs leads to %v, one of 99 µs to %v", at[0], at[1])
	}
}

// TestDelayNeedsAFloor: a link tells delays from its fourth sample on, as its floor is not known before.
func TestDelayNeedsAFloor(t *testing.T) {
	n := NewNode(rand.New(rand.NewPCG(1, 1)))
	for i, want := range []int{0, 0, 0, 1, 2} {
		if err := n.Observe("p", Coordinate{Height: 1, Error: 1}, nil, time.Duration(10+i)*time.Millisecond, time.Unix(1e9, 0)); err != nil || n.delays.samples != want {
			t.Errorf("after %d samples %d delays are known: %v", i+1, n.delays.samples, err)
		}
	}
}
