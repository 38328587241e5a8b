package compare

import (
	"cmp"
	"math"
	"slices"

	"proxima/ncoord"
	"proxima/ncoord/quantile"
	"proxima/node/runlog"
)

// serverPlace is the last known place of a server.
type serverPlace struct {
	ms int64 // since 1970
	at ncoord.Coordinate
}

func coordinate(vector []float64, height, accuracy float64) ncoord.Coordinate {
	k := ncoord.Coordinate{Height: height, Error: accuracy}
	copy(k.Vec[:], vector)
	return k
}

// placed handles a line of the coordinate log.
func (r *run) placed(n int, k *runlog.Coord) {
	if at := coordinate(k.Vector, k.HeightMs, k.Accuracy); k.Refused == "" && at.Check() == nil {
		*r.nodes[n].path.at(r.seconds(k.Time)) = placed{at, true}
	}
}

// whereWas returns where a node was at a moment, or last before it.
func (n *node) whereWas(second float64) (ncoord.Coordinate, bool) {
	if len(n.path.cells) == 0 {
		return ncoord.Coordinate{}, false
	}
	for i := min(int(max(second, 0)/n.path.width), len(n.path.cells)-1); i >= 0; i-- {
		if c := n.path.cells[i]; c.known {
			return c.at, true
		}
	}
	return ncoord.Coordinate{}, false
}

// proxy handles a line of the proxy log. The coordinate logs have been read before.
func (r *run) proxy(p *runlog.Proxy) {
	at := coordinate(p.Vector, p.HeightMs, p.Accuracy)
	if at.Check() != nil {
		return
	}
	have := entry(r.servers, p.Server)
	if ms := p.Time.UnixMilli(); ms >= have.ms {
		have.ms, have.at = ms, at
	}
	second := r.seconds(p.Time)
	label := cmp.Or(p.Label, owners)
	for _, a := range r.affected {
		hit := a.kind == kindServer && a.name == p.Server
		if !hit && a.kind == kindServer {
			continue
		}
		entry(a.wrong, label).at(second).add(p.Accuracy)
		for _, n := range r.nodes {
			if place, ok := n.whereWas(second); ok && (hit || n.name == a.name) {
				entry(a.far, label).at(second).add(ncoord.Distance(place, at))
			}
		}
	}
}

// coordError returns the median and the p90 of the coordinates' errors over time: measured against the world's round trips, or what the
// nodes believe if those are unknown.
func (r *run) coordError() []Series {
	width, end := 1.0, 0.0
	for _, n := range r.nodes {
		width = max(width, n.path.width)
		end = max(end, float64(len(n.path.cells))*n.path.width)
	}
	const points = 150
	step := width * max(1, math.Floor(end/width/points))
	list := []Series{{Label: "p50"}, {Label: "p90"}}
	for second := width / 2; second < end; second += step {
		if errs := r.errorsAt(second); len(errs) > 0 {
			slices.Sort(errs)
			list[0].Points = append(list[0].Points, Point{second, quantile.Of(errs, .5)})
			list[1].Points = append(list[1].Points, Point{second, quantile.Of(errs, .9)})
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

// measured reports whether the round trips between the nodes are known.
func (r *run) measured() bool {
	if r.world == nil || len(r.world.NodeRTTMs) != len(r.world.Nodes) {
		return false
	}
	return !slices.ContainsFunc(r.world.NodeRTTMs, func(row []float64) bool { return len(row) != len(r.world.Nodes) })
}
