package assign

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"proxima/ncoord"
	"proxima/ncoord/quantile"
)

// vivaldi is the method of 2009 (B. Malet: Distributed Web Crawling Using Network Coordinates, Imperial College London, 2009,
// chapters 3 to 5). The others are compared with it. In every tick, one random node downloads one page of each server of the batch.
// Whole download times, filtered by a window for each node and server, move the server's proxy coordinate. When the median error
// falls below theta, or after the last tick, all servers go to their nearest nodes at once.
//
// The thesis leaves some details open. Here a tick counts for the servers that it asked. A server begins at the place of its first
// estimator and leaves it in a random direction. The moving average of errors has the weight Smoothing × w (ce in the paper on
// Vivaldi) and begins at 1.
type vivaldi struct {
	asker
	cfg     VivaldiConfig
	rnd     *rand.Rand
	servers []*vivaldiServer
	ticks   int
	next    time.Time // of the next tick
	again   bool      // whether it began with places from an earlier round
}

// vivaldiServer is a server of the batch with its place.
type vivaldiServer struct {
	*target
	at      Proxy
	windows map[string][]float64 // by node: its last download times, in ms
}

// newVivaldi begins with the places of an earlier round, if there was one, or of earlier batches (Keep).
func newVivaldi(cfg VivaldiConfig, b Batch, v View, now time.Time) *vivaldi {
	a := &vivaldi{asker: newAsker(b), cfg: cfg, rnd: rand.New(rand.NewPCG(b.Seed, weight("vivaldi", b.ID))), next: now}
	a.setNodes(v)
	before := &vivaldi{}
	if was, ok := b.Before.(*vivaldi); ok {
		before, a.again = was, true
	}
	for _, t := range a.targets {
		s := &vivaldiServer{target: t, at: Proxy{Coord: ncoord.Coordinate{Error: 1}}, windows: map[string][]float64{}}
		if i, ok := before.index[t.Addr]; ok {
			s.at = before.servers[i].at
			for node, times := range before.servers[i].windows {
				s.windows[node] = slices.Clone(times)
			}
		}
		if cfg.Keep && t.memory.Proxy.Updates > 0 {
			s.at, a.again = t.memory.Proxy, true
		}
		a.servers = append(a.servers, s)
	}
	return a
}

func (a *vivaldi) Next(time.Time) (time.Time, bool) { return a.next, a.choices == nil }

func (a *vivaldi) SetView(v View, _ time.Time) {
	a.setNodes(v)
	a.revise(a.decide)
}

// Asks asks one random node about all servers at each tick.
func (a *vivaldi) Asks(now time.Time) []Ask {
	if a.choices != nil || len(a.view.Nodes) == 0 || now.Before(a.next) {
		return nil
	}
	if a.next = a.next.Add(a.cfg.Tick); !a.next.After(now) {
		a.next = now.Add(a.cfg.Tick)
	}
	node := a.view.Nodes[a.rnd.IntN(len(a.view.Nodes))].ID
	var asks []Ask
	for _, s := range a.servers {
		if s.asking == "" && s.asked < a.cfg.MaxTicks {
			asks = append(asks, s.ask(node))
		}
	}
	if len(asks) > 0 {
		a.ticks++
	}
	return asks
}

func (a *vivaldi) Observe(r Result, now time.Time) {
	i, ok := a.answered(r)
	if t := ms(r.Timing.Total); ok && r.OK && t > 0 && t <= maxDownloadMs {
		s := a.servers[i]
		// Use the published coordinate, on which the decision depends. The one in the result may or may not include the node's load.
		s.update(a.cfg, r.Node, a.coordOf(r.Node), t, a.rnd)
		s.memory.Observe(r.Node, r.Coord, r.Timing, now)
		s.memory.Proxy = s.at // Observe does not apply windows
	}
}

// coordOf returns the coordinate of a node, or one with the largest error.
func (a *vivaldi) coordOf(id string) ncoord.Coordinate {
	if n := a.view.find(id); n != nil && known(n.Coord) {
		return n.Coord
	}
	return ncoord.Coordinate{Error: 1}
}

// update moves the server by a download time, filtered by the node's window.
func (s *vivaldiServer) update(cfg VivaldiConfig, node string, from ncoord.Coordinate, t float64, rnd *rand.Rand) {
	window := append(s.windows[node], t)
	if len(window) > cfg.Window {
		window = window[1:]
	}
	s.windows[node] = window
	s.at.move(cfg, from, quantile.Of(slices.Sorted(slices.Values(window)), cfg.Percentile), rnd)
}

// medianError returns the median error of the servers' places.
func (a *vivaldi) medianError() float64 {
	v := make([]float64, len(a.servers))
	for i, s := range a.servers {
		v[i] = s.at.Coord.Error
	}
	slices.Sort(v)
	return quantile.Of(v, 0.5)
}

// Decide waits for the median error to fall below theta, or for the last tick.
func (a *vivaldi) Decide(now time.Time) ([]Choice, bool) {
	if a.choices == nil {
		open := slices.ContainsFunc(a.servers, func(s *vivaldiServer) bool { return s.asked < a.cfg.MaxTicks })
		// Wait for the answers of the last tick, too.
		over := !open && (!now.Before(a.next) || !a.waiting())
		// Places from an earlier round may already be exact enough. One tick checks that they are still right.
		early := a.again && (a.ticks == 0 || a.waiting())
		if len(a.view.Nodes) > 0 && !over && (early || a.medianError() >= a.cfg.Theta) {
			return nil, false
		}
	}
	return a.Conclude(now), true
}

// Conclude decides as after the last tick.
func (a *vivaldi) Conclude(time.Time) []Choice { return a.conclude(a.decide) }

func (a *vivaldi) decide() []Choice {
	converged := a.medianError() < a.cfg.Theta
	choices := make([]Choice, len(a.servers))
	for i, s := range a.servers {
		choices[i] = a.choose(s, converged)
		choices[i].Estimates = s.asked
		choices[i].Error = s.at.Coord.Error
	}
	return choices
}

// choose chooses the nearest node, or what Config.Unconverged says if the places are not exact enough.
func (a *vivaldi) choose(s *vivaldiServer, converged bool) Choice {
	is := "below"
	if !converged {
		is = "not below"
	}
	why := fmt.Sprintf("; median error %s %v after %d ticks", is, a.cfg.Theta, a.ticks)
	if s.at.Updates > 0 && (converged || s.at.Coord.Error < a.cfg.Theta) {
		return a.least(s, "least distance"+why)
	}
	why = ", not converged" + why
	if s.at.Updates > 0 && a.cfg.Unconverged == UnconvergedDistance {
		return a.least(s, "least distance"+why)
	}
	c, ok := Choice{}, false
	if a.cfg.Unconverged == UnconvergedGeographic {
		c, ok = nearestByGround(s.Server, a.view.Nodes)
	}
	if !ok {
		c = draw(s.Server, ids(a.view.Nodes))
	}
	c.Reason += why
	return c
}

// least chooses the node at the least distance.
func (a *vivaldi) least(s *vivaldiServer, reason string) Choice {
	c := Choice{Server: s.Addr, PredictedMs: math.Inf(1), Reason: reason}
	for _, n := range a.view.Nodes {
		if d := ncoord.Distance(n.Coord, s.at.Coord); d < c.PredictedMs {
			c.Node, c.PredictedMs = n.ID, d
		}
	}
	return c
}

// Proxy is a proxy coordinate: a server's place in the space of the nodes' coordinates, as in the method of 2009. Whole download times
// move it, since the server itself takes no part (F. Dabek et al.: Vivaldi, 2004, with height vectors). The zero value is no place.
type Proxy struct {
	// Coord is the place; its Error is the moving average of |time − distance| / time.
	Coord ncoord.Coordinate
	// Updates is the number of downloads that have moved it.
	Updates int
}

// move moves the place by a download that took t ms at a node at from. The first download sets the place to that node's.
func (p *Proxy) move(cfg VivaldiConfig, from ncoord.Coordinate, t float64, rnd *rand.Rand) {
	if p.Updates == 0 {
		p.Coord = ncoord.Coordinate{Vec: from.Vec, Error: 1}
	}
	p.Updates++
	w := p.Coord.Error / (p.Coord.Error + max(from.Error, 0.01))
	d := ncoord.Distance(from, p.Coord)
	force := cfg.Step * w * (t - d)
	// In Vivaldi's height model, heights add to the length, and a force away from the node raises the height.
	dir, flat := away(from.Vec, p.Coord.Vec, rnd)
	length := flat + from.Height + p.Coord.Height
	for i := range dir {
		p.Coord.Vec[i] += force * dir[i] / length
	}
	p.Coord.Height = max(0, p.Coord.Height+force*(from.Height+p.Coord.Height)/length)
	p.Coord.Error += cfg.Smoothing * w * (math.Abs(t-d)/t - p.Coord.Error)
	p.Coord.Error = max(0.001, min(p.Coord.Error, ncoord.MaxError))
}

// away returns the vector between two places and its length. If they coincide, it has a random direction and the length 1.
func away(from, to [ncoord.MaxDims]float64, rnd *rand.Rand) (dir [ncoord.MaxDims]float64, flat float64) {
	for i := range dir {
		dir[i] = to[i] - from[i]
		flat += dir[i] * dir[i]
	}
	if flat = math.Sqrt(flat); flat >= 1e-6 {
		return dir, flat
	}
	flat = 0
	for i := range dir {
		dir[i] = rnd.NormFloat64()
		flat += dir[i] * dir[i]
	}
	flat = math.Sqrt(flat)
	for i := range dir {
		dir[i] /= flat
	}
	return dir, 1
}
