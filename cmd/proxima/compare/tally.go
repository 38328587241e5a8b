package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"proxima/ncoord/quantile"
)

// tally is what one run says about one row. Times are in ms.
type tally struct {
	Assigner             // its counts; figures adds the rest
	times           dist // of the downloads that count
	sums, estimates sums // of downloads with a known truth

	asked    dist  // estimates made for a server
	seconds  dist  // from the start of a batch to the decision
	accuracy dist  // error of servers' places when decided
	judged   int64 // decisions with a known best node
	best     int64 // of these, given to it
}

func (t *tally) merge(o *tally) {
	t.URLs += o.URLs
	t.Downloaded += o.Downloaded
	t.Failed += o.Failed
	t.Bytes += o.Bytes
	t.times = append(t.times, o.times...)
	t.sums.merge(o.sums)
	t.estimates.merge(o.estimates)
	t.asked = append(t.asked, o.asked...)
	t.seconds = append(t.seconds, o.seconds...)
	t.accuracy = append(t.accuracy, o.accuracy...)
	t.Decisions += o.Decisions
	t.judged += o.judged
	t.best += o.best
	t.Short += o.Short
	t.Forced += o.Forced
}

// sums are the measured times of downloads, and those expected at the same nodes and at the best ones.
type sums struct{ measured, expected, best float64 }

func (s *sums) merge(o sums) {
	s.measured += o.measured
	s.expected += o.expected
	s.best += o.best
}

// dist collects values for quantiles. There are at most as many as records.
type dist []float32

func (d *dist) add(v float64) {
	if v >= 0 && v <= 1e12 { // no node writes another one
		*d = append(*d, float32(v))
	}
}

func (d dist) With(later dist) dist { return append(d, later...) }

// quantile returns the value of the nearest rank, nil without values.
func (d dist) quantile(p float64) *float64 {
	if len(d) == 0 {
		return nil
	}
	slices.Sort(d)
	return new(float64(quantile.Of(d, p)))
}

func (d dist) mean() *float64 {
	sum := 0.0
	for _, v := range d {
		sum += float64(v)
	}
	return ratio(sum, float64(len(d)))
}

// cdf returns the distribution as a line of 201 points, none without values.
func (d dist) cdf() []Point {
	slices.Sort(d)
	var list []Point
	for i := 0; i <= 200 && len(d) > 0; i++ {
		share := float64(i) / 200
		list = append(list, Point{float64(quantile.Of(d, share)), share})
	}
	return list
}

func (t *tally) figures() Assigner {
	a := t.Assigner
	a.Times, a.Updates, a.Truncated = t.times.cdf(), t.asked.cdf(), a.Short+a.Forced > 0
	a.P50Ms, a.P90Ms, a.P99Ms, a.MeanMs = t.times.quantile(.5), t.times.quantile(.9), t.times.quantile(.99), t.times.mean()
	a.EstimatesP50, a.EstimatesP90 = t.asked.quantile(.5), t.asked.quantile(.9)
	a.SecondsP50, a.AccuracyP50, a.BestShare = t.seconds.quantile(.5), t.accuracy.quantile(.5), ratio(float64(t.best), float64(t.judged))
	a.ChoiceRatio, a.TotalRatio = ratio(t.sums.expected, t.sums.best), ratio(t.sums.measured, t.sums.best)
	if t.sums.best > 0 {
		a.ChoiceRatioWithEstimates = ratio(t.sums.expected+t.estimates.expected, t.sums.best+t.estimates.best)
		a.TotalRatioWithEstimates = ratio(t.sums.measured+t.estimates.measured, t.sums.best+t.estimates.best)
	}
	return a
}

// ratio returns a / b, nil if b is not positive.
func ratio(a, b float64) *float64 {
	if !(b > 0) {
		return nil
	}
	return new(a / b)
}

// Difference is the mean paired difference to another row with its 95 % confidence interval, in ms and relative to the other row's mean.
// A negative one is faster.
type Difference struct {
	To                string // name of the other row
	Ms, LowMs, HighMs float64
	Rel, Low, High    float64
	Pairs             int64
	Servers           int
}

// Clear reports whether chance alone cannot explain the difference.
func (d *Difference) Clear() bool { return d != nil && (d.HighMs < 0 || d.LowMs > 0) }

// Resamples of the bootstrap. mostDraws makes them fewer with very many servers.
const (
	resamples = 2000
	mostDraws = 20_000_000
)

// fewestServers have an interval. All of five are faster by chance alone in more than one of twenty cases.
const fewestServers = 6

// difference compares two rows by a bootstrap that draws whole servers with replacement (cluster bootstrap, expanded percentile
// interval): an assigner decides by server, so the pages of one server are not independent. It returns nil with fewer than fewestServers.
func (c *comparer) difference(row, to int) *Difference {
	type pages struct{ n, own, base float64 }
	var list []pages // of a server in the runs of a seed
	var all pages
	add := func(s *pages, p pages) { s.n, s.own, s.base = s.n+p.n, s.own+p.own, s.base+p.base }
	servers := map[uint32]bool{}
	order := func(a, b clusterKey) int {
		return cmp.Or(cmp.Compare(a.seed, b.seed), cmp.Compare(a.server, b.server), cmp.Compare(a.rows, b.rows))
	}
	both := uint16(1)<<row | 1<<to
	keys := slices.DeleteFunc(slices.SortedFunc(maps.Keys(c.clusters), order), func(k clusterKey) bool { return k.rows&both != both })
	for ofServer := range chunks(keys, func(a, b clusterKey) bool { return a.seed == b.seed && a.server == b.server }) {
		var p pages
		for _, k := range ofServer {
			l := c.clusters[k]
			add(&p, pages{float64(l.n), l.ms[row], l.ms[to]})
		}
		add(&all, p)
		list = append(list, p)
		servers[ofServer[0].server] = true
	}
	if len(servers) < 2 || len(list) < c.fewest || all.base <= 0 {
		return nil
	}
	n := max(200, min(resamples, mostDraws/len(list)))
	ms, rel := make([]float64, n), make([]float64, n)
	random := rand.New(rand.NewPCG(c.Seed, 0x70726f78696d61))
	for i := range n {
		var s pages
		for range list {
			add(&s, list[random.IntN(len(list))])
		}
		ms[i], rel[i] = (s.own-s.base)/s.n, (s.own-s.base)/s.base
	}
	slices.Sort(ms)
	slices.Sort(rel)
	low := int(float64(n) * tail(len(list)))
	high := n - 1 - low
	return &Difference{To: c.rows[to].name, Ms: (all.own - all.base) / all.n, LowMs: ms[low], HighMs: ms[high],
		Rel: (all.own - all.base) / all.base, Low: rel[low], High: rel[high], Pairs: int64(all.n), Servers: len(list)}
}

// tail is the share of the resamples that is left out on each side. Below 2.5 %, since resamples of few servers scatter too little:
// by √(n/(n-1)), and as if their scatter were known (T. Hesterberg: What Teachers Should Know About the Bootstrap, 2015, section 5.4).
func tail(servers int) float64 {
	n := float64(servers)
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(.975)
	return distuv.UnitNormal.CDF(-math.Sqrt(n/(n-1)) * t)
}

// seedShares returns a row's figures by seed, nil if there is only one.
func seedShares(runs []*run, row int) (list []SeedShare) {
	by := map[uint64]*tally{}
	for _, r := range runs {
		if t := r.tallies[row]; t != nil && r.world != nil {
			entry(by, r.seed()).merge(t)
		}
	}
	if len(by) < 2 {
		return nil
	}
	for _, seed := range slices.Sorted(maps.Keys(by)) {
		f := by[seed].figures()
		list = append(list, SeedShare{seed, f.ChoiceRatio, f.TotalRatio, f.P50Ms})
	}
	return list
}

// separately adds what only a run with this assigner alone can tell. Makespan and variations are means over such runs. Without those that
// did not end in time, a makespan would be too short.
func (c *comparer) separately(a *Assigner, row int) {
	b := Balance{MinURLs: math.MaxInt64, MinBusyS: math.Inf(1)}
	var makespans, ofURLs, ofBusy cell
	unfinished := int64(0) // URLs
	for _, r := range c.runs {
		if r.compared || r.rows != 1<<row || len(r.nodes) == 0 {
			continue
		}
		var urls, busy []float64 // by node, including those that did nothing
		for _, n := range r.nodes {
			if n.name != "" {
				s := n.busyMs / 1000
				urls, busy = append(urls, float64(n.pages)), append(busy, s)
				b.MinURLs, b.MaxURLs = min(b.MinURLs, n.pages), max(b.MaxURLs, n.pages)
				b.MinBusyS, b.MaxBusyS = min(b.MinBusyS, s), max(b.MaxBusyS, s)
			}
		}
		ofURLs.vary(urls)
		ofBusy.vary(busy)
		unfinished = max(unfinished, r.pending())
		if !r.first.IsZero() {
			makespans.add(r.last.Sub(r.first).Seconds())
		}
	}
	switch {
	case unfinished > 0:
		a.MakespanWhy = fmt.Sprintf("%d URLs were still waiting when a run ended", unfinished)
	case makespans.n > 0:
		a.MakespanS = new(makespans.mean())
	default:
		a.MakespanWhy = "it needs a run with this assigner alone"
	}
	if b.MinURLs <= b.MaxURLs { // there was such a run
		a.Balance, a.BalanceCV, b.CVBusy = &b, ratio(ofURLs.sum, float64(ofURLs.n)), ratio(ofBusy.sum, float64(ofBusy.n))
	}
}

// vary adds the standard deviation / the mean of some values, unless all are 0.
func (c *cell) vary(values []float64) {
	if mean, sd := stat.PopMeanStdDev(values, nil); mean > 0 {
		c.add(sd / mean)
	}
}
