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

// The course of one node among peers that stay where they are: it finds its place, is loaded, is moved without being told, and
// finds its new place. Every fifth sample is late, and one in a hundred comes from a liar. Shown are the place as the node
// believes it, and as it has told others: how often, and the last.
func ExampleNode_course() {
	peers := make([]ncoord.Coordinate, 12)
	draw := rand.New(rand.NewPCG(1, 2))
	for i := range peers {
		for k := range peers[i].Vec {
			peers[i].Vec[k] = float64(draw.IntN(160) - 80)
		}
		peers[i].Height, peers[i].Error = 1+float64(i%4), 0.1
	}
	liar := ncoord.Coordinate{Height: 1, Error: 0.01}
	here := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{30, -20, 10, 0}, Height: 4}
	n := ncoord.NewNode(rand.New(rand.NewPCG(3, 4)))
	now, sample, told := start, 0, 0
	course := func(what string, samples int, load float64) {
		for range samples {
			sample++
			now = now.Add(2 * time.Second)
			p := peers[sample%len(peers)]
			rtt := ncoord.Distance(here, p) + load
			if sample%5 == 0 {
				rtt *= 1.4
			}
			err := n.Observe(fmt.Sprint("peer", sample%len(peers)), p, nil, duration(rtt), now)
			if sample%100 == 0 {
				err = n.Observe("liar", liar, nil, 5*time.Second, now)
			}
			if err != nil {
				fmt.Println(err)
			}
			n.SetLoad(n.Delay(), now)
			if _, changed := n.Publish(now); changed {
				told++
			}
		}
		c, p := n.Coordinate(), n.Published()
		fmt.Printf("%-9s is %6.2f +%.2f ±%.3f  told %3d: %6.2f +%.2f ±%.3f  delay %.2f\n", what,
			c.Vec, c.Height, c.Error, told, p.Vec, p.Height, p.Error, n.Delay())
	}
	course("new", 1, 0)
	course("young", 60, 0)
	course("settled", 1000, 0)
	course("loaded", 40, 25)
	course("idle", 12, 0)
	here.Vec[0], here.Vec[3] = -60, 70
	course("moved", 60, 0)
	course("arrived", 2000, 0)
	n.Forget("nobody")
	n.Forget("liar")
	fmt.Println(n.Links(), "links")
	// Output:
	// new       is [  0.21   0.36   0.00   0.04] +5.03 ±1.160  told   1: [  0.21   0.36   0.00   0.04] +5.03 ±1.160  delay 0.00
	// young     is [ 27.84 -16.96   7.66   3.05] +5.27 ±0.029  told  24: [ 26.61 -15.49   6.33   5.18] +5.64 ±0.065  delay 0.00
	// settled   is [ 29.92 -19.99  10.00   0.06] +4.08 ±0.010  told  37: [ 29.91 -19.94   9.97   0.19] +4.21 ±0.015  delay 0.00
	// loaded    is [ 29.92 -19.99  10.00   0.06] +4.08 ±0.034  told  38: [ 29.91 -19.94   9.97   0.19] +29.21 ±0.015  delay 25.00
	// idle      is [ 29.92 -19.99  10.00   0.06] +4.08 ±0.023  told  39: [ 29.91 -19.94   9.97   0.19] +23.16 ±0.015  delay 0.00
	// moved     is [ 29.91 -19.98   9.99   0.06] +4.08 ±0.010  told  45: [ 29.91 -19.94   9.97   0.19] +54.65 ±0.015  delay 46.46
	// arrived   is [-50.45 -20.57  10.99  60.17] +13.77 ±0.020  told 118: [-50.33 -20.64  11.03  60.10] +13.84 ±0.056  delay 0.00
	// 12 links
}
