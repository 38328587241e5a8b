package assign

import (
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
			m.Observe(n.ID, n.Coord, Timing{Connect: d(rtt * 1.1), FirstByte: d(rtt + 75), Total: d(3*rtt + 100), Bytes: 20_000, Fresh: true}, time.Unix(1000, 0))
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
		a := newNearest(cfg, batchOf("198.18.0.1"), viewOf("a", "b"))
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
	}
}
