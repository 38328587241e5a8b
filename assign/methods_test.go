package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
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
			a.Observe(Result{Ask: ask, OK: ok, Timing: Timing{Connect: d, FirstByte: d, Total: 3 * d, Fresh: true}}, time.Time{})
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

func TestProbe(t *testing.T) {
	times := bench{"198.18.0.1": {"a": 80, "b": 20, "c": 60}}
	b, v := batchOf("198.18.0.1"), viewOf("a", "b", "c", "silent")
	choices, asked := times.decide(t, newProbe(ProbeConfig{By: ProbeConnect}, b, v))
	if c := choices["198.18.0.1"]; c.Node != "b" || c.Estimates != 4 || c.PredictedMs != 20 {
		t.Errorf("it chose %+v", c)
	}
	if got := slices.Sorted(slices.Values(asked["198.18.0.1"])); !slices.Equal(got, ids(v.sorted())) {
		t.Errorf("it asked %v", got)
	}
	// One after another, until one is fast enough; none: the fastest.
	choices, asked = times.decide(t, newProbe(ProbeConfig{ThresholdMs: 60, By: ProbeConnect}, b, v))
	order := RendezvousOrder("198.18.0.1", ids(v.Nodes), 4)
	first := slices.IndexFunc(order, func(id string) bool { return id == "b" || id == "c" })
	if c := choices["198.18.0.1"]; c.Node != order[first] || !slices.Equal(asked["198.18.0.1"], order[:first+1]) {
		t.Errorf("with a threshold it chose %+v, asked %v of %v", c, asked, order)
	}
	choices, _ = times.decide(t, newProbe(ProbeConfig{ThresholdMs: 10, By: ProbeConnect}, b, v))
	if c := choices["198.18.0.1"]; c.Node != "b" || c.Estimates != 4 {
		t.Errorf("with a threshold that none passes it chose %+v", c)
	}
	choices, _ = times.decide(t, newProbe(ProbeConfig{By: ProbeTotal}, b, v))
	if c := choices["198.18.0.1"]; c.Node != "b" || c.PredictedMs != 60 {
		t.Errorf("by whole times it chose %+v", c)
	}
	if c, _ := (bench{}).decide(t, newProbe(ProbeConfig{By: ProbeConnect}, b, v)); !strings.Contains(c["198.18.0.1"].Reason, "no probe was answered") {
		t.Errorf("without answers it chose %+v", c)
	}
}

// What was not asked for says nothing: of another server, by another node, or twice.
func TestProbeTakesWhatItAskedFor(t *testing.T) {
	a := newProbe(ProbeConfig{By: ProbeConnect}, batchOf("198.18.0.1"), viewOf("a", "b"))
	ask := a.Asks(time.Time{})[0]
	other := map[string]string{"a": "b", "b": "a"}[ask.Node]
	for _, r := range []struct {
		ask Ask
		ms  int
	}{
		{Ask{Server: netip.MustParseAddr("198.18.0.2"), Node: ask.Node}, 1}, {Ask{Server: ask.Server, Node: other}, 2}, {ask, 30}, {ask, 3},
	} {
		d := time.Duration(r.ms) * time.Millisecond
		a.Observe(Result{Ask: r.ask, OK: true, Timing: Timing{Connect: d, FirstByte: d, Total: d, Fresh: true}}, time.Time{})
	}
	if got := a.servers[0].times; len(got) != 1 || got[ask.Node] != 30 {
		t.Errorf("after one answer it knows %v", got)
	}
}

// The memory that comes with a server is its own, and an empty one is none.
func TestRemembered(t *testing.T) {
	b := batchOf("198.18.0.1", "198.18.0.2")
	b.Servers[0].Memory.Observe("a", ncoord.Coordinate{}, Timing{Connect: time.Millisecond, FirstByte: time.Millisecond, Total: time.Millisecond}, time.Unix(1, 0))
	a := newProber(rule(random), false, b, View{})
	if m := a.Memory(b.Servers[0].Addr); m == nil || m.Downloads() != 1 || a.Memory(b.Servers[1].Addr) != nil || a.Memory(netip.Addr{}) != nil {
		t.Errorf("it remembers %+v", m)
	}
}

// Zones are neighbours that have a face in common, not an edge or a corner, wherever they lie apart.
// The most loaded zone is split: of all (gh), or of the newcomer's and its neighbours (nh). A zone that is too small to be split keeps its owner.
func TestProbeRemembers(t *testing.T) {
	times := bench{"198.18.0.1": {"a": 80, "b": 20}}
	b, v := batchOf("198.18.0.1"), viewOf("a", "b")
	first := newProbe(ProbeConfig{By: ProbeConnect}, b, v)
	times.decide(t, first)
	b.Servers[0].Memory = first.Memory(b.Servers[0].Addr).Clone()
	choices, asked := times.decide(t, newProbe(ProbeConfig{By: ProbeConnect}, b, v))
	if c := choices["198.18.0.1"]; c.Node != "b" || len(asked) > 0 {
		t.Errorf("an address that is known was probed by %v and given to %+v", asked, c)
	}
	choices, _ = times.decide(t, newProbe(ProbeConfig{By: ProbeTotal}, b, v))
	if c := choices["198.18.0.1"]; c.Node != "b" || math.Round(c.PredictedMs) != 60 {
		t.Errorf("by whole times it was given to %+v", c)
	}
}

func TestHash(t *testing.T) {
	var b Batch
	for i := range 20_000 {
		b.Servers = append(b.Servers, Server{Addr: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
			Hosts: []Host{{Name: fmt.Sprintf("http://z%d.example", i)}, {Name: fmt.Sprintf("http://host%d.example", i)}}})
	}
	v := viewOf("a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	h := newHash(Default().Hash, b, v)
	before, _ := h.Decide(time.Time{})
	count := map[string]int{}
	for _, c := range before {
		count[c.Node]++
	}
	// With k = 200 the deviation of shares is 4.5 % in the paper (section 6.2); ours of ten nodes is some 7 %.
	for id, n := range count {
		if n < 1700 || n > 2300 {
			t.Errorf("%s has %d of 20,000 servers", id, n)
		}
	}
	h.SetView(View{Nodes: append(v.Nodes, Node{ID: "k"})}, time.Time{})
	after, _ := h.Decide(time.Time{})
	moved := 0
	for i := range after {
		if after[i].Node != before[i].Node {
			moved++
			if after[i].Node != "k" {
				t.Fatalf("a join moved a server from %s to %s", before[i].Node, after[i].Node)
			}
		}
	}
	if moved < 1500 || moved > 2150 {
		t.Errorf("a join moved %d of 20,000 servers, want about 1,818", moved)
	}
	if !strings.Contains(before[0].Reason, "host0.example") {
		t.Errorf("not the first host in the alphabet: %q", before[0].Reason)
	}
	// The circle is closed: a point before the first replica may be closest to the last.
	ring := circle{{100, "low"}, {1 << 63, "middle"}, {1<<64 - 50, "high"}}
	for point, want := range map[uint64]string{0: "high", 90: "low", 1<<64 - 1: "high", 1 << 62: "low", 1<<62 + 50: "low", 1<<63 - 1: "middle"} {
		if got := ring.closest(point); got != want {
			t.Errorf("%d belongs to %s, want %s", point, got, want)
		}
	}
}

// The example of section 6.6 of the thesis of 2003: six probes, and none faster than 49 ms.
func TestHiMicraExample(t *testing.T) {
	times := bench{"198.18.0.1": {"1": 85, "2": 80, "3": 55, "4": 49, "5": 90, "6": 86}}
	h := &himicra{cfg: HiMicraConfig{ThresholdMs: 50, Branches: 2}}
	a := newProber(h, false, batchOf("198.18.0.1"), viewOf("1", "2", "3", "4", "5", "6"))
	h.children = map[string][]string{"": {"1", "2"}, "1": {"3", "4"}, "2": {"5", "6"}}
	choices, asked := times.decide(t, a)
	if c := choices["198.18.0.1"]; c.Node != "4" || !slices.Equal(asked["198.18.0.1"], []string{"1", "2", "5", "6", "3", "4"}) {
		t.Errorf("it chose %+v, asked %v", c, asked)
	}
}

func TestHiMicraTree(t *testing.T) {
	// Two clusters far apart, five nodes each: the top has one of each, the others join the one beside them.
	var v View
	for i := range 10 {
		n := Node{ID: fmt.Sprint(i), Coord: ncoord.Coordinate{Error: 0.1}}
		n.Coord.Vec[0] = float64(i%2)*500 + float64(i)
		v.Nodes = append(v.Nodes, n)
	}
	h := newHiMicra(HiMicraConfig{ThresholdMs: 50, Branches: 2}, Batch{}, v).method.(*himicra)
	top := h.children[""]
	if len(top) != 2 || (top[0][0]-'0')%2 == (top[1][0]-'0')%2 {
		t.Fatalf("the top is %v", top)
	}
	found := 0
	var walk func(id string, odd byte)
	walk = func(id string, odd byte) {
		found++
		if (id[0]-'0')%2 != odd {
			t.Errorf("%s is below a node of the other cluster: %v", id, h.children)
		}
		for _, c := range h.children[id] {
			walk(c, odd)
		}
	}
	for _, id := range top {
		walk(id, (id[0]-'0')%2)
	}
	if found != 10 {
		t.Errorf("the tree has %d of 10 nodes: %v", found, h.children)
	}
}

// Where a node sees the others from counts only if its place is known, and theirs.
func TestHiMicraLeavesOutUnknownPlaces(t *testing.T) {
	v := viewOf("middle", "left", "right", "lost", "unknown")
	for i, x := range []float64{0, -100, 100} {
		v.Nodes[i].Coord = ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{x}, Error: 0.1}
	}
	if top := newHiMicra(HiMicraConfig{Branches: 2}, Batch{}, v).method.(*himicra).children[""]; !slices.Equal(top, []string{"left", "right"}) {
		t.Errorf("the top is %v", top)
	}
}

func TestIPMicra(t *testing.T) {
	times := bench{
		"10.1.1.1": {"a": 90, "b": 20, "c": 30},
		"10.2.1.1": {"a": 15, "b": 100, "c": 90},
	}
	v := viewOf("a", "b", "c")
	m := newIPMicra(IPMicraConfig{ThresholdMs: 25}, batchOf("10.1.1.1", "10.1.1.2", "10.1.9.1", "172.16.0.1"), v)
	choices, asked := times.decide(t, m)
	for addr, want := range map[string]string{"10.1.1.1": "b", "10.1.1.2": "b", "10.1.9.1": "b"} {
		if choices[addr].Node != want {
			t.Errorf("%s went to %+v, want %s", addr, choices[addr], want)
		}
	}
	if len(asked["10.1.1.2"])+len(asked["10.1.9.1"]) > 0 {
		t.Errorf("a subnet and an organisation that are known cost probes: %v", asked)
	}
	if got := asked["172.16.0.1"]; len(got) != 3 {
		t.Errorf("an address that nobody answers for asked %v", got)
	}
	next := batchOf("10.1.1.3", "10.1.77.1", "10.2.1.1")
	next.Before = m
	// Subnets of a node that is gone are free again, and remain those of the first.
	if c, asked := times.decide(t, newIPMicra(IPMicraConfig{ThresholdMs: 25}, next, viewOf("a", "c"))); c["10.1.1.3"].Node == "b" || len(asked["10.1.1.3"]) == 0 {
		t.Errorf("without b it chose %+v, asked %v", c, asked)
	}
	// The next round goes on with the subnets; one that checks probes.
	choices, asked = times.decide(t, newIPMicra(IPMicraConfig{ThresholdMs: 25}, next, v))
	if len(asked["10.1.1.3"])+len(asked["10.1.77.1"]) > 0 {
		t.Errorf("the next round asked %v", asked)
	}
	// 10.2 is near 10.1 in number: the node of that is tried first, and fails.
	if got := asked["10.2.1.1"]; len(got) < 2 || got[0] != "b" || choices["10.2.1.1"].Node != "a" {
		t.Errorf("10.2.1.1 asked %v, want b first, and chose %+v", got, choices["10.2.1.1"])
	}
	times["10.1.77.1"] = map[string]float64{"b": 70, "a": 24}
	choices, asked = times.decide(t, newIPMicra(IPMicraConfig{ThresholdMs: 25, Check: true}, next, v))
	if got := asked["10.1.77.1"]; got[0] != "b" || choices["10.1.77.1"].Node != "a" {
		t.Errorf("with check it asked %v and chose %+v", asked, choices)
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
		if got := within(netip.MustParseAddr(c.addr), c.bits); got.String() != c.want {
			t.Errorf("%s within %d is %v, want %s", c.addr, c.bits, got, c.want)
		}
	}
}

// Of several nodes in an organisation the first within the threshold has the subnet, else the fastest of them, however fast others are, if
// any gets an answer.
// The other servers of the subnet follow without a probe.
func TestIPMicraOrganisation(t *testing.T) {
	times := bench{"10.1.3.1": {"a": 40, "b": 60, "c": 1}, "10.2.3.1": {"c": 70}}
	m := newIPMicra(IPMicraConfig{ThresholdMs: 25}, batchOf("10.1.3.1", "10.1.3.2", "10.2.3.1"), viewOf("a", "b", "c"))
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

// canWorld is nodes and servers in clusters of a flat world, where probes are distances.
// Nodes at one place cannot all be in their own zones. The zones still do not overlap.
// One landmark does not tell where a server is, two do. One that has not answered, or has no place, is none.
// Zones are made when the landmarks have probed all servers. A dimension counts if any node uses it.
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
	if c := a.coordOf("a"); c.Error != 1 {
		t.Errorf("a node without a coordinate is at %v", c)
	}
}
