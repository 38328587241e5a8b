package assign_test

import (
	"math"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// told is a node that has published its load and its bandwidth, 10 Mbit/s, both to 10 %.
func told(id string, loadMs float64) assign.Node {
	return assign.Node{ID: id, Coord: ncoord.Coordinate{Error: 0.1},
		Factors: assign.Factors{LoadMs: loadMs, LoadError: 0.1, BytesPerMs: 1250, BytesError: 0.1, Samples: 50}}
}

// seenBy makes a memory of downloads that took the same at all these nodes but for their loads.
func seenBy(bytes int64, nodes ...assign.Node) *assign.Memory {
	m, page := new(assign.Memory), time.Duration(bytes/1250)*time.Millisecond
	for k := range 5 {
		for _, n := range nodes {
			load := time.Duration(n.Factors.LoadMs) * time.Millisecond
			m.Observe(n.ID, n.Coord, assign.Timing{Connect: 20 * time.Millisecond, FirstByte: 60*time.Millisecond + load,
				Total: 60*time.Millisecond + load + page, Bytes: bytes, Fresh: true}, time.Unix(int64(k), 0))
		}
	}
	return m
}

// TestBetterNeedsBothMargins: another node must be faster by a share and by so many ms. What counts of its prediction is
// half a standard deviation more than it says.
func TestBetterNeedsBothMargins(t *testing.T) {
	own, other := told("own", 400), told("other", 5)
	m, v := seenBy(10_000, own, other), assign.View{Nodes: []assign.Node{own, other}}
	p := assign.Predictions(m, v)
	if p[0].Node != "other" || p[0].Error <= 0 {
		t.Fatalf("%+v", p)
	}
	gain := p[1].Ms - p[0].Ms*(1+p[0].Error/2)
	share := gain / p[1].Ms
	for _, c := range []struct {
		ms, share float64 // of the gain
		ok        bool
	}{{0.99, 0.99, true}, {1.01, 0.99, false}, {0.99, 1.01, false}, {1.01, 1.01, false}} {
		cfg := assign.Default()
		cfg.MarginMs, cfg.Margin = c.ms*gain, c.share*share
		node, got, ok := assign.Better(cfg, m, v, "own")
		if ok != c.ok || ok && (node != "other" || math.Abs(got-gain) > 1e-6*gain) {
			t.Errorf("%+v: %q is better by %.3f ms, %v; the gain is %.3f ms", c, node, got, ok, gain)
		}
	}
}

// TestSpreadServerGoesToWhoHasSeenIt: of a server that answers at several places nobody knows how near it is to a node that
// has not asked it.
func TestSpreadServerGoesToWhoHasSeenIt(t *testing.T) {
	own, idle, busy := told("own", 400), told("idle", 5), told("busy", 30)
	v := assign.View{Nodes: []assign.Node{own, idle, busy}}
	for _, spread := range []bool{false, true} {
		m := seenBy(10_000, own, busy)
		m.Spread = spread
		want := map[bool]string{false: "idle", true: "busy"}[spread]
		if node, _, ok := assign.Better(assign.Default(), m, v, "own"); !ok || node != want {
			t.Errorf("spread %v: %q is better, %v, want %q", spread, node, ok, want)
		}
		a := build(t, assign.Nearest, budget(0), assign.Batch{Servers: []assign.Server{{Memory: *m}}}, v, time.Unix(5, 0))
		if c := a.Conclude(time.Unix(5, 0)); c[0].Node != want {
			t.Errorf("spread %v: it goes to %+v, want %q", spread, c[0], want)
		}
	}
}

// TestSilentNodeIsTakenForAUsualOne: a node that has published nothing is expected to be somewhat slower than one that has
// published the usual load and bandwidth, as it may be much slower, and its prediction is less sure. Of small pages the load
// decides, of large ones the bandwidth.
func TestSilentNodeIsTakenForAUsualOne(t *testing.T) {
	silent := assign.Node{ID: "silent", Coord: ncoord.Coordinate{Error: 0.1}}
	v := assign.View{Nodes: []assign.Node{silent, told("usual", 15)}}
	for _, bytes := range []int64{10_000, 100_000} {
		p := map[string]assign.Prediction{}
		for _, one := range assign.Predictions(seenBy(bytes, told("own", 15)), v) {
			p[one.Node] = one
		}
		slower, lessSure := p["silent"].Ms/p["usual"].Ms, p["silent"].Error/p["usual"].Error
		if slower < 1.1 || slower > 1.4 || lessSure < 1.1 {
			t.Errorf("pages of %d bytes: %.2f times slower, %.2f times less sure: %+v", bytes, slower, lessSure, p)
		}
	}
}
