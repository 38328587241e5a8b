package assign

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
)

// The hypotheses that remained of a field make the same field again: what they come with is what was believed before the
// connect times, which would count twice else.
func TestLikelyHypothesesComeAsTheyWere(t *testing.T) {
	at := func(ms float64) *place { return &place{log: math.Log(ms), sd: 0.3} }
	seen := []measured{{node: 0, y: math.Log(14), noise: 0.02}}
	rho := func(int, int) float64 { return 1 }
	f := newField(seen, rho, []hypothesis{{place: at(10), weight: 0.3}, {place: at(30), weight: 0.7}})
	again := newField(seen, rho, f.likely())
	for i, h := range again.hyps {
		if math.Abs(h.weight-f.hyps[i].weight) > 1e-9 {
			t.Errorf("hypothesis %d has weight %.3f, and then %.3f", i, f.hyps[i].weight, h.weight)
		}
	}
}

// The least connect time of a server is believed for one to two spans of time, and no longer.
func TestTripsAreBelievedForAWhile(t *testing.T) {
	var all trips
	server, begin := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for _, c := range []struct {
		at             time.Duration
		connect, least float64
	}{
		{0, 20, 20}, {tripSpan, 50, 20}, {tripSpan + time.Second, 50, 20}, {2*tripSpan + time.Second, 0, 20},
		{2*tripSpan + 2*time.Second, 70, 50}, {10 * tripSpan, 90, 70}, {11*tripSpan + time.Second, 90, 90},
	} {
		if got := all.take(server, c.connect, 5, begin.Add(c.at)); got.least != c.least {
			t.Errorf("after %v, connecting in %v ms: the least is %v ms, want %v", c.at, c.connect, got.least, c.least)
		}
	}
}

// A memory from another node has no more nodes and samples than one that was made here, and each node once.
func TestBoundsOfAMemory(t *testing.T) {
	now := time.Unix(2000, 0)
	nodes := func(n, samples int) (list []seen) {
		for i := range n {
			list = append(list, seen{key: uint64(i), at: now, samples: slices.Repeat([]sample{{first: 1}}, samples)})
		}
		return list
	}
	of := func(samples ...int) (list []seen) {
		for i, n := range samples {
			list = append(list, seen{key: uint64(i), at: now, samples: slices.Repeat([]sample{{first: 1}}, n)})
		}
		return list
	}
	twice := append(nodes(2, 1), nodes(1, 1)...)
	full := slices.Repeat([]int{nodeSamples}, memorySamples/nodeSamples)
	full = append(full, memorySamples%nodeSamples)
	for _, c := range []struct {
		what string
		seen []seen
		err  string // "": it is taken
	}{
		{"all nodes", nodes(MaxMemoryNodes, 1), ""},
		{"a node too many", nodes(MaxMemoryNodes+1, 1), "nodes, more than"},
		{"a node twice", twice, "twice"},
		{"a node whose place is not sure at all", []seen{{coord: ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1}}}}, "without error"},
		{"all samples of a node", of(nodeSamples), ""},
		{"a sample of a node too many", of(nodeSamples + 1), "of one node"},
		{"all samples", of(full...), ""},
		{"a sample too many", of(append(slices.Clone(full), 1)...), "samples, more than"},
	} {
		m := Memory{seen: c.seen}
		_, err := DecodeMemory(m.AppendBinary(nil, now), now)
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.err)
		}
	}
}
