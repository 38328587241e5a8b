package emulate

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets of at most 1/16 of their size, from a microsecond to the longest.
type histogram struct {
	Counts [16 * 50]int64
	Total  int64
	Max    time.Duration
}

func (h *histogram) add(d time.Duration, times int64) {
	d = max(d, 0)
	us, bucket := uint64(d/time.Microsecond), 0
	if us < 16 {
		bucket = int(us)
	} else {
		octave := bits.Len64(us) - 5
		bucket = 16*octave + int(us>>octave)
	}
	h.Counts[bucket] += times
	h.Total += times
	h.Max = max(h.Max, d)
}

// quantile returns the smallest duration that a share q of all does not exceed, rounded up to the end of its bucket; 0 if there is none.
func (h *histogram) quantile(q float64) time.Duration {
	need := int64(q*float64(h.Total)) + 1
	for bucket, n := range h.Counts {
		if need -= n; need > 0 || n == 0 {
			continue
		}
		end := uint64(bucket + 1)
		if octave := bucket/16 - 1; octave > 0 {
			end = uint64(bucket%16+17) << octave
		}
		return min(time.Duration(end)*time.Microsecond, h.Max)
	}
	return h.Max
}
