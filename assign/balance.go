package assign

import (
	"math"
	"slices"
)

const (
	// How steeply a busy node's price rises. The higher the more the busiest counts, and not only the unevenness: a batch is
	// finished when the last node is.
	priceSteepness = 3.0
	balanceSweeps  = 30
	populationSize = 32
)

// balance picks one of each server's ranked predictions, so that the sum of work × predicted time is small and no node is
// far busier than the others:
//
//	minimise  Σ_n busy_n + weight · mean · Σ_n (busy_n / mean)^(1 + p) / (1 + p),   p = priceSteepness
//
// At the margin a node with k times the average share of the batch counts as if it were weight × k^p slower: nearly equal
// predictions are spread, clear ones are followed. Deterministic; sweeps of the best single moves until none is left.
func balance(rankings [][]prediction, work []float64, nodes int, weight float64) []int {
	picks := make([]int, len(rankings))
	if weight <= 0 || nodes < 2 {
		return picks
	}
	busy := make([]float64, nodes)
	var sum float64
	for i, r := range rankings {
		busy[r[0].node] += work[i] * r[0].ms
		sum += work[i] * r[0].ms
	}
	mean := sum / float64(nodes)
	if mean <= 0 {
		return picks
	}
	price := func(ms float64) float64 { // (ms/mean)^4
		x := ms / mean
		x *= x
		return weight * mean / (1 + priceSteepness) * x * x
	}
	for range balanceSweeps {
		moved := false
		for i, r := range rankings {
			now := r[picks[i]]
			busy[now.node] -= work[i] * now.ms
			best, least := 0, math.Inf(1)
			for k, p := range r {
				took := work[i] * p.ms
				if took > least {
					break // and all that follow
				}
				if cost := took + price(busy[p.node]+took) - price(busy[p.node]); cost < least {
					best, least = k, cost
				}
			}
			moved = moved || best != picks[i]
			picks[i] = best
			busy[r[best].node] += work[i] * r[best].ms
		}
		if !moved {
			break
		}
	}
	return picks
}

// population is one ranking for a server beside each of some nodes: what other homes have to give away, for all that is known.
// All homes see about the same nodes and so about the same population, and none gives all it has to the node that is best for
// everybody.
func (l *learner) population(page float64) [][]prediction {
	rankings := make([][]prediction, 0, populationSize)
	step := (len(l.beside) + populationSize - 1) / populationSize
	for i := 0; i < len(l.beside); i += step {
		p := l.beside[i]
		s := &learntServer{memory: &Memory{}, page: page, think: newQuantity(thinkPriorMs, thinkPriorSD)}
		s.field = newField(nil, l.rho, []hypothesis{{place: p, weight: 1}})
		all := l.ranking(s)
		rankings = append(rankings, slices.Clone(all[:min(keptRanks, len(all))]))
	}
	return rankings
}
