package compare

// maxCells bounds a timeline. A longer run has wider cells.
const maxCells = 600

// timeline holds something for each moment of a run. Its cells begin a second wide; when there are too many, two become one.
type timeline[T any] struct {
	width float64 // s
	cells []T
	merge func(earlier, later T) T
}

func newTimeline[T any](merge func(earlier, later T) T) *timeline[T] {
	return &timeline[T]{width: 1, merge: merge}
}

// at is the cell of a moment, in s since the start of the run.
func (t *timeline[T]) at(s float64) *T {
	s = max(s, 0)
	for s >= maxCells*t.width {
		half := make([]T, 0, maxCells)
		for i := 0; i < len(t.cells); i += 2 {
			c := t.cells[i]
			if i+1 < len(t.cells) {
				c = t.merge(c, t.cells[i+1])
			}
			half = append(half, c)
		}
		t.cells, t.width = half, 2*t.width
	}
	i := int(s / t.width)
	for len(t.cells) <= i {
		var zero T
		t.cells = append(t.cells, zero)
	}
	return &t.cells[i]
}

// middle is the moment in the middle of a cell.
func (t *timeline[T]) middle(i int) float64 { return (float64(i) + 0.5) * t.width }

// cell sums up numbers.
type cell struct {
	n         int64
	sum, last float64
}

func (c *cell) add(v float64) {
	c.n++
	c.sum += v
	c.last = v
}

func mergeCells(earlier, later cell) cell {
	if later.n == 0 {
		return earlier
	}
	return cell{earlier.n + later.n, earlier.sum + later.sum, later.last}
}

func newSums() *timeline[cell] { return newTimeline(mergeCells) }
