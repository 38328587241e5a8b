package compare

import (
	"slices"

	"proxima/ncoord/quantile"
)

// maxCells bounds a timeline: the cells of a longer run are wider.
const maxCells = 600

// timeline holds a value for each moment of a run. Its cells start one second wide. When there are too many, each two become one. The zero
// value is empty.
type timeline[T interface{ With(later T) T }] struct {
	width float64 // s; 0 without cells
	cells []T
}

// at returns the cell of a moment, in s since the start of the run.
func (t *timeline[T]) at(s float64) *T {
	s, t.width = max(s, 0), max(t.width, 1)
	for s >= maxCells*t.width {
		half := make([]T, 0, maxCells)
		for pair := range slices.Chunk(t.cells, 2) {
			if len(pair) == 2 {
				pair[0] = pair[0].With(pair[1])
			}
			half = append(half, pair[0])
		}
		t.cells, t.width = half, 2*t.width
	}
	i := int(s / t.width)
	if more := i + 1 - len(t.cells); more > 0 {
		t.cells = append(t.cells, make([]T, more)...)
	}
	return &t.cells[i]
}

type cell struct {
	n   int64
	sum float64
}

func (c *cell) add(v float64) {
	c.n++
	c.sum += v
}

func (c *cell) mean() float64 { return c.sum / float64(c.n) }

func (c cell) With(later cell) cell { return cell{c.n + later.n, c.sum + later.sum} }

// medians returns the median of the latest values up to each cell, at least those in the cell.
func medians(label string, t *timeline[dist], latest int) Series {
	s := Series{Label: label}
	var recent []float64
	for i, c := range t.cells {
		if len(c) == 0 {
			continue
		}
		for _, v := range c {
			recent = append(recent, float64(v))
		}
		recent = slices.Clone(recent[max(0, len(recent)-max(latest, len(c))):])
		s.Points = append(s.Points, Point{(float64(i) + .5) * t.width, quantile.Median(recent)})
	}
	return s
}

func means(label string, t *timeline[cell]) Series {
	s := Series{Label: label}
	for i, c := range t.cells {
		if c.n > 0 {
			s.Points = append(s.Points, Point{(float64(i) + .5) * t.width, c.mean()})
		}
	}
	return s
}

func cumulative(label string, t *timeline[cell]) Series {
	s, sum := Series{Label: label}, 0.0
	for i, c := range t.cells {
		sum += c.sum
		s.Points = append(s.Points, Point{float64(i+1) * t.width, sum})
	}
	return s
}

// rateCells is over how many cells a rate is taken, since counts of single seconds are noise.
const rateCells = 10

// rates returns what of makes of the sum and the length in s of each rateCells cells; false leaves a gap. The last rate takes what is left,
// up to half as many cells more or fewer.
func rates(label string, t *timeline[cell], of func(sum, seconds float64) (float64, bool)) Series {
	s, begin := Series{Label: label}, 0.0
	for cells := t.cells; len(cells) > 0; {
		n := rateCells
		if len(cells) < rateCells*3/2 {
			n = len(cells)
		}
		sum, seconds := 0.0, float64(n)*t.width
		for _, c := range cells[:n] {
			sum += c.sum
		}
		if y, ok := of(sum, seconds); ok {
			s.Points = append(s.Points, Point{begin + seconds/2, y})
		}
		cells, begin = cells[n:], begin+seconds
	}
	return s
}

// perMinute is a rate, spacing the mean time between two.
func perMinute(sum, seconds float64) (float64, bool) { return sum * 60 / seconds, true }
func spacing(sum, seconds float64) (float64, bool)   { return seconds / sum, sum > 0 }

// drawn appends a series, unless it has no points.
func drawn(list []Series, s Series) []Series {
	if len(s.Points) == 0 {
		return list
	}
	return append(list, s)
}
