package assign

import (
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
)

// bench is a batch whose probes take what a table says, in ms: by address, then by node. What is not there is unanswered.
type bench map[string]map[string]float64

// decide carries out an assigner's asks and gives its choices by address, and the nodes it asked, in order.
func (times bench) decide(t *testing.T, a Assigner) (map[string]Choice, map[string][]string) {
	t.Helper()
	asked := map[string][]string{}
	for range 1000 {
		choices, done := a.Decide(time.Time{})
		if done {
			by := map[string]Choice{}
			for _, c := range choices {
				by[c.Server.String()] = c
			}
			return by, asked
		}
		for _, ask := range a.Asks(time.Time{}) {
			server := ask.Server.String()
			asked[server] = append(asked[server], ask.Node)
			took, ok := times[server][ask.Node]
			d := time.Duration(took * 1e6)
			a.Observe(Result{Ask: ask, OK: ok, Timing: Timing{Connect: d, FirstByte: d, Total: 3 * d}}, time.Time{})
		}
	}
	t.Fatal("it does not decide")
	return nil, nil
}

func batchOf(addrs ...string) (b Batch) {
	for _, a := range addrs {
		b.Servers = append(b.Servers, Server{Addr: netip.MustParseAddr(a)})
	}
	return b
}

func viewOf(ids ...string) (v View) {
	for _, id := range ids {
		v.Nodes = append(v.Nodes, Node{ID: id})
	}
	return v
}

// one is decide for a batch of one server.
func (times bench) one(t *testing.T, a Assigner) (choice Choice, asked []string) {
	t.Helper()
	choices, all := times.decide(t, a)
	for server, c := range choices {
		choice, asked = c, all[server]
	}
	return choice, asked
}

// All nodes probe, or, with a threshold, one after another until one is fast enough. If none is, the fastest gets the server.
func TestProbe(t *testing.T) {
	times := bench{"198.18.0.1": {"a": 80, "b": 20, "c": 60}}
	b, v := batchOf("198.18.0.1"), viewOf("a", "b", "c", "silent")
	order := RendezvousOrder("198.18.0.1", ids(v.Nodes), 4)
	enough := slices.IndexFunc(order, func(id string) bool { return id == "b" || id == "c" })
	first := order[enough]
	for _, c := range []struct {
		cfg    ProbeConfig
		node   string
		ms     float64
		probes int
	}{
		{ProbeConfig{By: ProbeConnect}, "b", 20, 4},
		{ProbeConfig{By: ProbeConnect, ThresholdMs: 60}, first, times["198.18.0.1"][first], enough + 1},
		{ProbeConfig{By: ProbeConnect, ThresholdMs: 10}, "b", 20, 4},
		{ProbeConfig{By: ProbeTotal}, "b", 60, 4},
	} {
		got, asked := times.one(t, newProber(&probe{cfg: c.cfg}, b, v))
		if got.Node != c.node || got.PredictedMs != c.ms || got.Estimates != c.probes || !slices.Equal(asked, order[:c.probes]) {
			t.Errorf("%+v: it chose %+v, asked %v of %v; want %+v", c.cfg, got, asked, order, c)
		}
	}
	if c, _ := (bench{}).one(t, newProber(&probe{cfg: ProbeConfig{By: ProbeConnect}}, b, v)); !strings.Contains(c.Reason, "no probe was answered") {
		t.Errorf("without answers it chose %+v", c)
	}
}

// The memory that comes with a server is its own, and an empty one is none. A node that the server is known by does not probe it again.
func TestProbeRemembers(t *testing.T) {
	times := bench{"198.18.0.1": {"a": 80, "b": 20}}
	b, v := batchOf("198.18.0.1"), viewOf("a", "b")
	first := newProber(&probe{cfg: ProbeConfig{By: ProbeConnect}}, b, v)
	if m := first.Memory(b.Servers[0].Addr); m != nil || first.Memory(netip.Addr{}) != nil {
		t.Errorf("at first it remembers %+v", m)
	}
	times.one(t, first)
	b.Servers[0].Memory = first.Memory(b.Servers[0].Addr).Clone()
	b.Servers[0].Memory.Observe("b", ncoord.Coordinate{}, Timing{FirstByte: 50e6, Total: 90e6}, time.Time{}) // on an old connection
	for by, ms := range map[string]float64{ProbeConnect: 20, ProbeTotal: 60} {
		a := newProber(&probe{cfg: ProbeConfig{By: by}}, b, v)
		if c, asked := times.one(t, a); c.Node != "b" || len(asked) > 0 || math.Round(c.PredictedMs) != ms || a.Memory(c.Server).Downloads() != 3 {
			t.Errorf("by %s an address that is known was probed by %v and given to %+v", by, asked, c)
		}
	}
}

// A probe takes the connect time, or the whole if that is compared or the connection is old. What cannot be is no answer.
func TestTimesOfProbes(t *testing.T) {
	for name, c := range map[string]struct {
		whole bool
		r     Result
		want  float64
	}{
		"connect":             {false, Result{OK: true, Timing: Timing{Connect: 20e6, FirstByte: 30e6, Total: 60e6}}, 20},
		"old connection":      {false, Result{OK: true, Timing: Timing{FirstByte: 30e6, Total: 60e6}}, 60},
		"whole":               {true, Result{OK: true, Timing: Timing{Connect: 20e6, FirstByte: 30e6, Total: 60e6}}, 60},
		"an hour":             {true, Result{OK: true, Timing: Timing{FirstByte: 30e6, Total: time.Hour}}, 3_600_000},
		"longer than an hour": {true, Result{OK: true, Timing: Timing{FirstByte: 30e6, Total: time.Hour + time.Millisecond}}, unanswered},
		"no time":             {true, Result{OK: true}, unanswered},
		"failed":              {false, Result{Timing: Timing{Connect: 20e6, FirstByte: 30e6, Total: 60e6}}, unanswered},
	} {
		cfg := ProbeConfig{By: ProbeConnect}
		if c.whole {
			cfg.By = ProbeTotal
		}
		a := newProber(&probe{cfg: cfg}, batchOf("198.18.0.1"), viewOf("a"))
		c.r.Ask = a.Asks(time.Time{})[0]
		if a.Observe(c.r, time.Time{}); a.servers[0].times["a"] != c.want {
			t.Errorf("%s: %v ms, want %v", name, a.servers[0].times["a"], c.want)
		}
		if _, done := a.Decide(time.Time{}); !done {
			t.Errorf("%s: it does not decide after the last answer", name)
		}
	}
}

// A probe that takes just as long as the threshold is good enough. Of himicra all nodes at the top of the tree probe first.
func TestProbesAtTheThreshold(t *testing.T) {
	times, b, v := bench{"198.18.0.1": {"a": 25, "b": 25, "c": 25}}, batchOf("198.18.0.1"), viewOf("a", "b", "c")
	for threshold, want := range map[float64][3]int{25: {1, 2, 1}, 24.9: {3, 3, 3}} {
		for i, a := range []*prober{newProber(&probe{cfg: ProbeConfig{By: ProbeConnect, ThresholdMs: threshold}}, b, v),
			newProber(&himicra{cfg: HiMicraConfig{Branches: 2, ThresholdMs: threshold}}, b, v), newProber(newIPMicra(IPMicraConfig{ThresholdMs: threshold}, nil), b, v)} {
			if _, asked := times.decide(t, a); len(asked["198.18.0.1"]) != want[i] {
				t.Errorf("%T with a threshold of %v ms asks %v", a.method, threshold, asked)
			}
		}
	}
}

// The example of section 6.6 of the thesis of 2003: six probes, and none faster than 49 ms.
func TestHiMicraExample(t *testing.T) {
	times := bench{"198.18.0.1": {"1": 85, "2": 80, "3": 55, "4": 49, "5": 90, "6": 86}}
	h := &himicra{cfg: HiMicraConfig{ThresholdMs: 50, Branches: 2}}
	a := newProber(h, batchOf("198.18.0.1"), viewOf("1", "2", "3", "4", "5", "6"))
	h.children = map[string][]string{"": {"1", "2"}, "1": {"3", "4"}, "2": {"5", "6"}}
	if c, asked := times.one(t, a); c.Node != "4" || !slices.Equal(asked, []string{"1", "2", "5", "6", "3", "4"}) {
		t.Errorf("it chose %+v, asked %v", c, asked)
	}
}

// The children of a node are far from each other and from it: beside it they would show nothing new. The root is nowhere.
func TestHiMicraTree(t *testing.T) {
	h := &himicra{cfg: HiMicraConfig{Branches: 2}, ids: []string{"a", "b", "c", "d", "z"}, children: map[string][]string{}}
	h.build(-1, []int{0, 1, 2, 3, 4}, [][]float64{{0, 0}, {10, 0}, {50, 30}, {100, 0}, {1000, 0}})
	// Under a, b and d differ by 90, and by 10 and 100 from a: 200. c and d differ by 80, and by 80 and 100 from a: 260.
	if want := map[string][]string{"": {"a", "z"}, "a": {"c", "d"}, "c": {"b"}}; !reflect.DeepEqual(h.children, want) {
		t.Errorf("the tree is %v, want %v", h.children, want)
	}
}

// Where a node sees the others from counts only if its place is known, and theirs.
func TestHiMicraLeavesOutUnknownPlaces(t *testing.T) {
	v := viewOf("middle", "left", "right", "lost", "unknown")
	for i, x := range []float64{0, -100, 100} {
		v.Nodes[i].Coord = ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{x}, Error: 0.1}
	}
	if top := newProber(&himicra{cfg: HiMicraConfig{Branches: 2}}, Batch{}, v).method.(*himicra).children[""]; !slices.Equal(top, []string{"left", "right"}) {
		t.Errorf("the top is %v", top)
	}
}

// The first node within the threshold has the subnet. Who alone has an organisation has its other subnets without a probe. The next round
// goes on with the subnets.
func TestIPMicra(t *testing.T) {
	times := bench{
		"10.1.1.1":  {"a": 90, "b": 20, "c": 30},
		"10.1.77.1": {"b": 70, "a": 24},
		"10.2.1.1":  {"a": 15, "b": 100, "c": 90},
	}
	first := newProber(newIPMicra(IPMicraConfig{ThresholdMs: 25}, nil), batchOf("10.1.1.1", "10.1.1.2", "10.1.9.1", "172.16.0.1"), viewOf("a", "b", "c"))
	for _, round := range []struct {
		what  string
		nodes []string
		check bool
		want  map[string]string // by address: the nodes that probe, and the one that is chosen, if it matters
	}{
		{"first", nil, false, map[string]string{"10.1.1.1": "a b: b", "10.1.1.2": ": b", "10.1.9.1": ": b", "172.16.0.1": "a b c:"}},
		// The subnets of a node that is gone are free again, and remain those of the first.
		{"without b", []string{"a", "c"}, false, map[string]string{"10.1.1.3": "a c:"}},
		// 10.2 is near 10.1 in number: the node of that is tried first, and fails.
		{"next", []string{"a", "b", "c"}, false, map[string]string{"10.1.1.3": ": b", "10.1.77.1": ": b", "10.2.1.1": "b a: a"}},
		{"checking", []string{"a", "b", "c"}, true, map[string]string{"10.1.77.1": "b a: a"}},
	} {
		a := Assigner(first)
		if round.nodes != nil {
			next := batchOf("10.1.1.3", "10.1.77.1", "10.2.1.1")
			next.Before = first
			cfg := Default()
			cfg.IPMicra = IPMicraConfig{ThresholdMs: 25, Check: round.check}
			var err error
			if a, err = New(IPMicra, cfg, next, viewOf(round.nodes...), time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		choices, asked := times.decide(t, a)
		for addr, want := range round.want {
			if got := strings.Join(asked[addr], " ") + ": " + choices[addr].Node; !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is probed by and goes to %q, want %q", round.what, addr, got, want)
			}
		}
	}
}

// A server that nobody reached is drawn a node, which has not got its subnet: the next server of the organisation is probed.
func TestIPMicraDelegatesNothingUnmeasured(t *testing.T) {
	times := bench{"10.1.2.1": {"a": 20, "b": 80}}
	for _, check := range []bool{false, true} {
		m := newProber(newIPMicra(IPMicraConfig{ThresholdMs: 25, Check: check}, nil), batchOf("10.1.1.1", "10.1.2.1"), viewOf("a", "b"))
		choices, asked := times.decide(t, m)
		if choices["10.1.1.1"].Node == "" || !slices.Contains(asked["10.1.2.1"], "a") || choices["10.1.2.1"].Node != "a" {
			t.Errorf("check %v: it chose %+v, asked %v", check, choices, asked)
		}
		if d := m.method.(*ipmicra).delegated; len(d) != 1 || d[0].subnet.String() != "10.1.2.0/24" {
			t.Errorf("check %v: delegated are %v", check, d)
		}
	}
}

// A batch takes over the latest subnets, no more than it has room for.
func TestIPMicraForgetsTheOldestSubnets(t *testing.T) {
	before := newProber(&ipmicra{}, Batch{}, viewOf("a"))
	for i := range mostSubnets + 1 {
		d := delegation{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), "a"}
		before.method.(*ipmicra).delegated = append(before.method.(*ipmicra).delegated, d)
	}
	if d := newIPMicra(IPMicraConfig{}, before).delegated; len(d) != mostSubnets || d[0].subnet.String() != "10.0.1.0/24" {
		t.Errorf("%d subnets are taken over, from %v on", len(d), d[0].subnet)
	}
}

// The prefixes of IPv6 are twice as long. An IPv4 address counts as one however it is written.
func TestSubnetsOfBothFamilies(t *testing.T) {
	for _, c := range []struct {
		addr string
		bits int
		want string
	}{
		{"192.0.2.77", 24, "192.0.2.0/24"},
		{"::ffff:192.0.2.77", 24, "192.0.2.0/24"},
		{"192.0.2.77", 16, "192.0.0.0/16"},
		{"2001:db8:1:2::3", 24, "2001:db8:1::/48"},
		{"2001:db8:1:2::3", 16, "2001:db8::/32"},
		{"2001:db8:1:2::3", 0, "::/0"},
	} {
		if got := Network(netip.MustParseAddr(c.addr)); c.bits == 24 && got.String() != c.want {
			t.Errorf("%s is of %v, want %s", c.addr, got, c.want)
		}
		if got := within(netip.MustParseAddr(c.addr), c.bits); got.String() != c.want {
			t.Errorf("%s within %d is %v, want %s", c.addr, c.bits, got, c.want)
		}
	}
}

// Of several nodes in an organisation the first within the threshold has the subnet, else the fastest of them, however fast others are, if
// any gets an answer. The other servers of the subnet follow without a probe.
func TestIPMicraOrganisation(t *testing.T) {
	times := bench{"10.1.3.1": {"a": 40, "b": 60, "c": 1}, "10.2.3.1": {"c": 70}}
	m := newProber(newIPMicra(IPMicraConfig{ThresholdMs: 25}, nil), batchOf("10.1.3.1", "10.1.3.2", "10.2.3.1"), viewOf("a", "b", "c"))
	for i, subnet := range []string{"10.1.1.0/24", "10.1.2.0/24", "10.2.1.0/24", "10.2.2.0/24"} {
		d := delegation{netip.MustParsePrefix(subnet), []string{"b", "a"}[i%2]}
		m.method.(*ipmicra).delegated = append(m.method.(*ipmicra).delegated, d)
	}
	choices, asked := times.decide(t, m)
	if c := choices["10.1.3.1"]; c.Node != "a" || !slices.Equal(asked["10.1.3.1"], []string{"b", "a"}) {
		t.Errorf("it chose %+v, asked %v", c, asked)
	}
	if c := choices["10.1.3.2"]; c.Node != "a" || len(asked["10.1.3.2"]) > 0 {
		t.Errorf("for the next server of the subnet it chose %+v, asked %v", c, asked)
	}
	if c := choices["10.2.3.1"]; c.Node != "c" {
		t.Errorf("where no node of the organisation gets an answer it chose %+v", c)
	}
	if got := m.method.(*ipmicra).nodesIn(netip.MustParsePrefix("10.0.0.0/8")); !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("the nodes of 10.0.0.0/8 are %v, not in the order in which they got their subnets", got)
	}
}

// A server moves by a percentile of the last downloads of a node, as many as the window holds.
func TestVivaldiWindow(t *testing.T) {
	s := vivaldiServer{windows: map[string][]float64{}}
	cfg := Default().Vivaldi
	cfg.Window = 3
	for ms := range 5 {
		s.update(cfg, "n", ncoord.Coordinate{Error: 1}, float64(ms), rand.New(rand.NewPCG(1, 1)))
	}
	if want := []float64{2, 3, 4}; !slices.Equal(s.windows["n"], want) {
		t.Errorf("the window holds %v, want %v", s.windows["n"], want)
	}
}

// A server goes to the nearest node if the batch has converged, or it alone, and its place is known. The last tick is awaited until the next
// one would come.
func TestVivaldiDecides(t *testing.T) {
	cfg, now := Default().Vivaldi, time.Unix(1000, 0)
	cfg.Unconverged, cfg.MaxTicks = UnconvergedRandom, 1
	b, v := batchOf("198.18.0.1", "198.18.0.2", "198.18.0.3"), viewOf("a", "b")
	for _, c := range []struct {
		updates [3]int
		errors  [3]float64
		done    bool
		sure    [3]bool
	}{
		{[3]int{1, 1, 0}, [3]float64{0.1, cfg.Theta, 0.1}, true, [3]bool{true, true, false}},
		{[3]int{1, 1, 1}, [3]float64{0.1, cfg.Theta, 0.5}, false, [3]bool{true, false, false}},
	} {
		a := newVivaldi(cfg, b, v, now)
		for i, s := range a.servers {
			s.at = Proxy{ncoord.Coordinate{Error: c.errors[i]}, c.updates[i]}
		}
		if _, done := a.Decide(now); done != c.done {
			t.Errorf("with errors of %v it decides: %v", c.errors, done)
		}
		for i, choice := range a.Conclude(now) {
			if strings.HasPrefix(choice.Reason, "least distance;") != c.sure[i] {
				t.Errorf("%+v, server %d: %s", c, i, choice.Reason)
			}
		}
	}
	a := newVivaldi(cfg, b, v, now)
	a.Asks(now)
	for _, wait := range []time.Duration{cfg.Tick - 1, cfg.Tick} {
		if _, done := a.Decide(now.Add(wait)); done != (wait == cfg.Tick) {
			t.Errorf("%v after the last tick, without an answer, it decides: %v", wait, done)
		}
	}
	a = newVivaldi(cfg, b, v, now)
	a.Asks(now)
	a.Asks(now.Add(cfg.Tick)) // of nobody, while it waits for answers
	if c := a.Conclude(now)[0]; !strings.HasSuffix(c.Reason, "after 1 ticks") {
		t.Errorf("a tick that asks nobody counts: %s", c.Reason)
	}
	if c := a.coordOf("a"); c.Error != 1 {
		t.Errorf("a node without a coordinate is at %v", c)
	}
}
