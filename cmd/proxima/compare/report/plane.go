package report

import (
	"math"
	"slices"
)

// plane is the flat view of a space of many components that keeps as much of the differences as a flat view can: the first two
// principal components.
type plane struct {
	mean   []float64
	across [2][]float64
	kept   float64 // share of the variance within the plane, 0 to 1
}

// planeOf finds the plane of vectors of equal length.
func planeOf(vectors [][]float64) plane {
	n := len(vectors[0])
	p := plane{mean: make([]float64, n), kept: 1}
	for _, v := range vectors {
		for i, x := range v {
			p.mean[i] += x / float64(len(vectors))
		}
	}
	cov := make([][]float64, n)
	for i := range cov {
		cov[i] = make([]float64, n)
		for j := range cov[i] {
			for _, v := range vectors {
				cov[i][j] += (v[i] - p.mean[i]) * (v[j] - p.mean[j])
			}
		}
	}
	values, axes := eigen(cov)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, values[b]-values[a])) })
	total, kept := 0.0, 0.0
	for _, v := range values {
		total += math.Max(v, 0)
	}
	for k := range p.across {
		p.across[k] = make([]float64, n)
		if k >= n {
			continue
		}
		kept += math.Max(values[order[k]], 0)
		largest := 0.0
		for i := range n {
			x := axes[i][order[k]]
			p.across[k][i] = x
			if math.Abs(x) > math.Abs(largest)+1e-12 {
				largest = x
			}
		}
		if largest < 0 { // either direction would do: always the same one
			for i := range p.across[k] {
				p.across[k][i] = -p.across[k][i]
			}
		}
	}
	if total > 0 {
		p.kept = kept / total
	}
	return p
}

// at is where a vector lies in the plane.
func (p plane) at(v []float64) Point {
	var at [2]float64
	for k := range at {
		for i, x := range v {
			at[k] += (x - p.mean[i]) * p.across[k][i]
		}
	}
	return Point{at[0], at[1]}
}

// eigen finds eigenvalues and eigenvectors (columns) of a symmetric matrix by Jacobi rotations.
func eigen(a [][]float64) ([]float64, [][]float64) {
	n := len(a)
	v := make([][]float64, n)
	for i := range v {
		v[i] = make([]float64, n)
		v[i][i] = 1
	}
	for range 60 {
		off, scale := 0.0, 0.0
		for i := range n {
			for j := range n {
				if i != j {
					off += a[i][j] * a[i][j]
				}
				scale += a[i][j] * a[i][j]
			}
		}
		if off <= 1e-20*scale {
			break
		}
		for i := range n {
			for j := i + 1; j < n; j++ {
				rotate(a, v, i, j)
			}
		}
	}
	values := make([]float64, n)
	for i := range n {
		values[i] = a[i][i]
	}
	return values, v
}

// rotate makes one element beside the diagonal zero.
func rotate(a, v [][]float64, p, q int) {
	if a[p][q] == 0 {
		return
	}
	theta := (a[q][q] - a[p][p]) / (2 * a[p][q])
	t := math.Copysign(1, theta) / (math.Abs(theta) + math.Hypot(theta, 1))
	c := 1 / math.Hypot(t, 1)
	s := t * c
	for k := range a {
		x, y := a[k][p], a[k][q]
		a[k][p], a[k][q] = c*x-s*y, s*x+c*y
	}
	for k := range a {
		x, y := a[p][k], a[q][k]
		a[p][k], a[q][k] = c*x-s*y, s*x+c*y
		x, y = v[k][p], v[k][q]
		v[k][p], v[k][q] = c*x-s*y, s*x+c*y
	}
}

// distance is the predicted round trip between two places, heights included.
func distance(a, b Place) float64 {
	sum := 0.0
	for i := range min(len(a.Vector), len(b.Vector)) {
		sum += (a.Vector[i] - b.Vector[i]) * (a.Vector[i] - b.Vector[i])
	}
	d := math.Sqrt(sum)
	for _, h := range [...]float64{a.HeightMS, b.HeightMS} {
		if finite(h) {
			d += h
		}
	}
	return d
}
