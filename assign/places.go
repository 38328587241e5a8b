package assign

import (
	"math"
	"slices"

	"proxima/ncoord"
)

// A hypothesis about a server is a place where it may be: at the location in a database, beside one of the nodes, anywhere, or
// everywhere (anycast). A place determines the expected round trip from each node, and which nodes may be the best.

const (
	groundBaseMs  = 8.0
	groundMsPerKm = 0.017
	earthKm       = 6371.0
	besideMs      = 8.5
	// Prior weights: of the stated location, and of the others within what remains. They need not sum to one.
	statedWeight                                   = 0.85
	besideWeight, ignorantWeight, everywhereWeight = 0.1, 2.0, 0.065
	// The expected round trips if nothing is known, and to an address that is near every node.
	ignorantMs, ignorantSD     = 105.0, 1.5
	everywhereMs, everywhereSD = 12.0, 0.7
	// A server that may be anywhere is as far away as other nodes are. Its spread is wider by this.
	anywhereWide = 1.3
	// The share of the errors of two coordinates that is added to the spread.
	coordinateShare = 0.3
	// The number of nodes beside which a server may be, and the number of places over which anywhere is averaged.
	maxHypotheses, anywherePlaces = 64, 16
	leastWeight                   = 3e-3
)

// onGlobe turns a location into a unit vector. It is not placed if the location is unknown.
func onGlobe(l *ncoord.Location) point {
	if l == nil || !l.Valid() {
		return point{}
	}
	const rad = math.Pi / 180
	lat, lon := l.Lat*rad, l.Lon*rad
	return point{placed: true, x: [ncoord.MaxDims]float64{math.Cos(lat) * math.Cos(lon), math.Cos(lat) * math.Sin(lon), math.Sin(lat)}}
}

// spreadOf returns the standard deviation in the log domain of round trips whose expected value is ms.
func spreadOf(ms float64) float64 { return 0.28 + 0.5*math.Exp(-ms/40) }

// place has the expected round trip from each node to a place: the logarithm of its ms, and the standard deviation of that.
type place struct {
	// expect computes both for a node. It is nil if log and sd are the same for all nodes.
	expect  func(node int) (log, sd float64)
	log, sd float64
	// keep says that known keeps the results. It is set for places that many servers share.
	keep  bool
	known []expected
	// near has the nodes that may be the best for servers there; see candidates.
	near []int32
}

type expected struct{ log, sd float32 } // sd is 0 until computed

// from returns the expected round trip from a node.
func (p *place) from(node int) (log, sd float64) {
	switch {
	case p.expect == nil:
		return p.log, p.sd
	case !p.keep:
		return p.expect(node)
	}
	e := &p.known[node]
	if e.sd == 0 {
		log, sd = p.expect(node)
		e.log, e.sd = float32(log), float32(sd)
	}
	return float64(e.log), float64(e.sd)
}

// shared returns a place that keeps its results.
func (l *learner) shared(expect func(node int) (log, sd float64)) *place {
	return &place{expect: expect, keep: true, known: make([]expected, len(l.nodes))}
}

// at returns what a place expects of a node at a round trip of ms, or at the usual round trip if ms is 0. extra widens the spread.
func at(ms, extra float64) (log, sd float64) {
	if ms <= 0 {
		return math.Log(ignorantMs), ignorantSD
	}
	return math.Log(ms), math.Hypot(spreadOf(ms), extra)
}

// setPlaces prepares the hypotheses that all servers share.
func (l *learner) setPlaces() {
	l.everywhere = &place{log: math.Log(everywhereMs), sd: everywhereSD}
	step := max(1, (l.live+maxHypotheses-1)/maxHypotheses)
	for j := 0; j < l.live; j += step {
		if l.points[j].placed {
			l.beside = append(l.beside, l.shared(l.besideNode(j, 0)))
			// The height of a coordinate includes the node's access link and its load. Each of the two is a hypothesis.
			if l.byCoords && !l.without.has(withoutHeights) {
				l.tall = append(l.tall, l.shared(l.besideNode(j, 1)))
			}
		}
	}
	l.anywhere = l.anywhereAmong(l.beside)
	if len(l.tall) > 0 {
		l.anywhereTall = l.anywhereAmong(l.tall)
	}
	l.stated = map[cell]*place{}
}

// besideNode returns the place beside node j. heights is 1 if heights are distance, and 0 if they are load.
func (l *learner) besideNode(j int, heights float64) func(int) (float64, float64) {
	return func(i int) (log, sd float64) {
		if !l.points[i].placed {
			return at(0, 0)
		}
		ms := besideMs + l.points[j].distance(&l.points[i])
		if !l.byCoords {
			return at(ms, 0)
		}
		a, b := &l.nodes[i].Coord, &l.nodes[j].Coord
		return at(ms+heights*(a.Height+b.Height), coordinateShare*math.Hypot(min(a.Error, 1), min(b.Error, 1)))
	}
}

// anywhereAmong returns the place of a server that is as far from a node as other nodes are.
func (l *learner) anywhereAmong(places []*place) *place {
	if len(places) < 4 || l.without.has(withoutAnywhere) {
		return &place{log: math.Log(ignorantMs), sd: ignorantSD}
	}
	step := (len(places) + anywherePlaces - 1) / anywherePlaces
	return l.shared(func(node int) (log, sd float64) {
		// The prior of any server has the weight of two places.
		own := math.Log(ignorantMs)
		n, sum, squares := 2.0, 2*own, 2*(ignorantSD*ignorantSD+own*own)
		for i := 0; i < len(places); i += step {
			v, _ := places[i].from(node)
			n, sum, squares = n+1, sum+v, squares+v*v
		}
		mean := sum / n
		return mean, anywhereWide * math.Sqrt(squares/n-mean*mean)
	})
}

// statedPlace returns the place at a location, or nil without a location.
func (l *learner) statedPlace(loc *ncoord.Location) *place {
	if loc == nil || !loc.Valid() || l.without.has(withoutStated) {
		return nil
	}
	to := onGlobe(loc)
	return &place{expect: func(node int) (log, sd float64) {
		if from := &l.globe[node]; from.placed {
			// The chord gives exact angles between near places, but the arc cosine does not.
			return at(groundBaseMs+groundMsPerKm*earthKm*2*math.Asin(min(from.distance(&to)/2, 1)), 0)
		}
		return at(0, 0)
	}}
}

// hypotheses returns the places where a server may be, with their prior weights, without those of its neighbours.
func (l *learner) hypotheses(s *learntServer) []hypothesis {
	// An anycast address is near every node.
	if s.spread {
		return []hypothesis{{place: l.everywhere, weight: 1}}
	}
	rest := 1.0
	hyps := make([]hypothesis, 0, len(l.beside)+len(l.tall)+4)
	if p := l.statedPlace(s.memory.Location); p != nil {
		hyps = append(hyps, hypothesis{place: p, weight: statedWeight})
		rest -= statedWeight
	}
	if !l.without.has(withoutBeside) {
		for _, p := range slices.Concat(l.beside, l.tall) {
			hyps = append(hyps, hypothesis{place: p, weight: besideWeight * rest / float64(len(l.beside))})
		}
	}
	if l.anywhereTall != nil {
		hyps = append(hyps, hypothesis{place: l.anywhereTall, weight: ignorantWeight * rest})
	}
	return append(hyps, hypothesis{place: l.anywhere, weight: ignorantWeight * rest},
		hypothesis{place: l.everywhere, weight: everywhereWeight * rest})
}

const (
	// Up to this number of nodes, all are candidates for every server.
	fewNodes = 128
	// With more nodes, candidates are all nodes that have downloaded from the server, and the nearNodes best nodes at each place with a
	// weight of at least nearWeight.
	nearNodes, nearWeight = 40, 0.03
	// Stated locations in one cell of this many degrees share their candidates.
	cellDegrees = 5.0
)

// cell is a part of the ground, in steps of cellDegrees.
type cell struct{ lat, lon int16 }

// candidates returns the nodes of the view that may be the best for a server, each once. The slice is valid until the next call.
func (l *learner) candidates(s *learntServer, f *field) []int32 {
	l.list = l.list[:0]
	if l.live <= fewNodes {
		for i := range l.live {
			l.list = append(l.list, int32(i))
		}
		return l.list
	}
	add := func(nodes ...int32) {
		l.list = append(l.list, nodes...)
		slices.Sort(l.list)
		l.list = slices.Compact(l.list)
	}
	for _, m := range s.memory.seen {
		if i, ok := l.index[m.key]; ok && i < l.live {
			add(int32(i))
		}
	}
	for _, h := range f.hyps {
		if h.weight >= nearWeight || h.expect == nil {
			add(l.near(h.place, s.memory.Location)...)
		}
	}
	if len(l.list) < nearNodes { // no place stands out
		add(l.near(l.anywhere, nil)...)
	}
	return l.list
}

// near returns the nodes with the lowest expected times of a typical page at a place.
func (l *learner) near(p *place, loc *ncoord.Location) []int32 {
	if p.expect != nil && !p.keep { // stated
		c := cell{int16(math.Round(loc.Lat / cellDegrees)), int16(math.Round(loc.Lon / cellDegrees))}
		if l.stated[c] == nil {
			l.stated[c] = p
		}
		p = l.stated[c]
	}
	if p.near != nil {
		return p.near
	}
	// Keep the best nodes so far in order. Few nodes are inserted.
	type scored struct {
		node int32
		ms   float64
	}
	best := make([]scored, 0, nearNodes+1)
	for i := range l.live {
		log, sd := p.from(i)
		n := &l.nodes[i]
		ms := rounds(pagePrior)*math.Exp(log-sd/2) + n.load.value() + pagePrior*n.slow.value()
		if len(best) == nearNodes && ms >= best[nearNodes-1].ms {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, ms, func(s scored, ms float64) int {
			if s.ms <= ms { // ties keep the order of the nodes
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, scored{int32(i), ms})
		best = best[:min(nearNodes, len(best))]
	}
	for _, x := range best {
		p.near = append(p.near, x.node)
	}
	return p.near
}
