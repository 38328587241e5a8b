package ncoord

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// TestJumpIsTold: a node takes itself for one that has jumped where its error is far above that of its calm time, which follows
// a falling error at once and a rising one slowly. Then it begins anew, and says that it is unsure.
func TestJumpIsTold(t *testing.T) {
	for _, c := range []struct {
		err, calm         float64
		wantErr, wantCalm float64
		jump              bool
	}{
		{0.3, 0.3, 0.3, 0.3, false},
		{0.2, 0.3, 0.2, 0.2, false},
		{0.5, 0.2, 0.5, 0.2003, false},
		{0.59, 0.2, 0.59, 0.20039, false},
		{0.75, 0.275, 0.75, 0.275475, false}, // exactly a jump is none yet
		{0.61, 0.2, 0.61, 0.61, true},
		{0.21, 0.01, 0.21, 0.0102, false},
		{0.23, 0.01, jumpError, jumpError, true},
	} {
		n := &Node{coord: Coordinate{Error: c.err}, calm: c.calm, samples: 100}
		n.watch()
		if math.Abs(n.coord.Error-c.wantErr)+math.Abs(n.calm-c.wantCalm) > 1e-9 || (n.samples == 0) != c.jump {
			t.Errorf("an error of %v after %v: error %v, calm %v, %d samples; want %v", c.err, c.calm, n.coord.Error, n.calm, n.samples, c)
		}
	}
	if n := NewNode(nil); n.calm != MaxError {
		t.Errorf("a new node takes its first errors for a jump: it was calm at %v", n.calm)
	}
}

// TestShortestRoundTrips: below a tenth of a millisecond round trips are not told apart.
func TestShortestRoundTrips(t *testing.T) {
	var at [2]Coordinate
	for i, rtt := range []time.Duration{time.Microsecond, 99 * time.Microsecond} {
		n := NewNode(rand.New(rand.NewPCG(1, 1)))
		_ = n.Observe("p", Coordinate{Error: 1}, nil, rtt, time.Unix(1e9, 0))
		at[i] = n.coord
	}
	if at[0] != at[1] {
		t.Errorf("a round trip of 1 µs leads to %v, one of 99 µs to %v", at[0], at[1])
	}
}

// TestDelayNeedsAFloor: a link tells delays from its fourth sample on, as its floor is not known before.
func TestDelayNeedsAFloor(t *testing.T) {
	n := NewNode(rand.New(rand.NewPCG(1, 1)))
	for i, want := range []int{0, 0, 0, 1, 2} {
		if err := n.Observe("p", Coordinate{Height: 1, Error: 1}, nil, time.Duration(10+i)*time.Millisecond, time.Unix(1e9, 0)); err != nil || n.delays.samples != want {
			t.Errorf("after %d samples %d delays are known: %v", i+1, n.delays.samples, err)
		}
	}
}

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
