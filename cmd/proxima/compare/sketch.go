package compare

import (
	"math"
	"slices"
)

// Bounds of a sketch: so many values are kept as they are; then they fall into buckets that are 0.2 % wide, so that a quantile
// is wrong by 0.1 % at most. A full sketch takes 100 KB.
const (
	sketchExact  = 16_384
	bucketGrowth = 1.002
	bucketLeast  = 1e-3
	bucketMost   = 1e8
	sketchMost   = 1e12
)

var (
	logGrowth = math.Log(bucketGrowth)
	buckets   = int(math.Log(bucketMost/bucketLeast)/logGrowth) + 1
)

// sketch holds the distribution of values that are not negative.
type sketch struct {
	exact  []float32
	counts []uint64 // nil while exact holds all
	n      uint64
	sum    float64
}

func (s *sketch) add(v float64) {
	if !(v >= 0 && v <= sketchMost) { // of a line that no node wrote
		return
	}
	s.n++
	s.sum += v
	if s.counts == nil && len(s.exact) < sketchExact {
		s.exact = append(s.exact, float32(v))
		return
	}
	s.fold()
	s.counts[bucketOf(v)]++
}

// fold moves the values into buckets.
func (s *sketch) fold() {
	if s.counts == nil {
		s.counts = make([]uint64, buckets)
		for _, v := range s.exact {
			s.counts[bucketOf(float64(v))]++
		}
		s.exact = nil
	}
}

func bucketOf(v float64) int {
	if v <= bucketLeast {
		return 0
	}
	return min(int(math.Log(v/bucketLeast)/logGrowth), buckets-1)
}

// merge adds the values of o.
func (s *sketch) merge(o *sketch) {
	if s.counts == nil && o.counts == nil && len(s.exact)+len(o.exact) <= sketchExact {
		s.exact = append(s.exact, o.exact...)
	} else {
		s.fold()
		for _, v := range o.exact {
			s.counts[bucketOf(float64(v))]++
		}
		for i, c := range o.counts {
			s.counts[i] += c
		}
	}
	s.n += o.n
	s.sum += o.sum
}

func (s *sketch) mean() *float64 {
	if s.n == 0 {
		return nil
	}
	return ptr(s.sum / float64(s.n))
}

// quantile is the value of the nearest rank, nil without values.
func (s *sketch) quantile(p float64) *float64 {
	if s.n == 0 {
		return nil
	}
	return &s.quantiles(p)[0]
}

// quantiles are those of several shares, which ascend.
func (s *sketch) quantiles(ps ...float64) []float64 {
	out := make([]float64, len(ps))
	if s.n == 0 {
		return out
	}
	rank := func(p float64) uint64 { return uint64(max(1, math.Ceil(p*float64(s.n)-1e-9))) }
	if s.counts == nil {
		slices.Sort(s.exact)
		for i, p := range ps {
			out[i] = float64(s.exact[rank(p)-1])
		}
		return out
	}
	seen, b := s.counts[0], 0
	for i, p := range ps {
		for seen < rank(p) {
			b++
			seen += s.counts[b]
		}
		if b > 0 { // the first bucket has the zeros
			out[i] = bucketLeast * math.Exp((float64(b)+0.5)*logGrowth)
		}
	}
	return out
}

func ptr[T any](v T) *T { return &v }
