package report

import "math"

// scale maps values to pixels, straight or by logarithm.
type scale struct {
	lo, hi   float64 // values
	from, to float64 // pixels
	log      bool
}

// at is the pixel of a value.
func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log(v), math.Log(lo), math.Log(hi)
	}
	if hi == lo {
		return (s.from + s.to) / 2
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// niceStep is the smallest of 1, 2, 5 × 10^k that is not less than the raw step.
func niceStep(raw float64) float64 {
	if !(raw > 0) || math.IsInf(raw, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range [...]float64{1, 2, 5} {
		if m*unit >= raw*(1-1e-9) {
			return m * unit
		}
	}
	return 10 * unit
}

// steps are the multiples of step within lo and hi.
func steps(lo, hi, step float64) []float64 {
	var out []float64
	for k := math.Ceil(lo/step - 1e-9); k*step <= hi+step*1e-9; k++ {
		out = append(out, k*step+0) // never −0
	}
	return out
}

// niceTicks are some n round values from lo to hi.
func niceTicks(lo, hi float64, n int) []float64 {
	if hi <= lo {
		return []float64{lo}
	}
	return steps(lo, hi, niceStep((hi-lo)/float64(max(n, 1))))
}

// niceDomain widens lo and hi to round values.
func niceDomain(lo, hi float64, n int) (float64, float64) {
	if hi <= lo {
		hi = lo + math.Max(1, math.Abs(lo))
	}
	step := niceStep((hi - lo) / float64(max(n, 1)))
	return math.Floor(lo/step+1e-9)*step + 0, math.Ceil(hi/step-1e-9)*step + 0
}

// timeTicks are some n round times in s: multiples of what clocks and calendars divide by.
func timeTicks(lo, hi float64, n int) []float64 {
	raw := (hi - lo) / float64(max(n, 1))
	for _, step := range [...]float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400} {
		if step >= raw {
			return steps(lo, hi, step)
		}
	}
	return steps(lo, hi, 86400*niceStep(raw/86400))
}

// logTicks are round values of a logarithmic axis: 1, 2, 5 × 10^k where n of them suffice, else powers of ten, sparser as needed.
func logTicks(lo, hi float64, n int) []float64 {
	var out []float64
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	for k := first; k <= last; k++ {
		for _, m := range [...]float64{1, 2, 5} {
			if v := m * math.Pow(10, float64(k)); v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				out = append(out, v)
			}
		}
	}
	if len(out) <= n {
		return out
	}
	out = out[:0]
	for stride := 1; ; stride++ {
		for k := first; k <= last; k++ {
			if v := math.Pow(10, float64(k)); k%stride == 0 && v >= lo*(1-1e-9) && v <= hi*(1+1e-9) {
				out = append(out, v)
			}
		}
		if len(out) <= max(n, 1) {
			return out
		}
		out = out[:0]
	}
}

// logDomain widens lo and hi to 1, 2 or 5 × 10^k.
func logDomain(lo, hi float64) (float64, float64) {
	down := func(v float64) float64 {
		unit := math.Pow(10, math.Floor(math.Log10(v)))
		for _, m := range [...]float64{5, 2, 1} {
			if m*unit <= v*(1+1e-9) {
				return m * unit
			}
		}
		return unit
	}
	lo, top := down(lo), niceStep(hi)
	if top <= lo {
		top = lo * 2
	}
	return lo, top
}

// finite says whether a value can be drawn.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// known says whether a figure that cannot be zero was measured.
func known(v float64) bool { return finite(v) && v != 0 }
