package assign

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/ncoord"
	"proxima/node/golden"
)

// TestFigures plays the scenarios of testdata/figures: nodes and servers with downloads, and all that is learnt of them, number by
// number. The steps are those of figures.do.
//
//	go test -run Figures ./assign -update
func TestFigures(t *testing.T) {
	update := flag.Lookup("update").Value.String() == "true"
	golden.Play(t, "testdata/figures/*.txt", update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		f := &figures{T: t, now: time.Unix(1_800_000_000, 0), memories: map[string]*Memory{}, own: NewOwn(Factors{})}
		for _, steps := range blocks {
			f.out.Reset()
			for _, step := range steps {
				f.do(strings.Fields(step))
			}
			printed = append(printed, f.out.String())
		}
		return printed
	})
}

// figures is a world that a scenario makes.
type figures struct {
	*testing.T
	now      time.Time
	nodes    []Node
	servers  []string
	memories map[string]*Memory
	without  Ablation
	own      *Own
	out      strings.Builder
}

func (f *figures) say(format string, args ...any) { fmt.Fprintf(&f.out, format+"\n", args...) }

func (f *figures) do(w []string) {
	f.Helper()
	switch w[0] {
	case "node": // node ID [KEY NUMBER ...]
		f.nodes = append(f.nodes, f.node(w[1], w[2:]))
	case "nodes": // nodes N: on a grid, with coordinates and locations
		for i := range int(f.number(w[1])) {
			x, y := i%12, i/12
			f.nodes = append(f.nodes, f.node(fmt.Sprintf("n%03d", i), strings.Fields(fmt.Sprintf("x %d y %d height %d error 0.2 lat %d lon %d", 20*x, 20*y, i%7, 5*y-40, 15*x-90))))
		}
	case "server": // server ADDRESS [KEY NUMBER ...]
		m := &Memory{}
		for i := 2; i < len(w); i += 2 {
			switch v := f.number(w[i+1]); w[i] {
			case "lat":
				m.Location = &ncoord.Location{Lat: v}
			case "lon":
				m.Location.Lon = v
			case "page":
				m.PageBytes = v
			case "spread":
				m.Spread = v > 0
			}
		}
		f.servers, f.memories[w[1]] = append(f.servers, w[1]), m
	case "leave": // leave NODE
		f.nodes = slices.DeleteFunc(f.nodes, func(n Node) bool { return n.ID == w[1] })
	case "saw": // saw NODE ADDRESS CONNECT FIRST TAIL BYTES [TLS]: a download, in ms
		t := f.timing(w[3:])
		f.memories[w[2]].Observe(w[1], f.coord(w[1]), t, f.now)
	case "fail": // fail NODE ADDRESS
		f.memories[w[2]].Fail(w[1], f.now)
	case "pass":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			f.Fatal(err)
		}
		f.now = f.now.Add(d)
	case "without":
		f.without = 0
		for _, name := range w[1:] {
			f.without |= 1 << slices.Index(Ablations(), name)
		}
	case "learn":
		f.learn()
	case "memory":
		f.memory(w[1])
	case "own": // own NODE ADDRESS CONNECT FIRST TAIL BYTES [TLS]: of one's own downloads
		f.own.Observe(w[1], netip.MustParseAddr(w[2]), f.timing(w[3:]), f.memories[w[2]], View{Nodes: f.nodes}, f.now)
	case "times": // times N STEP: a second after the other
		for range int(f.number(w[1])) {
			f.do(w[2:])
			f.now = f.now.Add(time.Second)
		}
	case "factors":
		x := f.own.Factors()
		f.say("load %.4g ms ±%.3g, %.4g bytes a ms ±%.3g, by %d; budget %.3g, load before %.4g", x.LoadMs, x.LoadError, x.BytesPerMs, x.BytesError, x.Samples, f.own.budget, f.own.now)
	case "restart":
		f.own = NewOwn(f.own.Factors())
	case "due":
		f.say("due %v, with a budget of %.3g", f.own.Due(f.now), f.own.budget)
	case "better": // better ADDRESS OWNER
		m, v := f.memories[w[1]], View{Nodes: f.nodes}
		node, gain, ok := Better(Default(), m, v, w[2])
		scout, is := Scout(Default(), m, v, w[2])
		rnd := rand.New(rand.NewPCG(1, 2))
		explorer, some := Explorer(Default(), m, v, w[2], rnd.Float64)
		f.say("better than %s is %q by %.4g, %v; scout %q, %v; explorer %q, %v", w[2], node, gain, ok, scout, is, explorer, some)
	case "move": // move X Y HEIGHT ERROR TIME: a proxy coordinate
		p := &f.memories[f.servers[0]].Proxy
		c := ncoord.Coordinate{Vec: [ncoord.MaxDims]float64{f.number(w[1]), f.number(w[2])}, Height: f.number(w[3]), Error: f.number(w[4])}
		p.move(Default().Vivaldi, c, f.number(w[5]), rand.New(rand.NewPCG(1, 2)))
		f.say("proxy %.4g height %.4g ±%.4g after %d", p.Coord.Vec, p.Coord.Height, p.Coord.Error, p.Updates)
	default:
		f.Fatalf("no step %q", w)
	}
}

func (f *figures) node(id string, w []string) Node {
	n := Node{ID: id}
	for i := 0; i < len(w); i += 2 {
		switch v := f.number(w[i+1]); w[i] {
		case "x":
			n.Coord.Vec[0] = v
		case "y":
			n.Coord.Vec[1] = v
		case "height":
			n.Coord.Height = v
		case "error":
			n.Coord.Error = v
		case "lat":
			n.Location = &ncoord.Location{Lat: v}
		case "lon":
			n.Location.Lon = v
		case "load":
			n.Factors.LoadMs, n.Factors.LoadError, n.Factors.Samples = v, 0.2, 20
		case "rate":
			n.Factors.BytesPerMs, n.Factors.BytesError, n.Factors.Samples = v, 0.3, 20
		case "queue":
			n.Factors.QueueMs = v
		case "samples":
			n.Factors.Samples = int(v)
		case "doubt":
			n.Factors.LoadError, n.Factors.BytesError = v, v
		default:
			f.Fatalf("no key %q", w[i])
		}
	}
	return n
}

func (f *figures) coord(id string) (c ncoord.Coordinate) {
	if n := (View{Nodes: f.nodes}).find(id); n != nil {
		c = n.Coord
	}
	return c
}

func (f *figures) number(word string) float64 {
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		f.Fatal(err)
	}
	return v
}

func (f *figures) timing(w []string) Timing {
	span := func(i int) time.Duration { return time.Duration(f.number(w[i]) * float64(time.Millisecond)) }
	t := Timing{Connect: span(0), FirstByte: span(1), Total: span(0) + span(1) + span(2), Bytes: int64(f.number(w[3]))}
	if len(w) > 4 {
		t.TLS = span(4)
		t.Total += t.TLS
	}
	return t
}

// learn fits the model to everything and prints what it believes.
func (f *figures) learn() {
	var servers []*learntServer
	for _, name := range f.servers {
		m := f.memories[name].Clone()
		s := learntServer{memory: &m}
		s.addr = netip.MustParseAddr(name)
		servers = append(servers, &s)
	}
	l := newLearner(View{Nodes: f.nodes}, servers, f.without)
	l.fit(f.now)
	for i := range min(len(l.nodes), 12) {
		n := &l.nodes[i]
		f.say("node %q: load %.4g ±%.3g, %.4g ns a byte ±%.3g", n.ID, n.load.value(), n.load.variance, 1e6*n.slow.value(), n.slow.variance)
	}
	for _, p := range slices.SortedFunc(maps.Keys(l.networks), netip.Prefix.Compare) {
		f.say("network %v: trust %.4g", p, l.networks[p].trust)
	}
	for i, s := range servers {
		f.say("server %s: think %.4g ±%.3g, spread %v", f.servers[i], s.think.value(), s.think.variance, s.spread)
		field := l.posterior(s)
		for _, h := range field.hyps {
			if h.weight >= 0.02 {
				log, sd := h.from(0)
				f.say("  place at %.4g ±%.3g from the first: %.3f", log, sd, h.weight)
			}
		}
		ranking := l.ranking(s)
		for _, p := range ranking[:min(8, len(ranking))] {
			f.say("  %s: %.4g ms, median %.4g ±%.3g, %d seen", l.nodes[p.node].ID, p.ms, p.low, p.sd, p.seen)
		}
		f.say("  of %d candidates", len(ranking))
	}
}

// memory prints what a memory holds, and whether that travels as it is.
func (f *figures) memory(name string) {
	m := f.memories[name]
	recent, usual, ok := m.Think()
	f.say("%d downloads, think %.4g, usually %.4g, %v, slowed %.4g, page %.5g", m.Downloads(), recent, usual, ok, m.Slowed(), m.PageBytes)
	f.say("proxy %.4g height %.4g ±%.4g after %d", m.Proxy.Coord.Vec, m.Proxy.Coord.Height, m.Proxy.Coord.Error, m.Proxy.Updates)
	for i := range m.seen {
		s := &m.seen[i]
		var words []string
		for _, x := range s.samples {
			words = append(words, fmt.Sprintf("%.4g+%.4g+%.4g of %.4g", x.connect.value(), x.first.value(), x.tail.value(), x.bytes.value()))
		}
		think, sd := m.thinkWithout(s.key, View{Nodes: f.nodes})
		f.say("node %d: %v ago, connects in %.4g, usually %.4g, others say it thinks %.4g ±%.3g: %s", i, f.now.Sub(s.at), s.connect(), s.usual(), think, sd, strings.Join(words, ", "))
	}
	b := m.AppendBinary(nil, f.now)
	again, err := DecodeMemory(b, f.now)
	if err != nil || string(again.AppendBinary(nil, f.now)) != string(b) {
		f.say("does not travel: %v", err)
	}
}
