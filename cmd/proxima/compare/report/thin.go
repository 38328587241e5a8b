package report

import (
	"cmp"
	"math"
	"slices"
)

// drawable are the points of a series that can be drawn, cut where there are gaps. A logarithmic axis has no place for 0.
func drawable(points []Point, logX bool) [][]Point {
	var runs [][]Point
	var run []Point
	for _, p := range points {
		if !finite(p.X) || !finite(p.Y) || (logX && p.X <= 0) {
			if len(run) > 0 {
				runs = append(runs, run)
			}
			run = nil
			continue
		}
		run = append(run, p)
	}
	if len(run) > 0 {
		runs = append(runs, run)
	}
	return runs
}

// thin keeps at most n points of a line such that its looks stay: of each stretch the point that makes the largest triangle
// with the one kept before and the mean of the next stretch (S. Steinarsson, Downsampling Time Series for Visual
// Representation, University of Iceland, 2013). The first and last points stay.
func thin(points []Point, n int) []Point {
	if len(points) <= n || n < 3 {
		return points
	}
	out := append(make([]Point, 0, n), points[0])
	width := float64(len(points)-2) / float64(n-2)
	edge := func(i int) int { return 1 + int(float64(i)*width) }
	for i := range n - 2 {
		from, to := edge(i), min(edge(i+1), len(points)-1)
		next := points[to:max(min(edge(i+2), len(points)), to+1)]
		var mean Point
		for _, p := range next {
			mean.X += p.X / float64(len(next))
			mean.Y += p.Y / float64(len(next))
		}
		last, best, area := out[len(out)-1], from, -1.0
		for k := from; k < to; k++ {
			p := points[k]
			if a := math.Abs((last.X-mean.X)*(p.Y-last.Y) - (last.X-p.X)*(mean.Y-last.Y)); a > area {
				best, area = k, a
			}
		}
		out = append(out, points[best])
	}
	return append(out, points[len(points)-1])
}

// valueAt reads a line at x; false outside of it and within gaps.
func valueAt(points []Point, x float64) (float64, bool) {
	i, _ := slices.BinarySearchFunc(points, x, func(p Point, x float64) int {
		switch {
		case p.X < x:
			return -1
		case p.X > x:
			return 1
		}
		return 0
	})
	switch {
	case i < len(points) && points[i].X == x:
		return points[i].Y, finite(points[i].Y)
	case i == 0 || i == len(points):
		return 0, false
	}
	a, b := points[i-1], points[i]
	y := a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X)
	return y, finite(y)
}

// band is what many lines have in common: at each x their 10th, 50th and 90th percentile.
type band struct{ low, middle, high []Point }

// bandOf sums many lines up at n places.
func bandOf(series []Series, n int) band {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range series {
		for _, p := range s.Points {
			if finite(p.X) && finite(p.Y) {
				lo, hi = math.Min(lo, p.X), math.Max(hi, p.X)
			}
		}
	}
	var b band
	if hi < lo {
		return b
	}
	for i := range n {
		x := lo
		if n > 1 {
			x += (hi - lo) * float64(i) / float64(n-1)
		}
		var values []float64
		for _, s := range series {
			if y, ok := valueAt(s.Points, x); ok {
				values = append(values, y)
			}
		}
		if len(values) == 0 {
			continue
		}
		slices.Sort(values)
		b.low = append(b.low, Point{x, quantile(values, 0.1)})
		b.middle = append(b.middle, Point{x, quantile(values, 0.5)})
		b.high = append(b.high, Point{x, quantile(values, 0.9)})
	}
	return b
}

// quantile of sorted values, between neighbours by proportion; Unknown of none.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return Unknown()
	}
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

// tidy are the points in the order of X, without those that have none.
func tidy(points []Point) []Point {
	out := make([]Point, 0, len(points))
	for _, p := range points {
		if finite(p.X) {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	return out
}
