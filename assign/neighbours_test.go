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

// nearWorld is four nodes in a row, 100 ms from one to the next, and what is known of servers beside one of them.
func nearWorld() View {
	var v View
	for i, id := range []string{"a", "b", "c", "d"} {
		n := Node{ID: id, Coord: ncoord.Coordinate{Error: 0.1}}
		n.Coord.Vec[0] = 100 * float64(i)
		v.Nodes = append(v.Nodes, n)
	}
	return v
}

// beside is the memory of a server beside node i.
func beside(v View, i int) (m Memory) {
	for _, n := range v.Nodes {
		rtt := 8 + ncoord.Distance(n.Coord, v.Nodes[i].Coord)
		d := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
		for range 2 {
			m.Observe(n.ID, n.Coord, Timing{Connect: d(rtt * 1.1), FirstByte: d(rtt + 75), Total: d(3*rtt + 100), Bytes: 20_000}, time.Unix(1000, 0))
		}
	}
	return m
}

func TestNeighboursTellWhereAServerIs(t *testing.T) {
	v := nearWorld()
	cfg := Default()
	cfg.Nearest.Estimates, cfg.Nearest.Balance = 0, 0
	decide := func(near ...Server) string {
		t.Helper()
		b := batchOf("192.0.2.1")
		b.Near = near
		a, err := New(Nearest, cfg, b, v, time.Unix(2000, 0))
		if err != nil {
			t.Fatal(err)
		}
		for i := range near { // these are the caller's, who learns on
			for _, n := range v.Nodes {
				near[i].Memory.Fail(n.ID, time.Unix(2000, 0))
			}
		}
		a.Asks(time.Unix(2000, 0))
		c, done := a.Decide(time.Unix(2000, 0))
		if !done || len(c) != 1 {
			t.Fatalf("it decided %v: %+v", done, c)
		}
		return c[0].Node
	}
	// A server may be anywhere: the nodes in the middle are the best, unless one of its network tells where it is.
	for _, c := range []struct {
		addr    string
		without Ablation
		follows bool
	}{{"192.0.2.9", 0, true}, {"192.0.2.9", withoutNeighbours, false}, {"192.0.3.9", 0, false}, {"2001:db8::1", 0, false}} {
		cfg.Nearest.Without = c.without
		for i, n := range v.Nodes {
			got := decide(Server{Addr: netip.MustParseAddr(c.addr), Memory: beside(v, i)})
			if c.follows && got != n.ID || !c.follows && got != "b" && got != "c" {
				t.Errorf("%+v: with a server at %s it chose %s", c, n.ID, got)
			}
		}
	}
}

// What is learnt of one server changes what is asked about its neighbour, also if that was planned before.
func TestPlansFollowWhatIsLearnt(t *testing.T) {
	v, now := nearWorld(), time.Unix(2000, 0)
	var next [2][]Ask
	for i, planned := range []bool{false, true} {
		a, err := New(Nearest, Default(), batchOf("192.0.2.1", "192.0.2.2"), v, now)
		if err != nil {
			t.Fatal(err)
		}
		asks := a.Asks(now)
		a.Observe(Result{Ask: asks[0], Unreached: true}, now)
		if planned {
			a.Decide(now)
		}
		a.Observe(Result{Ask: asks[1], OK: true, Timing: Timing{Connect: time.Second, FirstByte: 2 * time.Second, Total: 4 * time.Second}}, now)
		next[i] = a.Asks(now)
	}
	if !slices.Equal(next[0], next[1]) {
		t.Errorf("it asks %v, and %v if it had planned something", next[0], next[1])
	}
}

// A node that fails twice in succession to reach a server, which another one reaches, cannot reach it. nearest waits for its last answer.
func TestNodesThatFailNowAndThen(t *testing.T) {
	cfg, now := Default().Nearest, time.Unix(2000, 0)
	for results, want := range map[string]bool{"a- b+": false, "a- a- b+": true, "b+ a- a-": true, "a- a+ a- b+": false, "a- a- b+ a+": false, "a? a? b+": false} {
		cfg.Estimates = len(results)/3 + 1
		b := batchOf("198.18.0.1")
		b.Servers[0].Memory.Observe("a", ncoord.Coordinate{}, Timing{Connect: 9e6, FirstByte: 20e6, Total: 50e6}, now)
		a := newNearest(cfg, b, viewOf("a", "b"))
		for _, r := range strings.Fields(results) {
			ask := a.targets[0].ask(r[:1])
			if _, done := a.Decide(now); done {
				t.Errorf("%s: it has decided before %s", results, r)
			}
			a.Observe(Result{Ask: ask, OK: r[1] == '+', Unreached: r[1] == '-', Timing: Timing{Connect: 20e6, FirstByte: 50e6, Total: 90e6, Bytes: 5000}}, now)
		}
		m := &a.servers[0].target.memory
		if _, failed := m.failed("a"); failed != want || a.servers[0].page() != m.PageBytes {
			t.Errorf("%s: a cannot reach it: %v; pages of %v bytes, want %v", results, failed, a.servers[0].page(), m.PageBytes)
		}
		// What it measured before does not count any more.
		if a.Conclude(now); (len(a.servers[0].field.seen) == 1) != want {
			t.Errorf("%s: it was measured by %+v", results, a.servers[0].field.seen)
		}
	}
}

// Whoever learns again from the same downloads learns the same of a network, in which each server counts once.
func TestLearningAgain(t *testing.T) {
	v := nearWorld()
	var somewhere Memory
	somewhere.Observe("b", v.Nodes[1].Coord, Timing{Connect: 80e6, FirstByte: 150e6, Total: 300e6, Bytes: 5000}, time.Unix(1000, 0))
	var servers []*learntServer
	for i, m := range []Memory{beside(v, 0), beside(v, 0), somewhere, {}} {
		servers = append(servers, &learntServer{addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), memory: &m})
	}
	l := newLearner(v, servers, 0)
	n := l.networkOf(servers[0])
	var trust, best [2]float64
	for i, times := range []int{1, 9} {
		for range times {
			l.fit(time.Unix(2000, 0))
		}
		trust[i], best[i] = n.trust, l.ranking(servers[3])[0].ms
	}
	if len(n.of) != 3 || math.Abs(trust[1]/trust[0]-1) > 0.001 || math.Abs(best[1]/best[0]-1) > 0.01 {
		t.Errorf("of %d servers, it trusts %v, and expects %v ms", len(n.of), trust, best)
	}
}

// An address that answers at several places goes to a node that has downloaded from it, if only once, however near others seem.
func TestSpreadServerGoesToWhoHasSeenIt(t *testing.T) {
	b, now := batchOf("198.18.0.1"), time.Unix(2000, 0)
	b.Servers[0].Hosts, b.Servers[0].Memory.Spread = []Host{{Pending: 100}}, true
	b.Servers[0].Memory.Observe("a", ncoord.Coordinate{}, Timing{Connect: 300e6, FirstByte: 600e6, Total: 2e9, Bytes: 5000}, now)
	if c := newNearest(Default().Nearest, b, viewOf("a", "b", "c")).Conclude(now); c[0].Node != "a" {
		t.Errorf("it goes to %+v", c)
	}
}
