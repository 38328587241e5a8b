package simulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize/convex/lp"
)

// reference solves the linear program as it is written, with a general solver.
func reference(t *testing.T, p [][]float64, limit float64) float64 {
	t.Helper()
	m, n := len(p), len(p[0])
	rows, columns := n+m, m*n+1+m
	if !math.IsInf(limit, 1) {
		rows, columns = rows+1, columns+1
	}
	a := mat.NewDense(rows, columns, nil)
	b, c := make([]float64, rows), make([]float64, columns)
	c[m*n] = 1
	for i := range m {
		for j := range n {
			a.Set(j, i*n+j, 1)
			a.Set(n+i, i*n+j, p[i][j])
			if rows > n+m {
				a.Set(n+m, i*n+j, p[i][j])
			}
		}
		a.Set(n+i, m*n, -1)
		a.Set(n+i, m*n+1+i, 1)
	}
	for j := range n {
		b[j] = 1
	}
	if rows > n+m {
		a.Set(n+m, columns-1, 1)
		b[n+m] = limit
	}
	v, _, err := lp.Simplex(c, a, b, 1e-12, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func someTimes(rnd *rand.Rand, machines, jobs int) [][]float64 {
	p := make([][]float64, machines)
	for i := range p {
		speed := math.Exp(0.7 * rnd.NormFloat64())
		for range jobs {
			p[i] = append(p[i], 100*speed*math.Exp(0.8*rnd.NormFloat64()))
		}
	}
	return p
}

// least is the sum of each job's least time.
func least(p [][]float64) (sum float64) {
	for j := range p[0] {
		v := math.Inf(1)
		for i := range p {
			v = min(v, p[i][j])
		}
		sum += v
	}
	return sum
}

func TestBoundIsTheLinearProgram(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		p := someTimes(rnd, 1+rnd.IntN(5), 1+rnd.IntN(9))
		for _, limit := range []float64{math.Inf(1), least(p) * 1.1, least(p) * 1.001} {
			bound, reached := lowerBound(p, limit)
			want := reference(t, p, limit)
			if bound > want*(1+1e-9) || bound < want*(1-2e-5) || reached < want*(1-1e-9) || reached > want*(1+2e-5) {
				t.Errorf("%d machines, %d jobs, limit %.1f: bound %.5f, reached %.5f, want %.5f", len(p), len(p[0]), limit, bound, reached, want)
			}
		}
	}
}

// Where the general solver takes too long, the gap between the bound and what was reached says that both are right.
func TestBoundOfTheWorld(t *testing.T) {
	w := newWorld(Default(), 1)
	for _, more := range []float64{math.Inf(1), 1.05, 1.001} {
		p := w.times()
		bound, reached := lowerBound(p, more*least(p))
		if !(bound > 0) || reached > bound*1.0001 {
			t.Errorf("14 × 80, %v times the least sum: between %.2f and %.2f, want a gap below 10⁻⁴", more, bound, reached)
		}
	}
}
