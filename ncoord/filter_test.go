package ncoord

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestFilter compares the filter with the plain way to do the same.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.Float64Range(0, 1).Draw(t, "percentile")
		type sample struct {
			ms float32
			at int64
		}
		var f filter
		var kept []sample
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now += int64(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Minute, time.Hour}).Draw(t, "pause"))
			ms := float32(rapid.IntRange(1, 9).Draw(t, "ms"))
			f.add(float64(ms), now)
			kept = append(kept, sample{ms, now})
			kept = kept[max(0, len(kept)-window):]
			kept = slices.DeleteFunc(kept, func(s sample) bool { return now-s.at > int64(sampleTTL) })
			var values []float32
			for _, s := range kept {
				values = append(values, s.ms)
			}
			slices.Sort(values)
			want := float64(values[int(p*float64(len(values)-1)+0.5)])
			if got := f.percentile(p); got != want || int(f.n) != len(kept) {
				t.Fatalf("%v of %d samples, want %v of %v", got, f.n, want, values)
			}
		}
	})
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
