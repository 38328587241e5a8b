package member

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"proxima/ncoord"
)

// locator keeps this node's own place, and what others were told of it. The lock of Members guards it, except for payload.
type locator struct {
	boot uint64
	// payload is the encoded answer to pings. It is ready-made because the pinging node measures how long it takes.
	payload atomic.Pointer[[]byte]

	node  *ncoord.Node
	place place // as last published in acks
}

func newLocator(boot uint64, at *ncoord.Location, rnd *rand.Rand) *locator {
	l := &locator{boot: boot, node: ncoord.NewNode(rnd)}
	l.node.SetLocation(at)
	l.place = place{rev: 1, coord: l.node.Published()}
	l.store()
	return l
}

// store encodes the payload.
func (l *locator) store() {
	b := encode(nil, ack{boot: l.boot, coord: l.node.Coordinate(), place: l.place})
	l.payload.Store(&b)
}

// publish adopts what the node wants to publish now. Some changes come with time alone, as of a load that fell long enough ago.
func (l *locator) publish(now time.Time) {
	l.node.SetLoad(l.place.factors.QueueMs+l.node.Delay(), now)
	if coord, changed := l.node.Publish(now); changed {
		l.place.coord = coord
		l.place.rev++
	}
	l.store()
}

// observe moves the node by a round trip to a peer at a known place.
func (l *locator) observe(id string, remote ncoord.Coordinate, at *ncoord.Location, rtt time.Duration, now time.Time) error {
	err := l.node.Observe(id, remote, at, rtt, now)
	if err == nil {
		l.publish(now)
	}
	return err
}

// near reports whether a place differs too little from what all were told for them to be told again.
func (p place) near(told place) bool {
	a, b := told.factors, p.factors
	return !moved(told.coord, p.coord) && !apart(a.LoadMs, b.LoadMs, 5) && !apart(a.BytesPerMs, b.BytesPerMs, 0) &&
		!apart(a.QueueMs, b.QueueMs, 50) && (a.Samples == 0) == (b.Samples == 0)
}

// moved reports whether two coordinates of a node differ enough to tell all: by more than 2 ms and a tenth of the
// distance from the origin (so that nodes in far corners do not chatter), or by more than a quarter in height or error.
func moved(a, b ncoord.Coordinate) bool {
	var step, far float64
	for i := range a.Vec {
		step += (a.Vec[i] - b.Vec[i]) * (a.Vec[i] - b.Vec[i])
		far += b.Vec[i] * b.Vec[i]
	}
	step = math.Sqrt(step) + math.Abs(a.Height-b.Height)
	return step > max(2, 0.1*math.Sqrt(far)) || apart(a.Height, b.Height, 2) || apart(a.Error, b.Error, 0.05)
}

// apart reports whether two values differ by more than a quarter of the larger, and by more than least.
func apart(a, b, least float64) bool {
	return math.Abs(a-b) > max(least, 0.25*max(a, b))
}
