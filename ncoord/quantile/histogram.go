package quantile

import "time"

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
