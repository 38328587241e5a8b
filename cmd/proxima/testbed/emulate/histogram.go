package emulate

import "time"

// lateStep is the width of the buckets of a histogram. Its last bucket has everything from lateSteps of them on, half a second.
const (
	lateStep  = 10 * time.Microsecond
	lateSteps = 50_000
)

type histogram struct {
	counts [lateSteps + 1]int64
	total  int64
}

func (h *histogram) add(d time.Duration, times int64) {
	h.counts[min(max(d, 0)/lateStep, lateSteps)] += times
	h.total += times
}

// quantile returns the duration that a share q of all does not exceed, rounded down to a bucket; 0 if there is none.
func (h *histogram) quantile(q float64) time.Duration {
	need := int64(q*float64(h.total)) + 1
	for i, n := range h.counts[:] {
		if need -= n; need <= 0 {
			return time.Duration(i) * lateStep
		}
	}
	return 0
}
