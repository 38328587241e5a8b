package ncoord_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"proxima/ncoord"
)

// Three nodes measure one another; then the round trip of a pair is predicted by their coordinates.
func Example() {
	rtt := map[string]float64{"ab": 20, "ac": 120, "bc": 110} // in ms
	names := []string{"a", "b", "c"}
	nodes := map[string]*ncoord.Node{}
	for i, name := range names {
		nodes[name] = ncoord.NewNode(rand.New(rand.NewPCG(1, uint64(i))))
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 500 {
		for _, pair := range []string{"ab", "ac", "bc"} {
			a, b := pair[:1], pair[1:]
			now = now.Add(time.Second)
			measured := time.Duration(rtt[pair] * float64(time.Millisecond))
			if err := nodes[a].Observe(b, nodes[b].Coordinate(), nil, measured, now); err != nil {
				fmt.Println(err)
			}
			if err := nodes[b].Observe(a, nodes[a].Coordinate(), nil, measured, now); err != nil {
				fmt.Println(err)
			}
		}
	}
	for _, pair := range []string{"ab", "ac", "bc"} {
		predicted := ncoord.Distance(nodes[pair[:1]].Coordinate(), nodes[pair[1:]].Coordinate())
		fmt.Printf("%s: within 10%%: %v\n", pair, math.Abs(predicted-rtt[pair]) < 0.1*rtt[pair])
	}
	// Output:
	// ab: within 10%: true
	// ac: within 10%: true
	// bc: within 10%: true
}
