package assign

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"time"

	"proxima/ncoord"
	"proxima/ncoord/quantile"
)

// learner fits the model to the memories of several servers at once. So what the downloads from one server reveal about a node's load
// and bandwidth applies to the other servers.
type learner struct {
	nodes   []learntNode // first those of the view, then those that are only in memories
	live    int          // number of nodes in the view
	index   map[uint64]int
	points  []point // positions of the nodes for the kernel
	globe   []point // locations that the nodes state
	servers []*learntServer
	without Ablation

	networks map[netip.Prefix]*network
	// Places where servers may be; see places.go.
	byCoords                           bool // points are coordinates, not locations
	beside, tall                       []*place
	anywhere, anywhereTall, everywhere *place
	stated                             map[cell]*place // the first stated location of each cell

	list []int32 // buffer of candidates
}

// learntNode is a node with what is learnt of it: its load in ms, and the time that it needs for a byte in ms.
type learntNode struct {
	Node
	load, slow quantity
}

// learntServer is a server with what is learnt of it.
type learntServer struct {
	addr   netip.Addr // zero if it has no neighbours
	memory *Memory
	think  quantity
	field  *field // nil without downloads: posterior makes it when it is needed
	obs    []observation
	pairs  map[int][]float64 // by node: residuals of whole downloads in the log domain
	spread bool              // the address answers at several places
	own    *field            // from the server's own downloads alone, evidence for its neighbours; nil if there are none
}

// page returns the size of a typical page, in bytes.
func (s *learntServer) page() float64 { return cmp.Or(s.memory.PageBytes, pagePrior) }

// freshFor is the age at which the weight of a download for think time and pair has fallen by a factor of e, if the node has
// published factors since. For the round trip, the weight remains the same.
const freshFor = time.Minute

// observation is a download in the terms of the model.
type observation struct {
	node         int
	rtt          float64 // as estimated
	connect      float64 // as measured, else rtt
	timed        bool    // connect was measured
	first, tail  float64
	bytes, extra float64 // extra is variance for age
	fresh        float64 // weight left for think time and pair, 0 to 1
	rounds       float64 // those after the first byte
}

// newLearner makes a learner for the nodes of a view, and for those that are only in the memories of servers. fit must come next.
func newLearner(v View, servers []*learntServer, without Ablation) *learner {
	l := &learner{index: map[uint64]int{}, servers: servers, without: without}
	add := func(key uint64, n Node) {
		l.index[key] = len(l.nodes)
		l.nodes = append(l.nodes, learntNode{Node: n, load: loadOf(n), slow: slowOf(n)})
	}
	for _, n := range v.sorted() {
		if without.has(withoutFactors) {
			n.Factors = Factors{}
		}
		add(nodeKey(n.ID), n)
	}
	l.live = len(l.nodes)
	for _, s := range servers {
		for _, e := range s.memory.seen {
			if _, ok := l.index[e.key]; !ok {
				add(e.key, Node{Coord: e.coord})
			}
		}
	}
	l.setPoints()
	l.setPlaces()
	l.networks = networksOf(servers)
	return l
}

// loadOf returns the prior of a node's load: the published load or, without one, the height of its coordinate, which also includes the
// access link. It never uses both, so that load counts once.
func loadOf(n Node) quantity {
	switch {
	case n.Factors.Samples > 0 && n.Factors.LoadMs > 0:
		return newQuantity(max(n.Factors.LoadMs, 0.1), max(n.Factors.LoadError, 0.05))
	case n.Coord.Height > 0:
		return newQuantity(max(n.Coord.Height, 1), 0.8)
	}
	return newQuantity(loadPriorMs, loadPriorSD)
}

// slowOf returns the prior of the time that a node needs for a byte: by the published bandwidth, if there is one.
func slowOf(n Node) quantity {
	if n.Factors.Samples > 0 && n.Factors.BytesPerMs > 0 {
		return newQuantity(1/n.Factors.BytesPerMs, max(n.Factors.BytesError, 0.05))
	}
	return newQuantity(slowPrior, slowPriorSD)
}

// setPoints sets the nodes' positions for the kernel: their coordinates if most nodes have one, and otherwise their locations.
func (l *learner) setPoints() {
	coords := 0
	for i := range l.nodes {
		if known(l.nodes[i].Coord) && l.nodes[i].Coord.Error < 1 {
			coords++
		}
	}
	l.points, l.globe = make([]point, len(l.nodes)), make([]point, len(l.nodes))
	l.byCoords = coords*2 > len(l.nodes)
	for i := range l.nodes {
		n := &l.nodes[i]
		l.globe[i] = onGlobe(n.Location)
		if l.byCoords {
			l.points[i] = point{x: n.Coord.Vec, placed: known(n.Coord)}
		} else {
			l.points[i] = chord(n.Location)
		}
	}
}

// fit fits the model to all memories. Ages are counted from now.
func (l *learner) fit(now time.Time) {
	for _, s := range l.servers {
		l.fitField(s, now)
	}
	l.fitNeighbours()
	for range 8 {
		l.sweep()
	}
	for _, s := range l.servers {
		s.pairs = map[int][]float64{}
		for i := range s.obs {
			o := &s.obs[i]
			n := &l.nodes[o.node]
			expected := (2+o.rounds)*o.rtt + s.think.value() + n.load.value() + o.bytes*n.slow.value()
			s.pairs[o.node] = append(s.pairs[o.node], o.fresh*math.Log((o.connect+o.first+o.tail)/expected))
		}
	}
}

// sweep takes one Newton step of all quantities.
func (l *learner) sweep() {
	for _, s := range l.servers {
		think := s.think.value()
		for i := range s.obs {
			o := &s.obs[i]
			n := &l.nodes[o.node]
			variance := downloadSD*downloadSD + o.extra
			load := n.load.value()
			want := o.rtt + think + load
			r := math.Log(o.first / want)
			w := trust(r, variance)
			s.think.add(r, think/want, variance, w*o.fresh)
			if n.Factors.Samples > 0 {
				continue // the node itself learns from more downloads than these, and notices changes sooner
			}
			n.load.add(r, load/want, variance, w)
			if o.tail > 0 {
				// Include the connect time, since the rest may be a small, noisy difference of large times.
				slow := o.bytes * n.slow.value()
				want := (1+o.rounds)*o.rtt + slow
				r := math.Log((o.connect + o.tail) / want)
				n.slow.add(r, slow/want, variance, trust(r, variance))
			}
		}
		s.think.step()
	}
	if l.without.has(withoutBatch) {
		return
	}
	for i := range l.nodes {
		l.nodes[i].load.step()
		l.nodes[i].slow.step()
	}
}

// fitField computes a server's field and its observations from its connect times.
func (l *learner) fitField(s *learntServer, now time.Time) {
	if s.think.priorVar == 0 {
		s.think = newQuantity(thinkPriorMs, thinkPriorSD)
	}
	var seen []measured
	s.obs = s.obs[:0]
	for _, e := range s.memory.seen {
		node, ok := l.index[e.key]
		if !ok || len(e.samples) == 0 {
			continue
		}
		hours := max(0, now.Sub(e.at).Hours())
		extra := min(0.02*hours, 0.5)
		fresh := 1.0
		if l.nodes[node].Factors.Samples > 0 {
			fresh = math.Exp(-hours * float64(time.Hour) / float64(freshFor))
		}
		var logs []float64
		for _, x := range e.samples {
			if x.connect > 0 && !l.without.has(withoutConnect) {
				logs = append(logs, math.Log(cleanConnect(x.connect.value(), connectExcess, l.nodes[node].load.value())))
			}
		}
		m := measured{node: node}
		if len(logs) > 0 {
			// The cause of slow connect times may be over. So use the shortest one more, the older they are.
			least := slices.Min(logs) + math.Log(connectExcess/leastExcess(len(logs)))
			middle := quantile.Median(logs)
			m.y, m.noise = least+fresh*(middle-least), connectSD*connectSD*1.3/float64(len(logs))+extra
		} else {
			for _, x := range e.samples {
				first := x.first.value()
				logs = append(logs, math.Log(max(first-s.think.value()-l.nodes[node].load.value(), 0.2*first)))
			}
			m.y, m.noise = quantile.Median(logs), 0.3/float64(len(logs))+extra
		}
		seen = append(seen, m)
		for _, x := range e.samples {
			bytes := x.bytes.value()
			s.obs = append(s.obs, observation{node: node, connect: x.connect.value(), timed: x.connect > 0, first: x.first.value(),
				tail: x.tail.value(), bytes: bytes, rounds: rounds(bytes) - 2, extra: extra, fresh: fresh})
		}
	}
	s.spread = s.memory.Spread || l.inTwoPlaces(seen)
	s.field, s.own = nil, nil
	if len(seen) == 0 {
		return // posterior computes it when it is needed
	}
	s.field = newField(seen, l.rho, l.hypotheses(s))
	s.own = s.field
	l.setRoundTrips(s)
}

// setRoundTrips sets the estimated round trips of a server's observations.
func (l *learner) setRoundTrips(s *learntServer) {
	at := -1
	var rtt float64
	for i := range s.obs {
		if s.obs[i].node != at {
			at = s.obs[i].node
			mean, _ := s.field.predict(at)
			rtt = math.Exp(mean)
		}
		s.obs[i].rtt = rtt
		if !s.obs[i].timed {
			s.obs[i].connect = rtt
		}
	}
}

// posterior returns a server's field. It does not keep the fields of servers without downloads, since there may be very many of them.
func (l *learner) posterior(s *learntServer) *field {
	if s.field != nil {
		return s.field
	}
	return newField(nil, l.rho, l.withNeighbours(s))
}

// inTwoPlaces reports whether two nodes reach the server faster than light could travel from one to the other. Then the address must
// answer at several places, unless all such pairs have one node in common, whose location must be wrong.
func (l *learner) inTwoPlaces(seen []measured) bool {
	pairs, of := 0, make([]int, len(seen))
	for i, a := range seen {
		for j, b := range seen[:i] {
			p, q := l.nodes[a.node].Location, l.nodes[b.node].Location
			if p != nil && q != nil && math.Exp(a.y)+math.Exp(b.y) < 0.9*ncoord.LightMs(*p, *q) {
				pairs++
				of[i]++
				of[j]++
			}
		}
	}
	return pairs > 0 && !slices.Contains(of, pairs)
}

// rho returns the covariance of two nodes' deviations e, by the Matérn 3/2 kernel.
func (l *learner) rho(a, b int) float64 {
	p, q := &l.points[a], &l.points[b]
	switch {
	case a == b:
		return 1
	case !p.placed || !q.placed || l.without.has(withoutKernel):
		return 0
	}
	r := math.Sqrt(3) * p.distance(q) / kernelMs
	return sharedPart * (1 + r) * math.Exp(-r)
}

func sq(x float64) float64 { return x * x }

// prediction is the predicted download of a typical page at a node.
type prediction struct {
	node int
	ms   float64 // mean
	low  float64 // median of the time
	sd   float64 // in the log domain, of what differs between nodes
	seen int     // downloads
}

// predict predicts the download of a typical page of a server at a node: by the model of model.go, and then by what the downloads of just
// this pair have shown beyond the model.
func (l *learner) predict(s *learntServer, f *field, node int) prediction {
	n := &l.nodes[node]
	mean, variance := f.predict(node)
	page := s.page()
	r := rounds(page)
	rtt, load, slow := r*math.Exp(mean), n.load.value(), page*n.slow.value()
	median := rtt + load + slow + s.think.value()
	if residuals := s.pairs[node]; len(residuals) > 0 && !l.without.has(withoutPairs) {
		noise := downloadSD * downloadSD * 1.3 / float64(len(residuals))
		// A residual far outside the noise comes from a time when the server or the node was different. So it has less weight.
		r := quantile.Median(residuals)
		if far := 2 * downloadSD; math.Abs(r) > far {
			r = math.Copysign(far*far/math.Abs(r), r)
		}
		// Correct only the part without think time, which is the same for all nodes.
		own := sq(pairSD * (1 - s.think.value()/median))
		median *= math.Exp(r * own / (own + noise))
	}
	v := rtt*rtt*variance + load*load*n.load.variance + slow*slow*n.slow.variance
	expected := median + rtt*(math.Exp(variance/2)-1) + load*(math.Exp(n.load.variance/2)-1) + slow*(math.Exp(n.slow.variance/2)-1)
	if l.without.has(withoutExpectation) {
		expected = median
	}
	return prediction{node: node, ms: expected, low: median, sd: math.Sqrt(v) / median, seen: len(s.pairs[node])}
}

// ranking returns the predictions for a server at its candidates, best first. If the address answers at several places, nodes that
// have downloaded from it come before the others.
func (l *learner) ranking(s *learntServer) []prediction {
	f := l.posterior(s)
	nodes := l.candidates(s, f)
	all := make([]prediction, len(nodes))
	for i, node := range nodes {
		all[i] = l.predict(s, f, int(node))
	}
	slices.SortFunc(all, func(p, q prediction) int {
		if s.spread && (p.seen > 0) != (q.seen > 0) {
			return cmp.Compare(q.seen, p.seen)
		}
		return cmp.Or(cmp.Compare(p.ms, q.ms), cmp.Compare(p.node, q.node))
	})
	return all
}
