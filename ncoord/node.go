// Package ncoord owns network coordinates: the place of a node and, on its behalf, of a server, in a space whose distances predict
// round trips. It filters round trips, moves coordinates by them (Vivaldi, Dabek et al., SIGCOMM 2004, with the repairs of Ledlie et
// al., "Network Coordinates in the Wild", NSDI 2007), refuses impossible samples, and says when a coordinate is worth publishing.
//
// It does not own how round trips are measured, how coordinates travel, who is chosen by them, or how locations are found. It is pure:
// no I/O, locks, goroutines or clocks; time and randomness are arguments.
package ncoord

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

const (
	minError = 0.01 // a node never claims a smaller error
	// A node has jumped when its error exceeds jumpTimes its calm error plus jumpMore. One liar among many peers cannot cause that.
	jumpTimes, jumpMore = 2, 0.2
	// jumpError is the least error of a node that has jumped.
	jumpError = 0.5
	// calmStep is the share of the difference by which the calm error follows a rising one: slower than a jump.
	calmStep = 0.001
	// gravityEvery is how many samples share one computation of gravity, which takes a root.
	gravityEvery = 16
	// delaySamples is how many samples a link needs before delays above its percentile mean anything.
	delaySamples = 4
)

// Node is the state of one node: its place, and what it remembers of its peers. It is not safe for concurrent use. Its memory is
// bounded.
type Node struct {
	rnd   *rand.Rand
	coord Coordinate

	at *Location // nil if unknown

	links   links
	base    time.Time // start of the node's own time
	samples int       // since the start or the last jump
	calm    float64   // the error while predictions hold

	delays  delays
	load    load
	energy  energy
	settled Coordinate // as last published, without load
}

// NewNode returns a node that knows nothing of its place yet. It keeps rnd to itself.
func NewNode(rnd *rand.Rand) *Node {
	start := Coordinate{Height: heightStart, Error: MaxError}
	return &Node{rnd: rnd, coord: start, settled: start, calm: MaxError,
		links: links{index: map[string]int{}}}
}

// The reasons why Observe refuses a sample.
var (
	ErrPeer            = errors.New("peer without a name")
	ErrRTT             = errors.New("round trip out of range") // not positive, or above maxRTT
	ErrCoordinate      = errors.New("coordinate out of range") // see Coordinate.Check
	ErrFasterThanLight = errors.New("round trip faster than light")
)

// Observe moves the node by one round trip to a peer. remote is the peer's moving coordinate at that time (Node.Coordinate, not the
// published one, whose load would push all others away); remoteAt is its location, nil if unknown. It allocates nothing for a known
// peer. If it refuses the sample, the error says why and nothing moves.
func (n *Node) Observe(peer string, remote Coordinate, remoteAt *Location, rtt time.Duration, now time.Time) error {
	switch {
	case peer == "":
		return ErrPeer
	case rtt <= 0 || rtt > maxRTT:
		return ErrRTT
	case !remote.valid():
		return ErrCoordinate
	}
	raw := float64(rtt) / float64(time.Millisecond)
	if n.at != nil && remoteAt != nil && remoteAt.Valid() && raw < lightMsWithin(*n.at, *remoteAt) {
		return ErrFasterThanLight
	}
	l := n.links.find(peer)
	if l == nil {
		l = n.links.add(peer, n.rnd)
	}
	if n.base.IsZero() {
		n.base = now
	}
	at := int64(now.Sub(n.base))
	l.filter.add(raw, at)
	if ms := max(l.filter.percentile(percentile), floorMs); ms != l.ms {
		l.ms, l.weight = ms, near(ms) // near takes a root, and the percentile seldom changes
	}
	l.remote, l.used = remote, at
	if l.filter.n >= delaySamples {
		n.delays.add(raw - l.ms)
	}
	n.move(l, at)
	return nil
}

// move lets the link just measured, and a few remembered ones, pull the node.
func (n *Node) move(l *link, now int64) {
	core := planar(&n.coord, &l.remote)
	off := surprise(core+n.coord.Height+l.remote.Height, l.ms)
	step := step(n.samples)
	trust := trust(n.coord.Error, l.remote.Error)
	n.coord.Error = max(n.coord.Error+step*trust*(off-n.coord.Error), minError)
	n.watch()
	pull(&n.coord, &l.remote, core, l.ms, step*trust*l.weight, n.rnd)
	n.samples++
	switch {
	case n.samples <= stepSamples:
		for range neighbours {
			n.recall(l, step, now)
		}
	case n.samples%recallEvery == 0:
		n.recall(l, step, now)
	}
	if n.samples%gravityEvery == 0 {
		gravity(&n.coord, gravityEvery)
	}
	n.energy.add(&n.coord)
}

// recall lets a random remembered neighbour pull, by less the longer ago it was measured. If it draws the link that was measured just now,
// nothing pulls.
func (n *Node) recall(measured *link, step float64, now int64) {
	l := &n.links.all[n.rnd.IntN(len(n.links.all))]
	fresh := 1 - float64(now-l.used)/float64(neighbourTTL)
	if l == measured || fresh <= 0 {
		return
	}
	gain := step * trust(n.coord.Error, l.remote.Error) * l.weight * min(fresh, 1)
	pull(&n.coord, &l.remote, planar(&n.coord, &l.remote), l.ms, gain, n.rnd)
}

// watch restores the timestep of a node whose predictions begin to fail: the node has moved, or the network has changed.
func (n *Node) watch() {
	e := n.coord.Error
	switch {
	case e <= n.calm:
		n.calm = e
	case e <= jumpTimes*n.calm+jumpMore:
		n.calm += calmStep * (e - n.calm)
	default:
		n.coord.Error = max(e, jumpError)
		n.calm = n.coord.Error
		n.samples = 0
	}
}

// Coordinate returns the moving coordinate, without load: tell it to peers that measure a round trip.
func (n *Node) Coordinate() Coordinate { return n.coord }

// Links returns the number of peers remembered.
func (n *Node) Links() int { return len(n.links.all) }

// Delay returns how much longer round trips take now than the low percentile of their links, in ms. It is the median over the last few,
// whatever the peer, so that it tells of this node and not of one peer. A delay that lasts moves from Delay into the coordinate as the
// filters turn over, so it counts once.
func (n *Node) Delay() float64 { return n.delays.median() }

// SetLoad sets the wait to expect in this node, in ms: its queue plus Delay. It adds to the published height only, at once if it rises
// and slowly if it falls. Negative numbers and NaN count as 0.
func (n *Node) SetLoad(ms float64, now time.Time) {
	if !(ms > 0) {
		ms = 0
	}
	n.load.set(min(ms, MaxComponent), now)
}

// SetLocation sets where the node is. nil or an invalid location means unknown.
func (n *Node) SetLocation(at *Location) {
	n.at = nil
	if at != nil && at.Valid() {
		n.at = new(*at)
	}
}

// Publish returns the coordinate to publish, and whether it has changed: because the node has moved, its error or its load has changed
// enough to tell others. It takes some microseconds.
func (n *Node) Publish(now time.Time) (c Coordinate, changed bool) {
	changed = n.settle()
	n.load.settle(now)
	if n.load.show() {
		changed = true
	}
	return n.Published(), changed
}

// settle takes over the place without load if it is worth publishing, and reports whether it is.
func (n *Node) settle() bool {
	old := n.settled
	if !n.energy.full() {
		// It is too early to tell noise from moves, so publish everything that might change a choice.
		step := planar(&old, &n.coord) + math.Abs(old.Height-n.coord.Height)
		if step <= energyMs/4 && math.Abs(old.Error-n.coord.Error) <= 0.1 {
			return false
		}
		n.settled = n.coord
		return true
	}
	moved := n.energy.distance() > energyMs
	if moved {
		n.energy.start = n.energy.recent
		n.energy.centre(&n.settled)
	}
	if math.Abs(old.Error-n.coord.Error) > max(0.05, 0.25*old.Error) {
		n.settled.Error = n.coord.Error
		moved = true
	}
	return moved
}

// Published returns the coordinate that Publish returned last. Choices are made by it.
func (n *Node) Published() Coordinate {
	c := n.settled
	c.Height = min(c.Height+n.load.shown, MaxComponent)
	return c
}

// Forget drops what is known of a peer.
func (n *Node) Forget(peer string) { n.links.remove(peer) }
