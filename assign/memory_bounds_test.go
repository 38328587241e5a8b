package assign

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
)

// A memory that is full keeps the last download of each node, and drops older ones of those with the most.
func TestMemoryKeepsTheLast(t *testing.T) {
	var m Memory
	for i := range 600 {
		node, connect := strconv.Itoa(i%MaxMemoryNodes), time.Duration(i+1)*time.Millisecond
		m.Observe(node, ncoord.Coordinate{}, Timing{Connect: connect, FirstByte: connect, Total: 2 * connect}, time.Unix(int64(i), 0))
		if s := m.find(nodeKey(node)).samples; s[len(s)-1].connect != encode(ms(connect)) {
			t.Fatalf("download %d is not the last of %s: %v", i, node, s)
		}
	}
	for _, s := range m.seen {
		if len(s.samples) != memorySamples/MaxMemoryNodes {
			t.Errorf("of a node %d downloads are remembered, want %d", len(s.samples), memorySamples/MaxMemoryNodes)
		}
	}
}

// The place of a node is the last one that can be.
func TestMemoryKeepsAKnownPlace(t *testing.T) {
	var m Memory
	place := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1}, Error: 0.5}
	for _, coord := range []ncoord.Coordinate{place, {}, {Error: 9}} { // the last is impossible
		m.Observe("n", coord, Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: 1000}, time.Unix(1_000_000, 0))
		if m.seen[0].coord != place {
			t.Errorf("with a download at %v the node is at %v", coord, m.seen[0].coord)
		}
	}
}

// A memory travels with a place and a location that can be, and without others. A download of the future is of now.
func TestWhatOfAMemoryTravels(t *testing.T) {
	now := time.Unix(2000, 0)
	place := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1}, Error: 0.5}
	for name, c := range map[string]struct {
		m             Memory
		place, ground bool
	}{
		"all":                       {Memory{Proxy: Proxy{place, 1}, Location: &ncoord.Location{Lat: 1}}, true, true},
		"a place without downloads": {Memory{Proxy: Proxy{place, 0}}, false, false},
		"an impossible place":       {Memory{Proxy: Proxy{ncoord.Coordinate{Error: 9}, 1}, Location: &ncoord.Location{Lat: 91}}, false, false},
	} {
		c.m.seen = []seen{{key: 1, coord: ncoord.Coordinate{Vec: place.Vec, Error: 0.001}, at: now.Add(time.Hour), samples: []sample{{first: 1}}}}
		got, err := DecodeMemory(c.m.AppendBinary(nil, now), now)
		if age, ok := got.Age(now); err != nil || (got.Proxy == c.m.Proxy) != c.place || (got.Location != nil) != c.ground || age != 0 || !ok {
			t.Errorf("%s: %+v, %v, %v", name, got, age, err)
		}
	}
}

// A memory from another node has no more nodes and samples than one that was made here, and each node once.
func TestBoundsOfAMemory(t *testing.T) {
	now := time.Unix(2000, 0)
	for v, want := range map[float64]code{-1: 0, 0: 0, math.NaN(): 0, 1e-9: 1, 1e99: math.MaxUint16} {
		if got := encode(v); got != want {
			t.Errorf("%v is encoded as %d, want %d", v, got, want)
		}
	}
	of := func(samples ...int) (list []seen) { // so many of each node
		for i, n := range samples {
			list = append(list, seen{key: uint64(i), at: now, samples: slices.Repeat([]sample{{first: 1}}, n)})
		}
		return list
	}
	nodes := func(n int) []seen { return of(slices.Repeat([]int{1}, n)...) }
	full := append(slices.Repeat([]int{nodeSamples}, memorySamples/nodeSamples), memorySamples%nodeSamples)
	for _, c := range []struct {
		what string
		seen []seen
		err  string // "": it is taken
	}{
		{"all nodes", nodes(MaxMemoryNodes), ""},
		{"a node too many", nodes(MaxMemoryNodes + 1), "nodes, more than"},
		{"a node twice", append(nodes(2), nodes(1)...), "twice"},
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
