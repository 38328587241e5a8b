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

// TestDelayIsTheMiddleOfTheLast: a few slow round trips say nothing, what most of the last took longer does, and one that was
// faster than usual counts as usual.
func TestDelayIsTheMiddleOfTheLast(t *testing.T) {
	var d delays
	for i, c := range []struct{ add, want float64 }{{4, 4}, {-10, 0}, {6, 4}, {900, 4}, {8, 6}} {
		if d.add(c.add); d.median() != c.want {
			t.Errorf("sample %d: %v, want %v", i, d.median(), c.want)
		}
	}
	for range len(d.ring) - 1 {
		d.add(3)
	}
	if d.add(7); d.median() != 3 {
		t.Errorf("of the last %d the middle is %v", len(d.ring), d.median())
	}
}
