package compare

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// Difference is a mean paired difference to the reference with its 95 % confidence interval, in ms and relative to the reference's mean.
// Negative is faster.
type Difference struct {
	Ms, LowMs, HighMs float64
	Rel, Low, High    float64
	Pairs             int64
	Servers           int
}

// Resamples of the bootstrap, fewer where there are very many servers.
const (
	resamples   = 2000
	mostDraws   = 20_000_000
	minClusters = 2
)

// difference draws whole servers with replacement (a cluster bootstrap, percentile interval): an assigner decides by server, so the
// pages of one server are not independent. nil with less than two servers.
func difference(clusters map[uint64]*cluster, seed uint64) *Difference {
	if len(clusters) < minClusters {
		return nil
	}
	list := make([]cluster, 0, len(clusters))
	for _, k := range slices.Sorted(maps.Keys(clusters)) {
		list = append(list, *clusters[k])
	}
	var all cluster
	for _, c := range list {
		all.n, all.own, all.base = all.n+c.n, all.own+c.own, all.base+c.base
	}
	if all.n == 0 || all.base <= 0 {
		return nil
	}
	n := max(200, min(resamples, mostDraws/len(list)))
	ms, rel := make([]float64, n), make([]float64, n)
	random := rand.New(rand.NewPCG(seed, 0x70726f78696d61))
	for i := range n {
		var s cluster
		for range list {
			c := &list[random.IntN(len(list))]
			s.n, s.own, s.base = s.n+c.n, s.own+c.own, s.base+c.base
		}
		ms[i], rel[i] = (s.own-s.base)/float64(s.n), (s.own-s.base)/s.base
	}
	slices.SortFunc(ms, cmp.Compare[float64])
	slices.SortFunc(rel, cmp.Compare[float64])
	low, high := n*25/1000, n-1-n*25/1000
	return &Difference{Ms: (all.own - all.base) / float64(all.n), LowMs: ms[low], HighMs: ms[high],
		Rel: (all.own - all.base) / all.base, Low: rel[low], High: rel[high], Pairs: all.n, Servers: len(list)}
}
