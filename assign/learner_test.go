package assign

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"proxima/ncoord"
)

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
}

// A server is where a database says it is now, else where one said before.
func TestLocationOfAServer(t *testing.T) {
	now, before := &ncoord.Location{Lat: 1}, &ncoord.Location{Lat: 2}
	for _, c := range []struct{ now, before, want *ncoord.Location }{{now, before, now}, {now, nil, now}, {nil, before, before}} {
		b := Batch{Servers: []Server{{Location: c.now, Memory: Memory{Location: c.before}}}}
		if got := newNearest(Default().Nearest, b, viewOf("a")).targets[0].memory.Location; got == nil || *got != *c.want {
			t.Errorf("at %v, before at %v: it is at %v", c.now, c.before, got)
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

// What is said of a server without downloads is not kept. There may be very many of them, and their neighbours tell more of them later.
func TestFieldsOfServersWithoutDownloads(t *testing.T) {
	s := learntServer{memory: &Memory{}}
	l := newLearner(nearWorld(), []*learntServer{&s}, 0)
	l.fit(time.Unix(1, 0))
	first, again := l.posterior(&s), l.posterior(&s)
	if s.field != nil || first == again {
		t.Error("it is kept")
	}
	for node := range l.nodes {
		m, v := first.predict(node)
		if mean, variance := again.predict(node); mean != m || variance != v {
			t.Errorf("of node %d it says %v ± %v, and then %v ± %v", node, m, v, mean, variance)
		}
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

// Of many unlikely hypotheses few are kept, and their weights add up to one again: else every round trip seems short, and unsure.
func TestWeightsOfWhatIsKeptAddUpToOne(t *testing.T) {
	at := func(ms float64) *place { return &place{log: math.Log(ms), sd: 0.3} }
	hyps := []hypothesis{{place: at(100), weight: 0.8}}
	for range 100 {
		hyps = append(hyps, hypothesis{place: at(100), weight: 0.002})
	}
	f := newField(nil, func(int, int) float64 { return 1 }, hyps)
	mean, variance := f.predict(0)
	if len(f.hyps) != 1 || math.Abs(mean-math.Log(100)) > 1e-9 || math.Abs(variance-0.09) > 1e-9 {
		t.Errorf("%d hypotheses, log rtt %.3f ± %.3f, want %.3f ± 0.3", len(f.hyps), mean, math.Sqrt(variance), math.Log(100))
	}
}
