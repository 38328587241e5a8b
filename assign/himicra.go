package assign

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"proxima/ncoord"
)

// himicra is HiMicra (O. Papapetrou: Location Aware Web-Crawling with the Use of Migrating Crawlers, 2003, chapter 6). The nodes
// form a tree of nodes that are far from their parent and from its other children. The search for a server's node begins at the root, so
// few nodes probe it. It goes to the first node whose probe is within the threshold, or to the fastest of those asked.
//
// The paper leaves some details open. Here the sample from which the tree is built is the nodes themselves, at the distances of their
// coordinates, so that it costs no probe. Swapping one node at a time finds the subset that is farthest apart (the paper tries all
// subsets). The children of a node that does not answer are asked last.
type himicra struct {
	cfg      HiMicraConfig
	children map[string][]string // by parent; the root is ""
	ids      []string
}

// join builds the tree of the nodes.
func (h *himicra) join(nodes []Node, _ []*probed) {
	h.ids, h.children = ids(nodes), make(map[string][]string)
	times := make([][]float64, len(nodes))
	for i, n := range nodes {
		for _, s := range nodes {
			if known(n.Coord) && known(s.Coord) {
				times[i] = append(times[i], ncoord.Distance(n.Coord, s.Coord))
			}
		}
	}
	all := make([]int, len(nodes))
	for i := range all {
		all[i] = i
	}
	h.build(-1, all, times)
}

// apart is how differently two nodes see the sample; 0 if a coordinate is unknown.
func apart(times [][]float64, i, j int) (sum float64) {
	for s := range min(len(times[i]), len(times[j])) {
		sum += math.Abs(times[i][s] - times[j][s])
	}
	return sum
}

// build makes a subtree of the nodes below and puts it under a node, or under the root, which is -1 and sees no sample.
func (h *himicra) build(parent int, below []int, times [][]float64) {
	name, top := "", below
	if parent >= 0 {
		name = h.ids[parent]
	}
	if len(below) > h.cfg.Branches {
		top = farthest(below, h.cfg.Branches, func(set []int) (sum float64) {
			for i, u := range set {
				for _, o := range set[:i] {
					sum += apart(times, u, o)
				}
				if parent >= 0 {
					sum += apart(times, u, parent)
				}
			}
			return sum
		})
	}
	joined := make(map[int][]int)
	for _, u := range below {
		if !slices.Contains(top, u) {
			c := slices.MinFunc(top, func(a, b int) int { return cmp.Compare(apart(times, u, a), apart(times, u, b)) })
			joined[c] = append(joined[c], u)
		}
	}
	for _, c := range top {
		h.children[name] = append(h.children[name], h.ids[c])
		if len(joined[c]) > 0 {
			h.build(c, joined[c], times)
		}
	}
}

// farthest picks n of all, those with the largest sum that swapping finds.
func farthest(all []int, n int, sum func(set []int) float64) []int {
	set := slices.Clone(all[:n])
	for {
		best, most := set, sum(set)
		for i := range set {
			for _, u := range all {
				if other := slices.Clone(set); !slices.Contains(set, u) {
					other[i] = u
					if s := sum(other); s > most {
						best, most = other, s
					}
				}
			}
		}
		if &best[0] == &set[0] {
			slices.Sort(set)
			return set
		}
		set = best
	}
}

// step searches the tree from the root down.
func (h *himicra) step(s *probed) (string, *Choice) {
	open := slices.Clone(h.children[""])
	for len(open) > 0 {
		// All open nodes probe before the search descends below the fastest.
		for _, id := range open {
			if s.times[id] == 0 {
				return id, nil
			}
		}
		id := slices.MinFunc(open, func(a, b string) int { return cmp.Compare(s.times[a], s.times[b]) })
		if s.times[id] <= h.cfg.ThresholdMs {
			return "", new(s.fastestOf([]string{id}, fmt.Sprintf("first in the tree within %v ms", h.cfg.ThresholdMs)))
		}
		open = append(slices.DeleteFunc(open, func(o string) bool { return o == id }), h.children[id]...)
	}
	return "", new(s.fastestOf(h.ids, "fastest in the tree"))
}
