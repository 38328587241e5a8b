package assign

import (
	"cmp"
	"math"
	"slices"
)

const (
	// evenEnough is which part of a busier node's work another that is as good has at least, once a batch is shared.
	evenEnough = 0.6
	// mostDoubt bounds the doubt that makes nodes equal, as a share of the better prediction: where nothing is known of a server
	// the best guess is still the best.
	mostDoubt = 0.1
)

// share picks one of each server's ranked predictions. Where predictions differ by less than their doubt, or by less than
// anybody would move a server for, backlog decides: first the queues that the nodes publish, then the work that this batch
// gives them. The less a node has to do, the more of the doubt counts for it. Servers move in the order of what that costs,
// so a node keeps what it is clearly best for.
func (a *nearest) share(rankings [][]prediction, work []float64) []int {
	picks := make([]int, len(rankings))
	if a.cfg.Balance <= 0 {
		return picks
	}
	wait := func(p prediction) float64 { return p.ms + a.learner.nodes[p.node].Factors.QueueMs }
	busy := make([]float64, a.learner.live)
	type move struct {
		server, to  int
		loss, doubt float64 // in ms, of a page
	}
	var moves []move
	for i, ranking := range rankings {
		best := ranking[0]
		for k, p := range ranking {
			if p.ms-best.ms < a.doubt(p, best) && wait(p) < wait(ranking[picks[i]]) {
				picks[i] = k
			}
		}
		first := ranking[picks[i]]
		busy[first.node] += work[i] * first.ms
		for k, p := range ranking {
			doubt := a.doubt(p, first)
			if loss := wait(p) - wait(first); k != picks[i] && p.ms-best.ms < a.doubt(p, best) && loss < doubt {
				moves = append(moves, move{i, k, loss, doubt})
			}
		}
	}
	slices.SortStableFunc(moves, func(x, y move) int { return cmp.Compare(work[x.server]*x.loss, work[y.server]*y.loss) })
	moved := make([]bool, len(rankings))
	for _, m := range moves {
		from, to := rankings[m.server][picks[m.server]], rankings[m.server][m.to]
		more := work[m.server] * to.ms
		part := (busy[to.node] + more) / busy[from.node]
		if moved[m.server] || part > evenEnough || m.loss > max(a.marginMs, m.doubt*(1-part)) {
			continue
		}
		busy[from.node] -= work[m.server] * from.ms
		busy[to.node] += more
		picks[m.server], moved[m.server] = m.to, true
	}
	return picks
}

// doubt is by how many ms a prediction may exceed another for their nodes to count as equal.
func (a *nearest) doubt(p, than prediction) float64 {
	return max(a.marginMs, min(a.cfg.Balance*math.Hypot(p.low*p.sd, than.low*than.sd), mostDoubt*than.ms))
}
