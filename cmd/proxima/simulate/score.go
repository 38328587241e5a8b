package simulate

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"proxima/ncoord/quantile"
)

// times are the expected download times by node and server, in ms.
func (w *World) times() [][]float64 {
	p := make([][]float64, len(w.nodes))
	for i := range p {
		for j := range w.servers {
			p[i] = append(p[i], w.expected(i, j))
		}
	}
	return p
}

// boundSize is up to how many pairs of node and server the linear program is solved.
const boundSize = 300_000

// truth is what the choices in a world are compared with. Times are in ms.
type truth struct {
	world    *World
	times    [][]float64 // by node and server; nil in a world too large for the linear program
	best     []float64   // by server
	sum      float64     // of best
	makespan float64     // the least possible with one page per server, if servers may be split
	pages    []page
	pagesSum float64 // of the pages at the best nodes, without noise
}

// page is one page of a server. The noise of its download is the same for all assigners.
type page struct {
	server        int
	bytes, factor float64
}

func newTruth(w *World) *truth {
	t := &truth{world: w}
	if len(w.nodes)*len(w.servers) <= boundSize {
		t.times = w.times()
	}
	rnd := stream(w.seed, streamPages)
	for j, s := range w.servers {
		best := w.best(j)
		t.best = append(t.best, w.expected(best, j))
		t.sum += t.best[j]
		for range w.cfg.Pages {
			size, factor := w.pageNoise(rnd)
			p := page{server: j, bytes: s.pageBytes * size, factor: factor}
			t.pages = append(t.pages, p)
			t.pagesSum += w.took(best, j, p.bytes)
		}
	}
	t.makespan = t.bound(math.Inf(1))
	return t
}

// bound is a lower bound of the makespan among choices with at most that sum of times. In a large world it is only the mean load of
// the nodes if every server were at its best one.
func (t *truth) bound(limit float64) float64 {
	if t.times == nil {
		return t.sum / float64(len(t.world.nodes))
	}
	b, _ := lowerBound(t.times, limit)
	return b
}

// score says how good an assigner's choices are in one world.
type score struct {
	choice float64 // see Assigner.ChoiceRatio
	Figures
}

func (t *truth) judge(d *decision) score {
	var s score
	servers := float64(len(t.best))
	busy := make([]float64, len(t.world.nodes))
	var sum float64
	for j, i := range d.nodes {
		took := t.world.expected(i, j)
		sum += took
		busy[i] += took
		s.LossMs += (took - t.best[j]) / servers
		if took <= t.best[j] {
			s.BestShare += 1 / servers
		}
		s.EstimatesMax = max(s.EstimatesMax, len(d.estimates[j]))
		s.EstimatesMean += float64(len(d.estimates[j])) / servers
	}
	s.choice = sum / t.sum
	most := slices.Max(busy)
	s.MakespanRatio = most / t.makespan
	s.MakespanSameSum = most / t.bound(sum)
	mean, sd := stat.PopMeanStdDev(busy, nil)
	s.BalanceCV = sd / mean
	t.download(d, &s)
	return s
}

// download lets the chosen nodes download all pages.
func (t *truth) download(d *decision, s *score) {
	var all []float64
	var sum, with float64
	for k, p := range t.pages {
		ms := p.factor * t.world.took(d.nodes[p.server], p.server, p.bytes)
		all = append(all, ms)
		sum += ms
		// Estimates downloaded the first pages of the server.
		if nth := k % t.world.cfg.Pages; nth < len(d.estimates[p.server]) {
			ms = p.factor * t.world.took(d.estimates[p.server][nth], p.server, p.bytes)
		}
		with += ms
	}
	slices.Sort(all)
	s.P50Ms, s.P90Ms = quantile.Of(all, 0.5), quantile.Of(all, 0.9)
	s.TotalRatio, s.TotalWith = sum/t.pagesSum, with/t.pagesSum
}
