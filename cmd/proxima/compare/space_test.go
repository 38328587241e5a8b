package compare

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/cmd/proxima/rundir"
	"proxima/node/runlog"
)

// TestSpaceByHand: two nodes on a line, 220 ms apart in truth, and a server whose place moves when tokyo's bandwidth is cut.
func TestSpaceByHand(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	server := b.world.Servers[1].Addr
	b.world.Events = []rundir.Event{
		{AtS: 30, Kind: rundir.EventBandwidth, Node: "tokyo", Factor: .2},
		{AtS: 40, Kind: rundir.EventSlow, Server: server, AddMs: 5000},
	}
	berlin, tokyo := b.nodes[0], b.nodes[1]
	coord := func(n *bedNode, s, x, height float64) {
		n.at(s).Coord(runlog.Coord{Peer: "p", RTTMs: 1, Vector: []float64{x, 0, 0, 0}, HeightMs: height, Accuracy: .5})
	}
	coord(berlin, 1, 0, 5)
	coord(tokyo, 1, 100, 5) // 110 ms: half of the truth
	coord(berlin, 9, 0, 10)
	coord(tokyo, 9, 200, 10) // 220 ms
	coord(tokyo, 10, 9e9, 0) // no place
	tokyo.Coord(runlog.Coord{Peer: "p", Vector: []float64{7, 7, 7, 7}, Accuracy: .1, Refused: "the peer lies"})
	for s, x := range map[float64]float64{20: 220, 50: 260} {
		berlin.at(s).Proxy(runlog.Proxy{Label: "nearest", Server: server.String(), Vector: []float64{x, 0, 0, 0}, HeightMs: 2, Accuracy: s / 100})
	}
	berlin.decide(21, runlog.Assign{Batch: "b", Label: "nearest", Host: "b.test", Owner: tokyo.id})
	berlin.decide(51, runlog.Assign{Batch: "c", Label: "nearest", Host: "b.test", Owner: berlin.id})
	for i := range 4 {
		page := assigned("nearest", fmt.Sprintf("b.test/%d", i), 100)
		page.Batch, page.Bytes = "b", int64(1000*(i+1))
		tokyo.fetch(22+5*float64(i), page)
	}
	r := read(t, b.write())
	median := r.CoordError[0].Points
	near(t, "error at first", &median[0][1], .5)
	near(t, "error at last", &median[len(median)-1][1], 0)
	var node, slow *Affected
	for i := range r.Affected {
		switch a := &r.Affected[i]; a.Name {
		case "tokyo":
			node = a
		case server.String():
			slow = a
		}
	}
	if node == nil || slow == nil {
		t.Fatalf("affected: %+v", r.Affected)
	}
	points := func(what string, list []Series, want ...Point) {
		t.Helper()
		if len(list) == 0 {
			t.Errorf("%s: nothing", what)
		} else if d := cmp.Diff(want, list[0].Points, cmpopts.EquateApprox(1e-3, 1e-3)); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	points("distance to tokyo", node.Distance, Point{20.5, 20 + 12}, Point{50.5, 60 + 12})
	points("error of the servers' places", node.Error, Point{20.5, .2}, Point{50.5, .5})
	points("distance from both", slow.Distance, Point{20.5, (220 + 12 + 20 + 12) / 2}, Point{50.5, (260 + 12 + 60 + 12) / 2})
	if len(slow.Distance) != 1 || slow.Distance[0].Label != "nearest" {
		t.Errorf("distances of the server: %+v", slow.Distance)
	}
	// One decision for tokyo at 21 s: 6 a minute in a cell of 10 s.
	if n := len(node.Rate); n == 0 || node.Rate[0].Points[2] != (Point{25, 6}) {
		t.Errorf("rate: %+v", node.Rate)
	}
	if p := node.URLs[0].Points; p[len(p)-1][1] != 4 {
		t.Errorf("URLs: %+v", node.URLs)
	}
	if p := slow.Spacing[0].Points; len(p) != 2 || p[0] != (Point{25, 5}) || p[1] != (Point{34, 4}) {
		t.Errorf("spacing: %+v", slow.Spacing)
	}
	// Speeds are 10, 20, 30, 40 kB/s; each point is the median of all so far.
	points("speed", r.Speed, Point{22.5, 10}, Point{27.5, 15}, Point{32.5, 20}, Point{37.5, 25})
	if m := r.Servers; len(m) != 1 || m[0].Space[0] != 260 || m[0].City != "Seoul" || m[0].Best != "tokyo" ||
		len(m[0].Choices) != 1 || m[0].Choices[0].Row != "nearest" || m[0].Choices[0].Node != "berlin" {
		t.Errorf("servers: %+v", m)
	} else {
		near(t, "loss", m[0].Choices[0].LossMs, 2*(200-40)) // the server is slow for both
	}
}

// TestTimelinesOfAComparison: what the owner downloads beyond the comparison is no assigner's, and every request to a server counts
// for the time between them.
func TestTimelinesOfAComparison(t *testing.T) {
	b := newBed(t, t.TempDir(), twoNodes())
	b.world.Events = []rundir.Event{{AtS: 5, Kind: rundir.EventSlow, Server: b.world.Servers[0].Addr, AddMs: 50}}
	berlin := b.nodes[0]
	for _, label := range b.world.Assigners {
		berlin.decide(1, runlog.Assign{Label: label, Host: "a.test", Owner: berlin.id})
	}
	const a = "http://a.test/"
	berlin.fetch(10, runlog.Fetch{URL: a + "robots.txt", Kind: runlog.KindRobots, Status: 404, Origin: runlog.OriginDiscovered})
	berlin.fetch(11, estimated("nearest", "a.test/e", 40))
	berlin.fetch(12, assigned("nearest,random", "a.test/compared", 40))
	berlin.fetch(13, runlog.Fetch{URL: a + "own", TotalMs: 40, Origin: runlog.OriginAssigned, Label: "nearest"})
	berlin.fetch(14, runlog.Fetch{URL: a + "late", Error: "timeout", Origin: runlog.OriginDiscovered})
	r := read(t, b.write())
	if len(r.Progress) != 2 || len(r.Affected) != 1 || len(r.Affected[0].Spacing) != 1 {
		t.Fatalf("progress %+v, affected %+v", r.Progress, r.Affected)
	}
	for i, s := range [][]Series{r.Progress, r.Affected[0].URLs} {
		for _, of := range s {
			if last := of.Points[len(of.Points)-1]; last[1] != 1 {
				t.Errorf("plot %d: %v URLs of %s, want that of the comparison", i, last[1], of.Label)
			}
		}
	}
	if p := r.Affected[0].Spacing[0].Points; p[len(p)-1][1] != 1 {
		t.Errorf("five requests in five seconds: %+v", p)
	}
}

// TestTheLastRateIsOfItsTime: few runs end with a window.
func TestTheLastRateIsOfItsTime(t *testing.T) {
	for end, want := range map[int]int{3: 1, 10: 1, 14: 1, 15: 2, 24: 2, 25: 3, 121: 12} {
		line := &timeline[cell]{}
		for s := range end {
			line.at(float64(s)).add(1)
		}
		points := rates("", line, perMinute).Points
		if len(points) != want {
			t.Errorf("%d s: %v, want %d", end, points, want)
		}
		for _, p := range points {
			if p[1] != 60 || p[0] > float64(end) {
				t.Errorf("%d s of one a second: %v", end, points)
			}
		}
	}
}

// TestEventsInWords: a state lasts until the event that ends it, or replaces it. That end begins none, whatever happens again.
func TestEventsInWords(t *testing.T) {
	server := twoNodes().Servers[0].Addr
	got := inWords([]rundir.Event{
		{AtS: 1, Kind: rundir.EventCPU, Node: "n", AddMs: 100},
		{AtS: 2, Kind: rundir.EventSlow, Server: server, AddMs: 5000},
		{AtS: 3, Kind: rundir.EventKill, Node: "m"},
		{AtS: 4, Kind: rundir.EventPartition, Nodes: []string{"n", "m"}},
		{AtS: 5, Kind: rundir.EventCPU, Node: "n"},
		{AtS: 6, Kind: rundir.EventSlow, Server: server},
		{AtS: 7, Kind: rundir.EventRestart, Node: "m"},
		{AtS: 8, Kind: rundir.EventKill, Node: "m"},
		{AtS: 9, Kind: rundir.EventRestart, Node: "m"},
		{AtS: 10, Kind: rundir.EventPartition, Nodes: []string{"m"}},
		{AtS: 11, Kind: rundir.EventHeal},
		{AtS: 12, Kind: rundir.EventHeal},
	})
	want := []Event{
		{1, 5, "CPU burnt", "n"},
		{2, 6, "+5 s", server.String()},
		{3, 7, "kill -9", "m"},
		{4, 10, "partition", "n, m"},
		{7, 7, "restart", "m"},
		{8, 9, "kill -9", "m"},
		{9, 9, "restart", "m"},
		{10, 11, "partition", "m"},
		{11, 11, "heal", ""},
		{12, 12, "heal", ""},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
