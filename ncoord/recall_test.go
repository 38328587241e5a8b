package ncoord

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestRecall: a neighbour in memory pulls a node to where it was measured, less and less until its time is over, and then
// neither pulls nor pushes. The one just measured has pulled already.
func TestRecall(t *testing.T) {
	pull := func(measured bool, age time.Duration) float64 {
		n := NewNode(rand.New(rand.NewPCG(1, 2)))
		l := n.links.add("peer", n.rnd)
		l.remote, l.ms, l.weight = Coordinate{Vec: [MaxDims]float64{100}, Height: 1, Error: 0.2}, 10, 1
		var but *link
		if measured {
			but = l
		}
		before := Distance(n.coord, l.remote)
		n.recall(but, 0.5, int64(age))
		return before - Distance(n.coord, l.remote)
	}
	last := pull(false, 0)
	if last <= 0 {
		t.Fatalf("a neighbour at a tenth of the distance does not pull: %v ms", last)
	}
	if ms := pull(false, -neighbourTTL); ms != last {
		t.Errorf("measured before the clock was set back it pulls by %v ms, not %v", ms, last)
	}
	for _, age := range []time.Duration{neighbourTTL / 2, neighbourTTL - time.Second} {
		if ms := pull(false, age); ms <= 0 || ms >= last {
			t.Errorf("measured %v ago it pulls by %v ms, before that by %v", age, ms, last)
		} else {
			last = ms
		}
	}
	for _, age := range []time.Duration{neighbourTTL, neighbourTTL + time.Second, 2 * neighbourTTL} {
		if ms := pull(false, age); ms != 0 {
			t.Errorf("measured %v ago, it moves the node by %v ms", age, ms)
		}
	}
	if ms := pull(true, 0); ms != 0 {
		t.Errorf("the one just measured moves the node once more, by %v ms", ms)
	}
}
