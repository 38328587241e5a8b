package assign

import (
	"math"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"proxima/ncoord"
)

// timings are downloads at the bounds of what can be, and beyond them.
var timings = map[string]struct {
	t    Timing
	fine bool
}{
	"usual":                 {Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: 1000}, true},
	"on an old connection":  {Timing{FirstByte: 50e6, Total: 100e6, Bytes: 1000}, true},
	"without a body":        {Timing{Connect: 20e6, FirstByte: 50e6, Total: 70e6}, true},
	"an hour":               {Timing{Connect: 20e6, FirstByte: 50e6, Total: time.Hour, Bytes: 1000}, true},
	"longer than an hour":   {Timing{Connect: 20e6, FirstByte: 50e6, Total: time.Hour + 1, Bytes: 1000}, false},
	"no first byte":         {Timing{Connect: 20e6, Total: 100e6, Bytes: 1000}, false},
	"connected in the past": {Timing{Connect: -1, FirstByte: 50e6, Total: 100e6, Bytes: 1000}, false},
	"over at once":          {Timing{Connect: 20e6, FirstByte: 50e6, Bytes: 1000}, false},
	"fewer bytes than none": {Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: -1}, false},
}

// Memories and nodes learn from downloads that can be, and from no others.
func TestTimingsThatCanBe(t *testing.T) {
	server, now := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for name, c := range timings {
		var m Memory
		if m.Observe("n", ncoord.Coordinate{}, c.t, now); m.Empty() == c.fine {
			t.Errorf("%s: a memory learns: %v", name, !c.fine)
		}
		o := NewOwn(Factors{})
		o.trips.take(server, 20, 5, now) // the round trip is known
		if o.Observe("n", server, c.t, nil, View{}, now); (o.samples == 1) != c.fine || (len(o.load.last) == 1) != c.fine {
			t.Errorf("%s: a node learns of its load: %v", name, !c.fine)
		}
		if body := len(o.slow.last) == 1; body != (c.fine && c.t.Bytes > 0) {
			t.Errorf("%s: a node learns of its bandwidth: %v", name, body)
		}
	}
	var m Memory
	m.Observe("n", ncoord.Coordinate{}, Timing{TLS: -1, FirstByte: 50e6, Total: 100e6}, now)
	if _, ok := m.Age(now); ok || !m.Empty() {
		t.Error("a handshake took less than no time")
	}
	place := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{1}, Error: 0.5}
	for _, coord := range []ncoord.Coordinate{place, {}, {Error: 9}} { // the last is impossible
		if m.Observe("n", coord, timings["usual"].t, now); m.seen[0].coord != place {
			t.Errorf("with a download at %v the node is at %v", coord, m.seen[0].coord)
		}
	}
}

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
		a := newProbe(cfg, batchOf("198.18.0.1"), viewOf("a"))
		c.r.Ask = a.Asks(time.Time{})[0]
		if a.Observe(c.r, time.Time{}); a.servers[0].times["a"] != c.want {
			t.Errorf("%s: %v ms, want %v", name, a.servers[0].times["a"], c.want)
		}
	}
}

// The shortest of some connect times counts, and the load at that time. What was never measured has none.
func TestTripsJoin(t *testing.T) {
	none, near, far := trip{}, trip{10, 1, 2}, trip{20, 3, 4}
	for _, c := range []struct{ a, b, want trip }{
		{none, none, none}, {none, near, near}, {near, none, near}, {near, far, trip{10, 1, 6}}, {far, near, trip{10, 1, 6}},
		{near, trip{10, 9, 1}, trip{10, 1, 3}},
	} {
		if got := c.a.join(c.b); got != c.want {
			t.Errorf("%v and %v are %v, want %v", c.a, c.b, got, c.want)
		}
	}
	// Of 10,000 servers the trips of one span are remembered. One more begins the next.
	var all trips
	now := time.Unix(1_000_000, 0)
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 10_000 {
		all.take(addr(i), 10, 1, now)
	}
	if len(all.recent) != 10_000 || all.before != nil {
		t.Errorf("%d servers, %d before", len(all.recent), len(all.before))
	}
	if all.take(addr(10_000), 10, 1, now); len(all.recent) != 1 || len(all.before) != 10_000 {
		t.Errorf("%d servers, %d before", len(all.recent), len(all.before))
	}
}

// A node that has learnt from more downloads than it counts still notices changes of its load. The round trips depend on that.
func TestLoadOfNodeThatHasLearntMuch(t *testing.T) {
	server, now := netip.MustParseAddr("192.0.2.1"), time.Unix(1_000_000, 0)
	for _, samples := range []int{100, math.MaxUint16 - 10} {
		o := NewOwn(Factors{LoadMs: 5, LoadError: 0.1, BytesPerMs: 1000, BytesError: 0.1, Samples: samples})
		for range 40 {
			o.Observe("n", server, Timing{Connect: 20e6, FirstByte: 200e6, Total: 250e6, Bytes: 1000, Fresh: true}, nil, View{}, now)
			now = now.Add(time.Second)
		}
		if f := o.Factors(); f.Samples > math.MaxUint16 || o.now < f.LoadMs/2 {
			t.Errorf("after %d downloads and 40 slow ones the load is %v ms, at first taken for %v ms", samples, f.LoadMs, o.now)
		}
	}
	if o := NewOwn(Factors{LoadMs: 2000, LoadError: 3, Samples: 9}); math.Abs(o.now-o.Factors().LoadMs) > 1 {
		t.Errorf("a doubtful load is %v ms, at first taken for %v ms", o.Factors().LoadMs, o.now)
	}
}

// A download that is not learnt from tells how far away its server is all the same.
func TestTripsOfAllDownloads(t *testing.T) {
	o, far, now := NewOwn(Factors{}), netip.MustParseAddr("192.0.2.2"), time.Unix(1_000_000, 0)
	usual := Timing{Connect: 20e6, FirstByte: 50e6, Total: 100e6, Bytes: 1000}
	for o.Due(now) {
		o.Observe("n", netip.MustParseAddr("192.0.2.1"), usual, nil, View{}, now)
	}
	if o.Observe("n", far, usual, nil, View{}, now); o.trips.take(far, 0, 0, now).least != 20 {
		t.Error("the round trip is not known")
	}
}

// Factors at their bounds travel. Numbers beyond the bounds of their form become the largest of it.
func TestFactorsAtTheirBounds(t *testing.T) {
	for _, c := range []struct{ f, want Factors }{
		{Factors{LoadMs: 1e9, BytesPerMs: 1e9, QueueMs: 1e9, Samples: 65_535}, Factors{LoadMs: 1e9, BytesPerMs: 1e9, QueueMs: 1e9, Samples: 65_535}},
		{Factors{Samples: 65_536}, Factors{Samples: 65_535}},
		{Factors{Samples: -1}, Factors{}},
		{Factors{LoadError: 100, BytesError: 0.001}, Factors{LoadError: 255.0 / 64, BytesError: 1.0 / 64}},
	} {
		if got, err := DecodeFactors(c.f.AppendBinary(nil)); err != nil || got != c.want {
			t.Errorf("%+v becomes %+v, %v", c.f, got, err)
		}
	}
	beyond := math.Nextafter(1e9, math.Inf(1))
	for _, f := range []Factors{{LoadMs: beyond}, {LoadError: -1}, {BytesPerMs: beyond}, {BytesError: beyond}, {QueueMs: -1}, {Samples: -1}} {
		if f.Check() == nil {
			t.Errorf("%+v can be", f)
		}
	}
}

// The typical page of a server is the mean of its hosts, by their pending URLs. A host without any counts as one with one.
func TestTypicalPage(t *testing.T) {
	for _, c := range []struct {
		hosts []Host
		want  float64
	}{
		{nil, 0},
		{[]Host{{Pending: 9}}, 0},
		{[]Host{{Pending: 9, PageBytes: 500}, {Pending: 9}}, 500},
		{[]Host{{Pending: 1, PageBytes: 100}, {Pending: 0, PageBytes: 10_000}}, 1000},
		{[]Host{{Pending: 3, PageBytes: 100}, {Pending: 1, PageBytes: 1_000_000}}, 1000},
	} {
		if got := typicalPage(Server{Hosts: c.hosts}); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%+v: %v bytes, want %v", c.hosts, got, c.want)
		}
	}
	a, b := learntServer{memory: &Memory{}}, learntServer{memory: &Memory{PageBytes: 1}}
	if a.page() != pagePrior || b.page() != 1 {
		t.Errorf("pages of %v and %v bytes", a.page(), b.page())
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

// Of up to 128 nodes all are candidates for a server, of more the best 40 of each place.
func TestHowManyAreCandidates(t *testing.T) {
	for nodes, want := range map[int]int{128: 128, 129: 40} {
		var v View
		for i := range nodes {
			v.Nodes = append(v.Nodes, Node{ID: strconv.Itoa(i)})
		}
		s := learntServer{memory: &Memory{seen: []seen{{key: nodeKey("1")}}}}
		l := newLearner(v, []*learntServer{&s}, 0)
		l.fit(time.Unix(1, 0))
		for _, f := range []*field{l.posterior(&s), {}} { // or no place stands out
			if got := len(l.candidates(&s, f)); got != want {
				t.Errorf("of %d nodes %d are candidates, want %d", nodes, got, want)
			}
		}
	}
}

// A probe that takes just as long as the threshold is good enough. Of himicra all nodes at the top of the tree probe first.
func TestProbesAtTheThreshold(t *testing.T) {
	times, b, v := bench{"198.18.0.1": {"a": 25, "b": 25, "c": 25}}, batchOf("198.18.0.1"), viewOf("a", "b", "c")
	for threshold, want := range map[float64][3]int{25: {1, 2, 1}, 24.9: {3, 3, 3}} {
		for i, a := range []*prober{newProbe(ProbeConfig{By: ProbeConnect, ThresholdMs: threshold}, b, v),
			newHiMicra(HiMicraConfig{Branches: 2, ThresholdMs: threshold}, b, v), newIPMicra(IPMicraConfig{ThresholdMs: threshold}, b, v)} {
			if _, asked := times.decide(t, a); len(asked["198.18.0.1"]) != want[i] {
				t.Errorf("%T with a threshold of %v ms asks %v", a.method, threshold, asked)
			}
		}
	}
}

// The defaults are the values that measured best, and those of the methods' authors.
func TestDefaults(t *testing.T) {
	want := Config{Margin: 0.05, MarginMs: 5, Hash: HashConfig{200}, Probe: ProbeConfig{By: ProbeConnect}, HiMicra: HiMicraConfig{50, 2}, IPMicra: IPMicraConfig{ThresholdMs: 50},
		CAN: CANConfig{CANMP, 20}, Nearest: NearestConfig{NearestKnobs: NearestKnobs{8}, MinEstimates: 3, Explore: 1.4, StopGain: 0.01, Balance: 0.05},
		Vivaldi: VivaldiConfig{VivaldiKnobs: VivaldiKnobs{0.25, 300, 10 * time.Second}, Window: 16, Percentile: 0.5, Step: 0.25, Smoothing: 0.25, Unconverged: UnconvergedDistance}}
	if got := Default(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Each ingredient has its own name.
func TestNamesOfIngredients(t *testing.T) {
	for name, without := range map[string]Ablation{"connect": withoutConnect, "pairs": withoutPairs, "neighbours": withoutNeighbours} {
		if i := slices.Index(Ablations(), name); without != 1<<i {
			t.Errorf("%s is left out by %b", name, without)
		}
	}
}

// An address answers at several places if two nodes reach it in less than 0.9 of the time that light takes from one to the other, unless one
// node is in all such pairs.
func TestWhatAnswersInTwoPlaces(t *testing.T) {
	places := []*ncoord.Location{{Lat: 52, Lon: 13}, {Lat: 36, Lon: 140}, {Lat: 34, Lon: -118}, nil}
	between := func(i, j int) float64 { return ncoord.LightMs(*places[i], *places[j]) }
	l := &learner{}
	for _, at := range places {
		l.nodes = append(l.nodes, learntNode{Node: Node{Location: at}})
	}
	seen := func(node int, ms float64) measured { return measured{node: node, y: math.Log(ms)} }
	far, near := 10_000.0, 0.1
	for name, c := range map[string]struct {
		seen []measured
		want bool
	}{
		"two nodes":                     {[]measured{seen(0, near), seen(1, near)}, false}, // the location of either may be wrong
		"three nodes":                   {[]measured{seen(0, near), seen(1, near), seen(2, near)}, true},
		"one is in all pairs":           {[]measured{seen(0, near), seen(1, 0.6*between(0, 1)), seen(2, 0.6*between(0, 2))}, false},
		"just not in time":              {[]measured{seen(0, 0.46*between(0, 1)), seen(1, 0.46*between(0, 1)), seen(2, far)}, false},
		"a node whose place is unknown": {[]measured{seen(0, near), seen(3, near), seen(2, far)}, false},
		"nobody":                        {nil, false},
	} {
		if got := l.inTwoPlaces(c.seen); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	// The third node is in two pairs. Whether there is a third pair, without it, depends on the first two nodes.
	for share, want := range map[float64]bool{0.449: true, 0.451: false} {
		all := []measured{seen(0, share*between(0, 1)), seen(1, share*between(0, 1)), seen(2, near)}
		if l.inTwoPlaces(all) != want {
			t.Errorf("at %v of the light: %v", share, !want)
		}
	}
}

// TestKnobs: knobs as they come are the default, and each of them turns something.
func TestKnobs(t *testing.T) {
	if got := DefaultKnobs().Config(); got != Default() {
		t.Errorf("untouched knobs make %+v, want %+v", got, Default())
	}
	k := Knobs{Vivaldi: VivaldiKnobs{0.5, 7, 9}, Nearest: NearestKnobs{3}}
	c := k.Config()
	if c.Vivaldi.Theta != 0.5 || c.Vivaldi.MaxTicks != 7 || c.Vivaldi.Tick != 9 || c.Nearest.Estimates != 3 || c.Nearest.MinEstimates != 2 {
		t.Errorf("%+v makes %+v", k, c)
	}
	if (Knobs{Nearest: NearestKnobs{0}}).Config().Nearest.MinEstimates != 0 {
		t.Error("without estimates some are made")
	}
	if k.Vivaldi.Theta = -1; k.Validate() == nil {
		t.Error("an impossible theta is taken")
	}
}
