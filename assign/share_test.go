package assign

import (
	"slices"
	"testing"
	"time"

	"proxima/ncoord"
)

// Of equal nodes each gets its part, and no page's time is given away beyond what balance allows.
func TestShare(t *testing.T) {
	const balance = 0.1
	a := &nearest{cfg: NearestConfig{Balance: balance}, learner: &learner{nodes: make([]learntNode, 2), live: 2}}
	for _, c := range []struct {
		otherMs, queueMs float64 // queue at the first
		want             int     // servers of 8 at the other node
	}{{100, 0, 4}, {101, 0, 4}, {100*(1+balance) + 1, 0, 0}, {100, 50, 6}, {100, 100, 8}} {
		a.learner.nodes[0].Factors.QueueMs = c.queueMs
		rankings := slices.Repeat([][]prediction{{{node: 0, ms: 100}, {node: 1, ms: c.otherMs}}}, 8)
		got := 0
		for _, pick := range a.share(rankings, slices.Repeat([]float64{1}, 8)) {
			got += pick
		}
		if got != c.want {
			t.Errorf("%+v: the other node has %d of 8 servers", c, got)
		}
	}
}

// What is best for both aims is found: the busiest node keeps what the others are worst for. A server that has moved goes back when a later
// one has made that better.
func TestShareMovesWhatCostsLeast(t *testing.T) {
	for _, c := range []struct {
		balance     float64
		other, work []float64 // of each server: the ms at the other node, instead of 100, and its work
		want        []int
	}{
		{0.5, []float64{140, 105}, []float64{1, 1}, []int{0, 1}},
		{0.5, []float64{104, 104}, []float64{10, 1}, []int{0, 1}},
		{1, []float64{170, 110, 230}, []float64{1, 1, 2}, []int{0, 1, 0}},
		{1, []float64{170, 210, 160}, []float64{3, 1, 3}, []int{0, 0, 1}},
	} {
		a := &nearest{cfg: NearestConfig{Balance: c.balance}, learner: &learner{nodes: make([]learntNode, 2), live: 2}}
		var rankings [][]prediction
		for _, ms := range c.other {
			rankings = append(rankings, []prediction{{node: 0, ms: 100}, {node: 1, ms: ms}})
		}
		if picks := a.share(rankings, c.work); !slices.Equal(picks, c.want) {
			t.Errorf("of %+v it picks %v", c, picks)
		}
	}
}

// The work of a server is that of all its hosts. Nodes that have not downloaded from it may have it, too.
func TestShareCountsAllHosts(t *testing.T) {
	b := batchOf("192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1")
	for i := range b.Servers {
		b.Servers[i].Hosts = []Host{{Pending: 1}}
		b.Servers[i].Memory.Observe("a", ncoord.Coordinate{}, Timing{Connect: 150e6, FirstByte: 200e6, Total: 500e6, Bytes: 10_000}, time.Unix(2000, 0))
	}
	b.Servers[0].Hosts = []Host{{Pending: 100}, {Pending: 1}}
	c := newNearest(NearestConfig{Balance: 10}, b, viewOf("a", "b")).Conclude(time.Unix(2000, 0))
	if c[0].Node != "a" {
		t.Errorf("the server with most work leaves the fastest node: %+v", c[0])
	}
	for _, other := range c[1:] {
		if other.Node == c[0].Node {
			t.Errorf("%v goes to the node of the one with most work", other.Server)
		}
	}
}
