package assign_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// build makes an assigner.
func build(t testing.TB, name string, cfg assign.Config, b assign.Batch, v assign.View, now time.Time) assign.Assigner {
	t.Helper()
	a, err := assign.New(name, cfg, b, v, now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decide lets nearest decide a batch of a world.
func decide(t testing.TB, cfg assign.Config, b assign.Batch, w *world, now time.Time) (assign.Assigner, []assign.Choice, time.Time) {
	t.Helper()
	a := build(t, assign.Nearest, cfg, b, w.View(), now)
	choices, now := w.Decide(a, now, time.Second)
	return a, choices, now
}

// median returns the upper median.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

func budget(estimates int) assign.Config {
	cfg := assign.Default()
	cfg.Nearest.Estimates = estimates
	return cfg
}

// The only node gets all servers, and nobody is asked.
func TestNearestWithoutAChoice(t *testing.T) {
	w := newWorld(madeUp(120, 3), worldConfig{Nodes: 1, Servers: 3})
	if _, choices, _ := decide(t, budget(30), w.Batch(), w, time.Unix(0, 0)); choices[0].Node != w.Nodes[0].ID || w.Judge(choices).Estimates > 0 {
		t.Errorf("it decides %+v", choices)
	}
}

// An address that answers everywhere (anycast) has no place: it must be recognised, and judged by what was seen.
func TestNearestRecognisesSpreadServers(t *testing.T) {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: 10, Servers: 4, Seed: 2})
	for n := range w.Nodes {
		w.RTT[n][0] = 4 + float64(n)
	}
	w.Servers[0].Location = nil
	b := w.Batch()
	for s := range b.Servers {
		for _, n := range []int{0, 4, 5, 8} { // in four parts of the world
			b.Servers[s].Memory.Observe(w.Nodes[n].ID, w.Nodes[n].Coord, w.Download(n, s), time.Unix(0, 0))
		}
	}
	a, p, _ := decide(t, budget(10), b, w, time.Unix(0, 0))
	for i, c := range p {
		if got := strings.Contains(c.Reason, "several places"); got != (i == 0) {
			t.Errorf("server %d: %q", i, c.Reason)
		}
	}
	if !a.Memory(w.Servers[0].Addr).Spread {
		t.Error("the memory does not know it")
	}
	if s := w.Judge(p[:1]); s.Ratio > 1.25 {
		t.Errorf("choice ratio %.2f at the spread server", s.Ratio)
	}
}

// One node that lies about its coordinate, and one that lies about its factors by making itself look bad, change
// nobody else's choices for the worse.
func TestLiarsDoLittleHarm(t *testing.T) {
	m := madeUp(120, 5)
	ratios := map[bool][]float64{} // with liars, and without
	for seed := range uint64(8) {
		for _, lie := range []bool{false, true} {
			w := newWorld(m, worldConfig{Nodes: 12, Servers: 40, Seed: seed})
			if lie {
				w.Nodes[3].Coord = ncoord.Coordinate{Vec: [4]float64{60_000, -60_000, 60_000, 60_000}, Height: 60_000, Error: 1e-6}
				w.Nodes[4].Coord = w.Nodes[5].Coord
			}
			_, p, _ := decide(t, budget(8), w.Batch(), w, time.Unix(0, 0))
			ratios[lie] = append(ratios[lie], w.Judge(p).Ratio)
		}
	}
	honest, lied := median(ratios[false]), median(ratios[true])
	t.Logf("choice ratio %.3f, with liars %.3f", honest, lied)
	if lied > honest+0.05 {
		t.Errorf("choice ratio %.3f, with liars %.3f", honest, lied)
	}
}

// equals is a world of equal nodes at one place.
func equals(nodes int, seed uint64) *world {
	w := newWorld(madeUp(60, 2), worldConfig{Nodes: nodes, Servers: 40, Seed: seed})
	for n := range w.Nodes {
		w.Nodes[n].LoadMs, w.Nodes[n].BytesPerMs = 20, 1000
		for s := range w.Servers {
			w.RTT[n][s] = 50
		}
		w.Nodes[n].Location, w.Nodes[n].Coord = w.Nodes[0].Location, w.Nodes[0].Coord
	}
	return w
}

// shares is how many servers of a world each node gets.
func shares(t *testing.T, w *world, balance float64) map[string]int {
	t.Helper()
	cfg := budget(8)
	cfg.Nearest.Balance = balance
	_, choices, _ := decide(t, cfg, w.Batch(), w, time.Unix(0, 0))
	by := map[string]int{}
	for _, c := range choices {
		by[c.Node]++
	}
	return by
}

// Equal nodes share a batch. Of two the one with a queue gets less. One that is clearly nearer keeps its servers in spite of a queue.
func TestBalanceAmongEquals(t *testing.T) {
	const balance = 0.1
	var greedy, fair, least, queued, near []float64
	add := func(to *[]float64, servers int) { *to = append(*to, float64(servers)) }
	for seed := range uint64(9) {
		add(&greedy, slices.Max(slices.Collect(maps.Values(shares(t, equals(4, seed), 0)))))
		add(&fair, slices.Max(slices.Collect(maps.Values(shares(t, equals(4, seed), balance)))))
		w := equals(2, seed)
		by := shares(t, w, balance)
		add(&least, min(by["node0000"], by["node0001"]))
		w.Nodes[0].Factors.QueueMs = 400
		add(&queued, shares(t, w, balance)["node0000"])
		for s := range w.Servers {
			w.RTT[1][s] = 250
		}
		add(&near, shares(t, w, balance)["node0000"])
	}
	t.Logf("of 40 servers the busiest of 4 equal nodes got %v without balance and %v with it, at the median; the idler of 2 %v with it",
		median(greedy), median(fair), least)
	if median(fair) > 15 || median(fair) > median(greedy)-2 {
		t.Errorf("of 40 servers the busiest of 4 equal nodes got %v without balance and %v with it", greedy, fair)
	}
	if median(least) < 12 || slices.Min(least) < 8 {
		t.Errorf("of 40 servers the idler of 2 equal nodes got %v", least)
	}
	if median(queued) > 12 {
		t.Errorf("with a queue of 400 ms one of two equal nodes got %v of 40 servers", queued)
	}
	if slices.Min(near) < 35 {
		t.Errorf("with a queue of 400 ms the node next to all 40 servers got %v", near)
	}
}

// A node that has failed twice at a server that others reach is not asked any more and does not get it, even if it is expected to be the
// nearest. If the server answers nobody, its nodes are not to blame.
func TestNodesThatCannotReachServer(t *testing.T) {
	for _, anybody := range []bool{true, false} {
		w := newWorld(madeUp(60, 2), worldConfig{Nodes: 8, Servers: 20, Seed: 3})
		_, expected, _ := decide(t, budget(8), w.Batch(), w, time.Unix(0, 0))
		a := build(t, assign.Nearest, budget(17), w.Batch(), w.View(), time.Unix(0, 0))
		failed := map[assign.Ask]int{}
		for now := time.Unix(0, 0); ; now = now.Add(time.Second) {
			if _, done := a.Decide(now); done {
				break
			}
			for _, ask := range a.Asks(now) {
				r := w.Answer(ask)
				if r.OK = anybody && ask.Node != expected[w.ServerIndex(ask.Server)].Node; !r.OK {
					r.Unreached = true
					if failed[ask]++; failed[ask] > 2 {
						t.Fatalf("asked %d times, failed each time: %v", failed[ask], ask)
					}
				}
				a.Observe(r, now)
			}
		}
		shunned := 0
		for i, c := range a.Conclude(time.Unix(100, 0)) {
			best := expected[i].Node
			twice := failed[assign.Ask{Server: c.Server, Node: best}] == 2
			if anybody && twice && c.Node == best || c.Node == "" || strings.Contains(c.Reason, "all nodes failed twice") == anybody {
				t.Errorf("anybody reaches it: %v; server %d goes to %q: %s", anybody, i, c.Node, c.Reason)
			}
			if twice && c.Node != best {
				shunned++
			}
			// Nor does it get the server later.
			if m := a.Memory(c.Server); anybody && twice {
				if better, _, ok := assign.Better(assign.Default(), m, w.View(), c.Node); ok && better == best {
					t.Errorf("server %d moves to %q, which could not reach it", i, best)
				}
			}
		}
		if anybody && shunned == 0 {
			t.Error("no node failed twice: the test shows nothing")
		}
	}
}

// The estimates of the best node fail, before or after the server answers another one. It gets the server unless it could not reach it.
func TestWhatFailuresSayOfANode(t *testing.T) {
	far, near := &ncoord.Location{Lat: 52, Lon: 5}, &ncoord.Location{Lat: -33, Lon: 151}
	others := assign.View{Nodes: []assign.Node{{ID: "far0", Location: far}, {ID: "far1", Location: far}}}
	all := assign.View{Nodes: append([]assign.Node{{ID: "near", Location: near}}, others.Nodes...)}
	server := assign.Server{Addr: netip.MustParseAddr("192.0.2.1"), Location: near}
	now := time.Unix(0, 0)
	for _, c := range []struct{ before, unreached bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		a := build(t, assign.Nearest, budget(3), assign.Batch{Servers: []assign.Server{server}}, others, now)
		answer := func() {
			a.SetView(others, now)
			a.Observe(assign.Result{Ask: a.Asks(now)[0], OK: true,
				Timing: assign.Timing{Connect: 300e6, FirstByte: 360e6, Total: 700e6, Bytes: 10_000}}, now)
			a.SetView(all, now)
		}
		if !c.before {
			answer()
		}
		a.SetView(all, now)
		for range 2 {
			r := assign.Result{Ask: a.Asks(now)[0], Unreached: c.unreached}
			if r.Node != "near" {
				t.Fatalf("%+v: it asks %s", c, r.Node)
			}
			a.Observe(r, now)
		}
		if c.before {
			answer()
		}
		choices, done := a.Decide(now)
		if got := choices[0].Node == "near"; !done || got == c.unreached {
			t.Errorf("%+v: decided %v: %+v", c, done, choices)
		}
		better, _, ok := assign.Better(assign.Default(), a.Memory(server.Addr), all, "far0")
		if got := ok && better == "near"; got == c.unreached {
			t.Errorf("%+v: %q is better, %v", c, better, ok)
		}
	}
}

// A home measured its servers under the load of them all. It is asked anew, and gets a server that is near to it, unless it could not reach it.
func TestHomeIsMeasuredAnew(t *testing.T) {
	far, near := &ncoord.Location{Lat: 52, Lon: 5}, &ncoord.Location{Lat: -33, Lon: 151}
	v := assign.View{Nodes: []assign.Node{
		{ID: "far", Location: far},
		{ID: "home", Location: near, Factors: assign.Factors{LoadMs: 500, LoadError: 0.1, BytesPerMs: 20, BytesError: 0.1, Samples: 500}},
	}}
	times := map[string]assign.Timing{
		"far":  {Connect: 300e6, FirstByte: 360e6, Total: 960e6, Bytes: 10_000},
		"home": {Connect: 20e6, FirstByte: 80e6, Total: 120e6, Bytes: 10_000},
	}
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		home   string
		failed bool
		want   string
	}{{home: "home", want: "home"}, {home: "home", failed: true, want: "far"}, {home: "", want: "far"}} {
		s := assign.Server{Addr: netip.MustParseAddr("192.0.2.1"), Location: near}
		for i := range 8 {
			s.Memory.Observe("home", ncoord.Coordinate{}, assign.Timing{Connect: 400e6, FirstByte: 700e6, Total: 2000e6, Bytes: 10_000}, now.Add(time.Duration(i-8)*time.Second))
		}
		if c.failed {
			s.Memory.Fail("home", now)
		}
		a := build(t, assign.Nearest, budget(3), assign.Batch{Servers: []assign.Server{s}, Home: c.home}, v, now)
		choices, done := a.Decide(now)
		for ; !done; choices, done = a.Decide(now) {
			for _, ask := range a.Asks(now) {
				a.Observe(assign.Result{Ask: ask, OK: !c.failed || ask.Node != "home", Timing: times[ask.Node]}, now)
			}
		}
		if choices[0].Node != c.want {
			t.Errorf("%+v: %+v", c, choices[0])
		}
	}
}

// A node that twice had no time for an estimate is not asked again. It may reach the server, and gets it.
func TestBusyNodeIsNotAskedAgain(t *testing.T) {
	far, near := &ncoord.Location{Lat: 52, Lon: 5}, &ncoord.Location{Lat: -33, Lon: 151}
	all := assign.View{Nodes: []assign.Node{{ID: "far", Location: far}, {ID: "near", Location: near}}}
	server, now := assign.Server{Addr: netip.MustParseAddr("192.0.2.1"), Location: near}, time.Unix(0, 0)
	a := build(t, assign.Nearest, budget(4), assign.Batch{Servers: []assign.Server{server}}, all, now)
	for i, want := range []string{"near", "near", "far"} {
		r := assign.Result{Ask: a.Asks(now)[0], Busy: want == "near", OK: want == "far"}
		if r.Node != want {
			t.Fatalf("ask %d is of %s", i, r.Node)
		}
		if r.OK {
			r.Timing = assign.Timing{Connect: 300e6, FirstByte: 360e6, Total: 700e6, Bytes: 10_000}
		}
		a.Observe(r, now)
	}
	for _, ask := range a.Asks(now) {
		if ask.Node == "near" {
			t.Error("it is asked a third time")
		}
	}
	if c := a.Conclude(now); c[0].Node != "near" {
		t.Errorf("%+v", c)
	}
}

// What a node sees at a server again and again counts, though no round trip, load or bandwidth explains it.
func TestDirectObservationsOverrideTheModel(t *testing.T) {
	var m assign.Memory
	factors := assign.Factors{LoadMs: 10, LoadError: 0.05, BytesPerMs: 2000, BytesError: 0.05, Samples: 500}
	v := assign.View{Nodes: []assign.Node{{ID: "a", Factors: factors}, {ID: "b", Factors: factors}}}
	for i := range 8 {
		d := assign.Timing{Connect: 50e6, FirstByte: 120e6, Total: 190e6, Bytes: 10_000}
		m.Observe("a", ncoord.Coordinate{}, d, time.Unix(int64(i), 0))
		d.Total = 300e6
		m.Observe("b", ncoord.Coordinate{}, d, time.Unix(int64(i), 0))
	}
	if p := assign.Predictions(&m, v); p[0].Node != "a" || p[1].Ms < 1.1*p[0].Ms {
		t.Errorf("b takes 300 ms where a takes 190, all else being equal; predicted %+v", p)
	}
}

// BenchmarkPredictions is what a grantor does for one server.
func BenchmarkPredictions(b *testing.B) {
	w := newWorld(madeUp(400, 1), worldConfig{Nodes: 1000, Servers: 1, Seed: 1})
	a, _, _ := decide(b, budget(16), w.Batch(), w, time.Unix(0, 0))
	m, v := a.Memory(w.Servers[0].Addr), w.View()
	for b.Loop() {
		assign.Predictions(m, v)
	}
}

// The one page of an estimate tells nothing of a typical page where the hosts' pages are known.
func TestEstimatesLeaveTheTypicalPage(t *testing.T) {
	w := newWorld(madeUp(20, 1), worldConfig{Nodes: 4, Servers: 1, Seed: 1})
	for known, want := range map[float64]float64{10_000: 10_000, 0: 3_000_000} {
		b := w.Batch()
		b.Servers[0].Hosts = []assign.Host{{Name: "h", Pending: 1, PageBytes: known}}
		a := build(t, assign.Nearest, assign.Default(), b, w.View(), time.Unix(0, 0))
		ask := a.Asks(time.Unix(0, 0))[0]
		a.Observe(assign.Result{Ask: ask, OK: true, Timing: assign.Timing{Connect: 20e6, FirstByte: 50e6, Total: 900e6, Bytes: 3_000_000}}, time.Unix(1, 0))
		if got := a.Memory(ask.Server).PageBytes; got/want > 1.01 || want/got > 1.01 {
			t.Errorf("of hosts with pages of %v bytes a typical page has %v", known, got)
		}
	}
}

// BenchmarkDecide is the decision about a batch of 100 servers among 1,000 nodes with all answers in hand: from nothing to the
// choices.
func BenchmarkDecide(b *testing.B) {
	w := newWorld(madeUp(400, 1), worldConfig{Nodes: 1000, Servers: 100, Seed: 1})
	batch := w.Batch()
	a, _, now := decide(b, budget(8), batch, w, time.Unix(0, 0))
	for i := range batch.Servers {
		batch.Servers[i].Memory = *a.Memory(batch.Servers[i].Addr)
	}
	view := w.View()
	for b.Loop() {
		a := build(b, assign.Nearest, budget(0), batch, view, now)
		a.Asks(now)
		if _, done := a.Decide(now); !done {
			b.Fatal("not decided")
		}
	}
}
