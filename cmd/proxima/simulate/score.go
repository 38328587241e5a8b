package simulate

import (
	"math"
	"slices"

	"proxima/ncoord/quantile"
)

// times are the expected download times by node and server, in ms.
func (w *World) times() [][]float64 {
	p := make([][]float64, len(w.nodes))
	for i := range p {
		p[i] = make([]float64, len(w.servers))
		for j := range p[i] {
			p[i][j] = w.Expected(i, j)
		}
	}
	return p
}

// boundSize is up to how many pairs of node and server the linear program is solved.
const boundSize = 300_000

// truth is what a world's choices are compared with.
type truth struct {
	times    [][]float64 // by node and server, ms; nil in a world too large for the linear program
	best     []float64   // by server, ms
	sum      float64     // of best
	makespan float64     // the least that jobs which may be split allow, ms, one page a server
	pages    []page
	pagesSum float64 // of the pages at the best nodes, without noise, ms
}

// page is one page of a server, with what is random about its download: the same for all assigners.
type page struct {
	server        int
	bytes, factor float64
}

func newTruth(w *World) *truth {
	t := &truth{}
	places := make([]int, len(w.servers))
	for j := range w.servers {
		places[j] = w.best(j)
		t.best = append(t.best, w.Expected(places[j], j))
		t.sum += t.best[j]
	}
	if len(w.nodes)*len(w.servers) <= boundSize {
		t.times = w.times()
	}
	t.makespan = t.bound(w, math.Inf(1))
	rnd := stream(w.seed, streamPages)
	for j, s := range w.servers {
		best := places[j]
		for range w.cfg.Pages {
			size, factor := w.pageNoise(rnd)
			p := page{server: j, bytes: s.pageBytes * size, factor: factor}
			t.pages = append(t.pages, p)
			t.pagesSum += w.took(best, j, p.bytes)
		}
	}
	return t
}

// bound is a lower bound of the makespan without a larger sum than limit. In a large world it is but the mean of the nodes if
// all servers were at their best.
func (t *truth) bound(w *World, limit float64) float64 {
	if t.times == nil {
		return t.sum / float64(len(w.nodes))
	}
	b, _ := lowerBound(t.times, limit)
	return b
}

// score is how good the choices of an assigner are in one world.
type score struct {
	choice          float64 // sum of expected times / at the best nodes
	total           float64 // time measured / expected at the best nodes, pages of actual sizes
	totalWith       float64 // the same, where the first pages were downloaded by the estimators
	bestShare       float64
	lossMs          float64
	p50, p90        float64 // of download times, ms
	estimatesMax    int
	estimatesMean   float64
	makespan        float64 // largest sum of expected times of a node / the least possible
	makespanSameSum float64 // the same / the least possible without a larger sum over all nodes
	balance         float64 // coefficient of variation of the nodes' sums
}

// judge compares a decision with the truth.
func (t *truth) judge(w *World, d *decision) score {
	var s score
	servers := float64(len(w.servers))
	busy := make([]float64, len(w.nodes))
	var sum float64
	for j, i := range d.nodes {
		took := w.Expected(i, j)
		sum += took
		busy[i] += took
		s.lossMs += (took - t.best[j]) / servers
		if took <= t.best[j] {
			s.bestShare += 1 / servers
		}
		s.estimatesMax = max(s.estimatesMax, len(d.estimates[j]))
		s.estimatesMean += float64(len(d.estimates[j])) / servers
	}
	s.choice = sum / t.sum
	most := slices.Max(busy)
	s.makespan = most / t.makespan
	s.makespanSameSum = most / t.bound(w, sum)
	mean := sum / float64(len(busy))
	var square float64
	for _, b := range busy {
		square += (b - mean) * (b - mean)
	}
	s.balance = math.Sqrt(square/float64(len(busy))) / mean
	t.download(w, d, &s)
	return s
}

// download lets the chosen nodes download the pages.
func (t *truth) download(w *World, d *decision, s *score) {
	all := make([]float64, 0, len(t.pages))
	var sum, with float64
	for k, p := range t.pages {
		node := d.nodes[p.server]
		ms := p.factor * w.took(node, p.server, p.bytes)
		all = append(all, ms)
		sum += ms
		// The estimators' pages are pages of the list.
		if nth := k % w.cfg.Pages; nth < len(d.estimates[p.server]) {
			ms = p.factor * w.took(d.estimates[p.server][nth], p.server, p.bytes)
		}
		with += ms
	}
	slices.Sort(all)
	s.p50, s.p90 = quantile.Of(all, 0.5), quantile.Of(all, 0.9)
	s.total, s.totalWith = sum/t.pagesSum, with/t.pagesSum
}
