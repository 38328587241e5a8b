package ncoord

import "math/rand/v2"

// Proxy is a server's place, moved on its behalf by the samples of nodes: the server itself takes no part. It is a
// plain value; copy it freely. Not safe for concurrent use.
type Proxy struct {
	// Coord is the server's place; its Error is the moving average of |sample − distance| / sample.
	Coord Coordinate
	// Updates is how many samples have moved it.
	Updates int
}

// NewProxy gives the place of a server of which nothing is known: the origin.
func NewProxy() Proxy { return Proxy{Coord: Coordinate{Error: MaxError}} }

// Observe moves the proxy by one sample: ms of round trip between the node at from and the server, filtered or not. It
// allocates nothing. Its error, a Refusal, says why a sample moved nothing. rnd may be nil: then a server that
// coincides with a node leaves it in a direction of its own.
func (p *Proxy) Observe(from Coordinate, ms float64, rnd *rand.Rand) error {
	switch {
	case !(ms > 0 && ms*1e6 <= float64(maxRTT)):
		return BadRTT
	case !from.valid():
		return BadCoordinate
	}
	ms = max(ms, floorMs)
	if !p.Coord.valid() {
		*p = NewProxy() // the zero value, or what a disk or a peer made of it
	}
	if p.Updates == 0 && p.Coord.Height == 0 {
		p.Coord.Height = heightStart
	}
	step := step(p.Updates)
	weight := trust(p.Coord.Error, from.Error)
	p.Coord.Error += step * weight * (surprise(planar(&p.Coord, &from)+p.Coord.Height+from.Height, ms) - p.Coord.Error)
	p.Coord.Error = max(minError, p.Coord.Error)
	if rnd == nil && planar(&p.Coord, &from) < coincide {
		p.Coord.Vec[p.Updates%MaxDims] += 2 * coincide
	}
	pull(&p.Coord, &from, planar(&p.Coord, &from), ms, step*weight*near(ms), rnd)
	gravity(&p.Coord, 1)
	p.Updates++
	return nil
}
