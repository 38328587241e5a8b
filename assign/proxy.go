package assign

import (
	"math"
	"math/rand/v2"

	"proxima/ncoord"
)

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
