package ncoord

import (
	"math"
	"testing"
	"time"
)

// TestLoadAsTold is what others are told of the load of a node: at once where it rises, half as much with each loadHalf where it
// falls, nothing while it changes by little, and that it is gone.
func TestLoadAsTold(t *testing.T) {
	var l load
	now := time.Unix(1e9, 0)
	for i, step := range []struct {
		after time.Duration
		load  float64
		told  bool
		shown float64
	}{
		{0, 1.9, false, 0}, // too little to say
		{0, loadMs, false, 0},
		{0, 40, true, 40},
		{0, 50, false, 40}, // of 50 ms that is no more than a fifth
		{0, 58, true, 58},
		{loadHalf, 58, false, 58},
		{0, 10, false, 58},
		{-loadHalf, 10, false, 58}, // a clock that is set back raises nothing
		{loadHalf, 10, true, 34},
		{loadHalf, 10, true, 22},
		{20 * loadHalf, 10, true, 10},
		{0, 0, false, 10},
		{3 * loadHalf, 0, true, 1.25},
		{5 * loadHalf, 0, false, 1.25},
		{2 * loadHalf, 0, true, 0}, // there is none left that is worth a word
		{loadHalf, 0, false, 0},
	} {
		now = now.Add(step.after)
		l.settle(now)
		l.set(step.load, now)
		if told := l.show(); told != step.told || math.Abs(l.shown-step.shown) > 0.01 {
			t.Errorf("step %d: a load of %v is told: %v, as %v; want %v, %v", i, step.load, told, l.shown, step.told, step.shown)
		}
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

// TestEnergy checks that the same places are no distance apart, and that others are as far as they are.
func TestEnergy(t *testing.T) {
	var e energy
	place := func(x float64) *Coordinate { return &Coordinate{Vec: [MaxDims]float64{x}} }
	for i := range energyWindow {
		if e.full() {
			t.Fatalf("%d of %d are full", i, energyWindow)
		}
		e.add(place(float64(i % 2)))
	}
	if !e.full() {
		t.Fatal("a window of places is not full")
	}
	e.start = e.recent
	if d := e.distance(); d != 0 {
		t.Errorf("the same window is %v ms away", d)
	}
	for i := range energyWindow {
		e.add(place(10 + float64(i%2)))
	}
	if d := e.distance(); d < 280 || d > 360 { // 32 places, each 10 ms from where it was
		t.Errorf("an energy of %v ms, not about 32 x (10 - what they differ among themselves)", d)
	}
	var c Coordinate
	if e.centre(&c); c.Vec[0] != 10.5 {
		t.Errorf("the centre is at %v", c.Vec[0])
	}
}
