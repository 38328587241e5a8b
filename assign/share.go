package assign

import "math"

// sharePasses limits the passes of share over all servers. Two to four suffice for most batches.
const sharePasses = 10

// share picks one of each server's ranked predictions. It minimises
//
//	Σ work · ms + balance · (Σ_n busy(n)⁸)^⅛
//
// This is the time of all pages, plus balance times the time of the busiest node. The eighth power approximates the maximum, but also
// considers the second busiest node. So a page takes longer by at most the share balance to move it away from the busiest node, and no
// longer if all nodes are equally busy. Servers move one by one as long as that reduces the sum. A node's queue makes it as busy as
// if the whole batch waited there.
func (a *nearest) share(rankings [][]prediction, work []float64) []int {
	picks := make([]int, len(rankings))
	busy := make([]float64, a.learner.live)
	pages := 0.0
	for i, ranking := range rankings {
		busy[ranking[0].node] += work[i] * ranking[0].ms
		pages += work[i]
	}
	sum := 0.0
	for n := range busy {
		busy[n] += pages * a.learner.nodes[n].Factors.QueueMs
		sum += power8(busy[n])
	}
	for range sharePasses {
		moved := false
		for i, ranking := range rankings {
			from := ranking[picks[i]]
			sum -= power8(busy[from.node])
			busy[from.node] -= work[i] * from.ms
			sum += power8(busy[from.node])
			least := math.Inf(1)
			for k, p := range ranking {
				ms := work[i] * p.ms
				cost := ms + a.cfg.Balance*root8(sum-power8(busy[p.node])+power8(busy[p.node]+ms))
				if cost < least {
					least, picks[i] = cost, k
				}
			}
			to := ranking[picks[i]]
			sum -= power8(busy[to.node])
			busy[to.node] += work[i] * to.ms
			sum += power8(busy[to.node])
			moved = moved || to.node != from.node
		}
		if !moved {
			break
		}
	}
	return picks
}

func power8(x float64) float64 { x *= x; x *= x; return x * x }

func root8(x float64) float64 { return math.Sqrt(math.Sqrt(math.Sqrt(max(x, 0)))) }
