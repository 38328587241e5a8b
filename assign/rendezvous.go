package assign

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// weight returns the pseudo-random weight of a node for a key.
func weight(key, node string) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(key) // a digest never fails
	_, _ = d.Write([]byte{0})
	_, _ = d.WriteString(node)
	// One more mixing step: xxhash is weak for short inputs that differ only in their last bytes.
	x := d.Sum64()
	x ^= x >> 32
	x *= 0xd6e8feb86659fd93
	x ^= x >> 32
	return x
}

// Rendezvous returns the node with the highest random weight for a key, or "" without nodes (D. Thaler, C. Ravishankar: Using
// Name-Based Mappings to Increase Hit Rates, 1998). The order of the nodes does not matter. When a node joins or leaves, only the keys
// that it gets or had change their nodes.
func Rendezvous(key string, nodes []string) string {
	var best string
	var most uint64
	for i, n := range nodes {
		w := weight(key, n)
		if i == 0 || w > most || w == most && n < best {
			best, most = n, w
		}
	}
	return best
}

// RendezvousOrder returns the n nodes with the highest weights, highest first. It returns all nodes if there are fewer.
func RendezvousOrder(key string, nodes []string, n int) []string {
	type drawn struct {
		node   string
		weight uint64
	}
	n = min(max(n, 0), len(nodes))
	best := make([]drawn, 0, n+1)
	for _, node := range nodes { // of many nodes mostly two or three are wanted, again and again: to sort all would take two to three times as long
		d := drawn{node, weight(key, node)}
		i, _ := slices.BinarySearchFunc(best, d, func(a, b drawn) int {
			return cmp.Or(cmp.Compare(b.weight, a.weight), strings.Compare(a.node, b.node))
		})
		if i < n {
			best = slices.Insert(best, i, d)
			best = best[:min(len(best), n)]
		}
	}
	order := make([]string, len(best))
	for i, d := range best {
		order[i] = d.node
	}
	return order
}
