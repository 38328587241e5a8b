package assign

import (
	"math"

	"proxima/ncoord"
)

// The field of one server models its round trips to all nodes: a Gaussian process over the logarithm of the round trip (C.
// Rasmussen, C. Williams: Gaussian Processes for Machine Learning, 2006, chapter 2), mixed over hypotheses h about where the
// server is (places.go).
//
//	log rtt(n) = log m_h(n) + s_h(n) · e(n),   cov(e(n), e(k)) = shared · ρ(|x_n − x_k|) + (1 − shared) · [n = k]
//
// m_h is the expected round trip to that place. s_h is the spread of real round trips around it. It is wider for near places (.59 at
// 20 ms) than for far ones (.3 at 150 ms). Nodes that are close to each other share detours (ρ). Their distance is that of the
// overlay's coordinates, or that over the ground. The weight of a hypothesis is its likelihood given the measured connect times. A
// few of them suffice to reject a wrong location.
//
// The constants maximise the predictive likelihood of held-out round trips in worlds over cities (2020), PlanetLab, cloud
// regions, Seattle and synthetic places. docs/nearest.md has the figures.
const (
	sharedPart = 0.8
	kernelMs   = 110.0
)

// point is the position of a node for the kernel, in ms of round trip. A node that is not placed is independent of the others.
type point struct {
	x      [ncoord.MaxDims]float64
	placed bool
}

// chord converts a location to a point in space, in ms. Distances between such points are straight lines through the Earth.
func chord(l *ncoord.Location) point {
	p := onGlobe(l)
	for i := range p.x {
		p.x[i] *= earthKm * groundMsPerKm
	}
	return p
}

// distance returns the distance of two points in their unit.
func (p *point) distance(q *point) float64 {
	var sum float64
	for i := range p.x {
		sum += (p.x[i] - q.x[i]) * (p.x[i] - q.x[i])
	}
	return math.Sqrt(sum)
}

// measured is a node with connect times.
type measured struct {
	node  int
	y     float64 // log of ms
	noise float64 // variance
}

// hypothesis is a place where the server may be. chol and alpha are L and α of Rasmussen and Williams, algorithm 2.1.
type hypothesis struct {
	*place
	weight float64

	sds   []float64 // s_h of the measured nodes
	chol  []float64 // lower triangle by rows
	alpha []float64
}

// field is what the measured nodes tell of the round trips from all nodes to one server: the posterior.
type field struct {
	seen []measured
	rho  func(a, b int) float64 // covariance of two nodes' deviations e
	hyps []hypothesis

	shared, cov, v []float64 // scratch; shared holds rho of the measured nodes, lower triangle by rows
}

// newField computes the posterior from hypotheses with their prior weights.
func newField(seen []measured, rho func(a, b int) float64, hyps []hypothesis) *field {
	k := len(seen)
	f := &field{seen: seen, rho: rho, cov: make([]float64, k), v: make([]float64, k), shared: make([]float64, k*k)}
	for i := range seen {
		for j := range i + 1 {
			f.shared[i*k+j] = rho(seen[i].node, seen[j].node)
		}
	}
	// Solve all hypotheses in the same memory. Only those that are kept get their own.
	var work hypothesis
	work.sds, work.chol, work.alpha = make([]float64, k), make([]float64, k*k), make([]float64, k)
	logs := make([]float64, len(hyps))
	most := math.Inf(-1)
	for i := range hyps {
		work.place = hyps[i].place
		logs[i] = math.Log(hyps[i].weight) + f.solve(&work)
		most = max(most, logs[i])
	}
	var sum float64
	for i := range hyps {
		hyps[i].weight = math.Exp(logs[i] - most)
		sum += hyps[i].weight
	}
	kept := 0.0
	for _, h := range hyps {
		if h.weight >= leastWeight*sum {
			h.sds, h.chol, h.alpha = make([]float64, k), make([]float64, k*k), make([]float64, k)
			f.solve(&h)
			f.hyps = append(f.hyps, h)
			kept += h.weight
		}
	}
	for i := range f.hyps {
		f.hyps[i].weight /= kept
	}
	return f
}

// solve factorises the covariance of the measured nodes under a hypothesis. It returns the log likelihood.
func (f *field) solve(h *hypothesis) float64 {
	k := len(f.seen)
	var like float64
	for i := range k {
		mean, sd := h.from(f.seen[i].node)
		h.sds[i], h.alpha[i] = sd, f.seen[i].y-mean
		for j := range i + 1 {
			v := sd * h.sds[j] * f.shared[i*k+j]
			if i == j {
				v += f.seen[i].noise
			}
			for l := range j {
				v -= h.chol[i*k+l] * h.chol[j*k+l]
			}
			if i == j {
				h.chol[i*k+i] = math.Sqrt(max(v, 1e-6))
			} else {
				h.chol[i*k+j] = v / h.chol[j*k+j]
			}
		}
		v := h.alpha[i]
		for l := range i {
			v -= h.chol[i*k+l] * h.alpha[l]
		}
		h.alpha[i] = v / h.chol[i*k+i]
		// Limit the effect of a sample. A Student's t distribution would fit outliers better than a Gaussian, but costs more.
		like -= min(h.alpha[i]*h.alpha[i]/2, 8) + math.Log(h.chol[i*k+i])
	}
	for i := k - 1; i >= 0; i-- {
		for l := i + 1; l < k; l++ {
			h.alpha[i] -= h.chol[l*k+i] * h.alpha[l]
		}
		h.alpha[i] /= h.chol[i*k+i]
	}
	return like
}

// predict returns the mean and the variance of log rtt from a node.
func (f *field) predict(node int) (mean, variance float64) {
	k := len(f.seen)
	for i := range f.seen {
		f.cov[i] = f.rho(f.seen[i].node, node)
	}
	var second float64
	for i := range f.hyps {
		h := &f.hyps[i]
		mu, sd := h.from(node)
		s2 := sd * sd
		for i := range k {
			c := sd * h.sds[i] * f.cov[i]
			mu += c * h.alpha[i]
			row := h.chol[i*k : i*k+i+1]
			for l, x := range f.v[:i] {
				c -= row[l] * x
			}
			f.v[i] = c / row[i]
			s2 -= f.v[i] * f.v[i]
		}
		mean += h.weight * mu
		second += h.weight * (s2 + mu*mu)
	}
	return mean, max(second-mean*mean, 0)
}
