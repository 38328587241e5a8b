// Package quantile has the two quantiles of the project, so that two figures of one name are the same figure.
package quantile

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Of is the p-quantile of sorted values by the nearest rank: the least of them that a share p of all does not pass. p is from 0 to 1;
// without values it is zero.
func Of[T cmp.Ordered](sorted []T, p float64) T {
	if len(sorted) == 0 {
		var none T
		return none
	}
	return sorted[rank(p, int64(len(sorted)))-1]
}

// rank is the nearest rank of the p-quantile of n values, from 1 to n.
func rank(p float64, n int64) int64 {
	return min(max(int64(math.Ceil(p*float64(n)-1e-9)), 1), n) // .07 × 100 is not more than 7
}

// Median is the middle of values in any order, the mean of two where they are even in number, and NaN without any.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// step is the width of the buckets of a histogram. Its last bucket has everything from steps of them on, half a second.
const (
	step  = 10 * time.Microsecond
	steps = 50_000
)

// Histogram counts durations, for quantiles of more of them than one would keep. The zero value is empty.
type Histogram struct {
	counts []int64 // up to the longest so far
	total  int64
}

// Add counts a duration that many times.
func (h *Histogram) Add(d time.Duration, times int64) {
	i := int(min(max(d, 0)/step, steps))
	if more := i + 1 - len(h.counts); more > 0 {
		h.counts = append(h.counts, make([]int64, more)...)
	}
	h.counts[i] += times
	h.total += times
}

// Of returns the p-quantile by the nearest rank, rounded down to a bucket; 0 if there is none.
func (h *Histogram) Of(p float64) time.Duration {
	need := rank(p, h.total)
	for i, n := range h.counts {
		if need -= n; need <= 0 {
			return time.Duration(i) * step
		}
	}
	return 0
}
