package assign_test

import (
	"fmt"
	"testing"
	"time"

	"proxima/assign"
	"proxima/assign/assigntest"
)

// BenchmarkOwnObserve is what a node pays to learn from each of its downloads: ten thousand a second from 40 servers that
// others have asked as well.
func BenchmarkOwnObserve(b *testing.B) {
	for _, nodes := range []int{4, 40, 300} {
		b.Run(fmt.Sprintf("%d nodes", nodes), func(b *testing.B) {
			w := assigntest.NewWorld(assigntest.MadeUp(max(60, nodes), 1), assigntest.WorldConfig{Nodes: nodes, Servers: 40, Seed: 1})
			ms := make([]assign.Memory, len(w.Servers))
			timings := make([]assign.Timing, len(w.Servers))
			for s := range ms {
				timings[s] = w.Download(0, s)
				for n := range min(nodes, 8) {
					ms[s].Observe(w.Nodes[n].ID, w.Nodes[n].Coord, w.Download(n, s), time.Unix(0, 0))
				}
			}
			v, o, now := w.View(), assign.NewOwn(assign.Factors{}), time.Unix(0, 0)
			i := 0
			for b.Loop() {
				s := i % len(ms)
				now = now.Add(100 * time.Microsecond)
				o.Observe(w.Nodes[0].ID, w.Servers[s].Addr, timings[s], &ms[s], v, now)
				i++
			}
		})
	}
}
