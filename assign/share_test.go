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
		otherMs float64
		want    int // servers of 8 at the other node
	}{{100, 4}, {101, 4}, {100*(1+balance) + 1, 0}} {
		rankings := slices.Repeat([][]prediction{{{node: 0, ms: 100}, {node: 1, ms: c.otherMs}}}, 8)
		got := 0
		for _, pick := range a.share(rankings, slices.Repeat([]float64{1}, 8)) {
			got += pick
		}
		if got != c.want {
			t.Errorf("a node that takes %v ms instead of 100 has %d of 8 servers, want %d", c.otherMs, got, c.want)
		}
	}
}

// What is best for both aims is found: the busiest node keeps what the others are worst for.
func TestShareMovesWhatCostsLeast(t *testing.T) {
	a := &nearest{cfg: NearestConfig{Balance: 0.5}, learner: &learner{nodes: make([]learntNode, 2), live: 2}}
	for _, c := range []struct {
		otherMs [2]float64 // of each server at the other node
		work    []float64
	}{{[2]float64{140, 105}, []float64{1, 1}}, {[2]float64{104, 104}, []float64{10, 1}}} {
		picks := a.share([][]prediction{{{node: 0, ms: 100}, {node: 1, ms: c.otherMs[0]}}, {{node: 0, ms: 100}, {node: 1, ms: c.otherMs[1]}}}, c.work)
		if !slices.Equal(picks, []int{0, 1}) {
			t.Errorf("of %+v it picks %v", c, picks)
		}
	}
}

// A server that has moved goes back when a later one has made that better.
func TestShareLooksAgain(t *testing.T) {
	a := &nearest{cfg: NearestConfig{Balance: 1}, learner: &learner{nodes: make([]learntNode, 2), live: 2}}
	picks := a.share([][]prediction{
		{{node: 0, ms: 100}, {node: 1, ms: 170}},
		{{node: 0, ms: 100}, {node: 1, ms: 110}},
		{{node: 0, ms: 100}, {node: 1, ms: 230}},
	}, []float64{1, 1, 2})
	if !slices.Equal(picks, []int{0, 1, 0}) {
		t.Errorf("picks %v", picks)
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
	for _, other := range c[1:] {
		if other.Node == c[0].Node {
			t.Errorf("%v goes to the node of the one with most work", other.Server)
		}
	}
}
