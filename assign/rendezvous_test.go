package assign

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkShares checks that each of some nodes has about its share of 20,000 keys. A node that joins takes its share, and nothing else moves.
func checkShares(t *testing.T, nodes int, tolerance float64, owners func(nodes []string) []string) {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("node%d", i))
	}
	about := func(got, share int) bool {
		return float64(got) >= float64(share)*(1-tolerance) && float64(got) <= float64(share)*(1+tolerance)
	}
	before, after := owners(names), owners(append(slices.Clone(names), "another"))
	count := map[string]int{}
	moved := 0
	for i, was := range before {
		count[was]++
		if after[i] != was {
			moved++
			if after[i] != "another" {
				t.Fatalf("a join moved key %d from %s to %s", i, was, after[i])
			}
		}
	}
	for _, n := range names {
		if !about(count[n], len(before)/nodes) {
			t.Errorf("%s has %d of %d keys", n, count[n], len(before))
		}
	}
	if !about(moved, len(before)/(nodes+1)) {
		t.Errorf("a join moved %d of %d keys", moved, len(before))
	}
}

func TestRendezvous(t *testing.T) {
	checkShares(t, 20, 0.15, func(nodes []string) (list []string) {
		for i := range 20_000 {
			key := fmt.Sprintf("198.18.%d.%d", i/256, i%256)
			first := Rendezvous(key, nodes)
			order := RendezvousOrder(key, nodes, 3)
			if len(order) != 3 || order[0] != first {
				t.Fatalf("the order %v does not begin with %s", order, first)
			}
			if all := RendezvousOrder(key, nodes, 4+i%100); len(all) != min(len(nodes), 4+i%100) || !slices.Equal(all[:3], order) || all[3] != Rendezvous(key, all[3:]) {
				t.Fatalf("the order %v does not begin with %v", all, order)
			}
			// Without the first, the second, in whatever order the nodes come.
			without := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == first })
			got := Rendezvous(key, without)
			if slices.Reverse(without); got != order[1] || Rendezvous(key, without) != got {
				t.Fatalf("without %s it is %s, not %s", first, got, order[1])
			}
			list = append(list, first)
		}
		return list
	})
	nodes := []string{"a", "b"}
	if Rendezvous("x", nil) != "" || len(RendezvousOrder("x", nodes, 99)) != 2 || len(RendezvousOrder("x", nodes, -1)) != 0 {
		t.Error("the edges are wrong")
	}
}

func TestHash(t *testing.T) {
	var b Batch
	for i := range 20_000 {
		b.Servers = append(b.Servers, Server{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			Hosts: []Host{{Name: fmt.Sprintf("http://z%d.example", i)}, {Name: fmt.Sprintf("http://host%d.example", i)}}})
	}
	h := newProber(rule(Default().Hash.choose), b, View{})
	// With k = 200 the deviation of shares is 4.5 % in the paper (section 6.2); ours of ten nodes is some 7 %.
	checkShares(t, 10, 0.15, func(nodes []string) (list []string) {
		h.SetView(viewOf(nodes...), time.Time{})
		choices, _ := h.Decide(time.Time{})
		if !strings.Contains(choices[0].Reason, "host0.example") {
			t.Errorf("not the first host in the alphabet: %q", choices[0].Reason)
		}
		for _, c := range choices {
			list = append(list, c.Node)
		}
		return list
	})
	if c := newCircle(viewOf("a", "b").Nodes, 3); len(c) != 6 {
		t.Errorf("two nodes with three replicas have %d points", len(c))
	}
	// The circle is closed: a point before the first replica may be closest to the last.
	ring := circle{{100, "low"}, {1 << 63, "middle"}, {1<<64 - 50, "high"}}
	for point, want := range map[uint64]string{0: "high", 90: "low", 1<<64 - 1: "high", 1 << 62: "low", 1<<62 + 50: "low", 1<<63 - 1: "middle"} {
		if got := ring.closest(point); got != want {
			t.Errorf("%d belongs to %s, want %s", point, got, want)
		}
	}
}
