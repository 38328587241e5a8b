package compare

import (
	"math"
	"slices"

	"proxima/ncoord"
	"proxima/node/journal"
)

// space is what a run's logs say about coordinates.
type space struct {
	servers map[string]*proxyPlace // as they were last
	// far and wrong are, for each node and server that events hit, distances between the node and the servers' places, and the
	// error of these places.
	far, wrong map[string]*timeline[cell]
}

// proxyPlace is where a server was said to be last.
type proxyPlace struct {
	ms int64 // since 1970
	at ncoord.Coordinate
}

func newSpace() *space {
	return &space{servers: map[string]*proxyPlace{}, far: map[string]*timeline[cell]{}, wrong: map[string]*timeline[cell]{}}
}

func coordinate(vector []float64, height, accuracy float64) ncoord.Coordinate {
	k := ncoord.Coordinate{Height: height, Error: accuracy}
	copy(k.Vec[:], vector)
	return k
}

// placed takes in a line of the coordinate log.
func (r *run) placed(n int, k *journal.Coord) {
	if at := coordinate(k.Vector, k.HeightMs, k.Accuracy); k.Refused == "" && at.Check() == nil {
		*r.nodes[n].path.at(r.seconds(k.Time)) = placed{at, true}
	}
}

// whereWas is where a node was at a moment, or the last before.
func (n *node) whereWas(second float64) (ncoord.Coordinate, bool) {
	for i := min(int(max(second, 0)/n.path.width), len(n.path.cells)-1); i >= 0; i-- {
		if c := n.path.cells[i]; c.known {
			return c.at, true
		}
	}
	return ncoord.Coordinate{}, false
}

// proxy takes in a line of the proxy log. The coordinate logs have been read.
func (r *run) proxy(p *journal.Proxy) {
	at := coordinate(p.Vector, p.HeightMs, p.Accuracy)
	if at.Check() != nil {
		return
	}
	have := r.space.servers[p.Server]
	if have == nil {
		have = &proxyPlace{}
		r.space.servers[p.Server] = have
	}
	if ms := p.Time.UnixMilli(); ms >= have.ms {
		have.ms, have.at = ms, at
	}
	second := r.seconds(p.Time)
	for _, a := range r.plots.affected {
		hit := a.kind == kindServer && a.name == p.Server
		for _, n := range r.nodes {
			if !hit && (a.kind != kindNode || n.name != a.name) {
				continue
			}
			if place, ok := n.whereWas(second); ok {
				key := a.name
				if hit {
					key += " " + n.name
				}
				series(r.space.far, key).at(second).add(ncoord.Distance(place, at))
			}
		}
		if hit || a.kind == kindNode {
			series(r.space.wrong, a.name).at(second).add(p.Accuracy)
		}
	}
}

// series is the timeline with a name, made when first needed.
func series(of map[string]*timeline[cell], name string) *timeline[cell] {
	t := of[name]
	if t == nil {
		t = newSums()
		of[name] = t
	}
	return t
}

// accuracyPoint is the error of the nodes' coordinates at a moment.
type accuracyPoint struct{ second, p50, p90 float64 }

// accuracy is the error of coordinates over time: against the world's round trips where they are known, else what the nodes believe.
func (r *run) accuracy() []accuracyPoint {
	width, cells := 1.0, 0
	for _, n := range r.nodes {
		width = max(width, n.path.width)
	}
	for _, n := range r.nodes {
		cells = max(cells, int(math.Ceil(float64(len(n.path.cells))*n.path.width/width)))
	}
	const points = 150
	step := max(1, cells/points)
	var list []accuracyPoint
	for i := 0; i < cells; i += step {
		second := (float64(i) + 0.5) * width
		if errs := r.errorsAt(second); len(errs) > 0 {
			slices.Sort(errs)
			list = append(list, accuracyPoint{second, errs[(len(errs)-1)/2], errs[(len(errs)-1)*9/10]})
		}
	}
	return list
}

func (r *run) errorsAt(second float64) []float64 {
	var errs []float64
	for i, a := range r.nodes {
		from, ok := a.whereWas(second)
		if !ok {
			continue
		}
		if !r.measured() {
			errs = append(errs, from.Error)
			continue
		}
		for _, b := range r.nodes[i+1:] {
			to, ok := b.whereWas(second)
			if ok && a.world >= 0 && b.world >= 0 {
				if rtt := r.world.NodeRTTMs[a.world][b.world]; rtt > 0 {
					errs = append(errs, math.Abs(ncoord.Distance(from, to)-rtt)/rtt)
				}
			}
		}
	}
	return errs
}

// measured says that the round trips between the nodes are known.
func (r *run) measured() bool {
	if r.world == nil || len(r.world.NodeRTTMs) != len(r.world.Nodes) {
		return false
	}
	return !slices.ContainsFunc(r.world.NodeRTTMs, func(row []float64) bool { return len(row) != len(r.world.Nodes) })
}
