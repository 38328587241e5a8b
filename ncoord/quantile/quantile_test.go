package quantile

import (
	"math"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	ten := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for _, c := range []struct {
		of      []float64
		p, want float64
	}{
		{ten, 0, 1}, {ten, .1, 1}, {ten, .11, 2}, {ten, .5, 5}, {ten, .9, 9}, {ten, .91, 10}, {ten, 1, 10}, {ten, -1, 1}, {ten, 2, 10},
		{ten[:1], .5, 1}, {ten[:2], .5, 1}, {ten[:3], .5, 2}, {nil, .5, 0}, {hundred, .07, 7}, {hundred, .071, 8},
	} {
		if got := Of(c.of, c.p); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.p, c.of, got, c.want)
		}
	}
}

func TestMedian(t *testing.T) {
	values := []float64{9, 1, 4, 3}
	if m := Median(values); m != 3.5 || values[0] != 9 {
		t.Errorf("%v, and %v left", m, values)
	}
	if m := Median([]float64{7, 1, 4}); m != 4 {
		t.Errorf("%v", m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("a median of nothing")
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Of(0.99) != 0 {
		t.Error("an empty histogram has a quantile")
	}
	for i := range 1000 { // 0 to 9.99 ms
		h.Add(time.Duration(i)*step, 1)
	}
	h.Add(-time.Second, 500)
	h.Add(time.Hour, 500)
	for q, want := range map[float64]time.Duration{0: 0, 0.25: 0, 0.5: 499 * step, 0.7: 899 * step, 0.76: steps * step, 0.999: steps * step, 1: steps * step} {
		if got := h.Of(q); got != want {
			t.Errorf("quantile %v is %v, not %v", q, got, want)
		}
	}
	// It is the quantile of Of.
	var ten Histogram
	var list []time.Duration
	for i := range 10 {
		list = append(list, time.Duration(i)*step)
		ten.Add(list[i], 1)
	}
	for _, q := range []float64{0, .1, .11, .5, .9, .99, 1} {
		if got, want := ten.Of(q), Of(list, q); got != want {
			t.Errorf("quantile %v of ten is %v, not %v", q, got, want)
		}
	}
}
