package ncoord

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	minError = 0.01 // what a node believes of itself at best
	// A node has jumped when its error is so many times that of its calm time, and so much more: one liar among many
	// peers does not do that.
	jumpTimes, jumpMore = 2, 0.2
	// jumpError is the error of a node that has jumped, at least.
	jumpError = 0.5
	// calmStep is the share by which the calm error follows a rising one: slower than a jump, faster than the seasons.
	calmStep = 0.001
	// gravityEvery is how many samples' gravity is taken at once: it is slow, and takes a root.
	gravityEvery = 16
	// delaySamples is how many samples a link needs before its floor is known well enough to tell delays.
	delaySamples = 4
)

// Node is the state of one node: its place, and what it remembers of its peers. Not safe for concurrent use; time and
// randomness are arguments. The memory it takes is bounded.
type Node struct {
	rnd   *rand.Rand
	coord Coordinate

	at     Location
	placed bool // at is known

	links   links
	base    time.Time // the node's own time counts from here
	samples int       // since the start or the last jump
	jumps   int
	calm    float64 // the error of better times

	delays    delays
	load      load
	energy    energy
	fresh     bool       // moved since Publish
	settled   Coordinate // as last published, without load
	published Coordinate
}

// NewNode gives a node that knows nothing of its place yet. rnd belongs to the node from now on.
func NewNode(rnd *rand.Rand) *Node {
	start := Coordinate{Height: heightStart, Error: MaxError}
	return &Node{rnd: rnd, coord: start, settled: start, published: start, calm: MaxError,
		links: links{index: map[string]int{}}}
}

// Observe moves the node by one round trip to a peer. remote is the peer's moving coordinate as of then
// (Node.Coordinate, not the published one: load in a height would push all others away), remoteAt its location, nil if
// unknown. It allocates nothing for a peer that it knows. Its error, a Refusal, says why a sample moved nothing.
func (n *Node) Observe(peer string, remote Coordinate, remoteAt *Location, rtt time.Duration, now time.Time) error {
	switch {
	case peer == "":
		return BadPeer
	case rtt <= 0 || rtt > maxRTT:
		return BadRTT
	case !remote.valid():
		return BadCoordinate
	}
	raw := float64(rtt) / float64(time.Millisecond)
	l := n.links.find(peer)
	if n.placed && remoteAt != nil && remoteAt.Valid() && raw < n.leastMs(l, *remoteAt) {
		return FasterThanLight
	}
	if l == nil {
		l = n.links.add(peer, n.rnd)
	}
	if n.base.IsZero() {
		n.base = now
	}
	at := int64(now.Sub(n.base))
	l.filter.add(raw, at)
	if ms := max(l.filter.percentile(percentile), floorMs); ms != l.ms {
		l.ms, l.weight = ms, near(ms) // a root, and the percentile mostly stays
	}
	l.remote, l.used = remote, at
	if l.filter.n >= delaySamples {
		n.delays.add(raw - l.ms)
	}
	n.move(l, at)
	return nil
}

// leastMs is the shortest round trip believed to a location, in ms.
func (n *Node) leastMs(l *link, to Location) float64 {
	if l == nil {
		return lightMsWithin(n.at, to)
	}
	return l.light.between(n.at, to)
}

// move lets a link just measured, and a few remembered, pull the node.
func (n *Node) move(l *link, now int64) {
	core := planar(&n.coord, &l.remote)
	off := surprise(core+n.coord.Height+l.remote.Height, l.ms)
	step := step(n.samples)
	trust := trust(n.coord.Error, l.remote.Error)
	n.coord.Error += step * trust * (off - n.coord.Error)
	if n.coord.Error < minError {
		n.coord.Error = minError
	}
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
	n.fresh = true
}

// recall lets a neighbour drawn from memory pull, by less the longer ago it was measured; not the one just measured.
func (n *Node) recall(but *link, step float64, now int64) {
	l := &n.links.all[n.rnd.IntN(len(n.links.all))]
	fresh := 1 - float64(now-l.used)/float64(neighbourTTL)
	if l == but || fresh <= 0 {
		return
	}
	gain := step * trust(n.coord.Error, l.remote.Error) * l.weight * min(fresh, 1)
	pull(&n.coord, &l.remote, planar(&n.coord, &l.remote), l.ms, gain, n.rnd)
}

// watch restores the timestep of a node whose predictions begin to fail: it has moved, or the network has.
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
		n.jumps++
	}
}

// Coordinate is the moving coordinate, without load: what peers that measure a round trip are to be told.
func (n *Node) Coordinate() Coordinate { return n.coord }

// Jumps is how often the node found itself elsewhere than it thought.
func (n *Node) Jumps() int { return n.jumps }

// Links is the number of peers remembered.
func (n *Node) Links() int { return len(n.links.all) }

// Delay is how much longer round trips take now than their links' low percentile, in ms: the median over the last
// few, whatever the peer, so that it tells of this node and not of one of them. A delay that stays becomes part of the
// coordinate as the filters turn over, and leaves Delay as it does: it counts once.
func (n *Node) Delay() float64 { return n.delays.median() }

// SetLoad sets the wait to expect in this node, in ms: its queue, and Delay. It adds to the published height, and only
// there: at once where it rises, slowly where it falls. What is not a number or negative counts as 0.
func (n *Node) SetLoad(ms float64, now time.Time) {
	if !(ms > 0) {
		ms = 0
	}
	n.load.set(min(ms, MaxComponent), now)
}

// SetLocation sets where the node is; nil or a place not on Earth is unknown.
func (n *Node) SetLocation(at *Location) {
	n.at, n.placed = Location{}, false
	if at != nil && at.Valid() {
		n.at, n.placed = *at, true
	}
}

// Publish looks whether the node has moved, become surer of its place or changed its load enough to tell others, and
// says so. Call it at will; it costs some microseconds after a move.
func (n *Node) Publish(now time.Time) (c Coordinate, changed bool) {
	if n.fresh {
		n.fresh = false
		changed = n.settle()
	}
	n.load.settle(now)
	if n.load.show() {
		changed = true
	}
	if changed {
		n.published = n.settled
		n.published.Height = min(n.settled.Height+n.load.shown, MaxComponent)
	}
	return n.published, changed
}

// settle finds out whether the place without load is worth publishing, and takes it over.
func (n *Node) settle() bool {
	old := n.settled
	if !n.energy.full() {
		// Too early to tell noise from moves: everything that would show in a choice is published.
		step := planar(&old, &n.coord) + math.Abs(old.Height-n.coord.Height)
		if step <= energyMs/4 && math.Abs(old.Error-n.coord.Error) <= 0.1 {
			return false
		}
		n.settled = n.coord
		return true
	}
	moved := n.energy.distance() > energyMs
	if moved {
		n.energy.restart()
		n.energy.centre(&n.settled)
	}
	if math.Abs(old.Error-n.coord.Error) > max(0.05, 0.25*old.Error) {
		n.settled.Error = n.coord.Error
		moved = true
	}
	return moved
}

// Published is the coordinate that Publish last gave: what choices are made by.
func (n *Node) Published() Coordinate { return n.published }

// Forget drops all that is known of a peer.
func (n *Node) Forget(peer string) { n.links.remove(peer) }
