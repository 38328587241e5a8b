package testbed

import (
	"math/rand/v2"
	"time"
)

// slice is the time in which a node with a share of the processor runs once and is stopped once, in the mean.
const slice = 100 * time.Millisecond

// duty deals out the turns of a node that has a share of the processor. Running and stopping last for exponential times: with
// turns of one length, whatever a node does after it was stopped falls into step with them, so that a download costs one
// stop or two, whatever its way. Not safe for concurrent use.
type duty struct{ rnd *rand.Rand }

func newDuty(seed uint64) duty { return duty{rand.New(rand.NewPCG(seed, seed))} }

// turn is for how long the node runs, and is stopped then.
func (d duty) turn(share float64) (run, stopped time.Duration) {
	some := func(share float64) time.Duration { return time.Duration(d.rnd.ExpFloat64() * share * float64(slice)) }
	return some(share), some(1 - share)
}

// loadMs is what a share of the processor adds to a download, in ms. Whatever arrives while the node is stopped, which happens
// with the probability 1−share, waits for what is left of the stop, a whole one in the mean as these times have no memory. On a
// fresh connection two such waits count: that the connection stands, which holds back the request, and the last byte. The
// first byte's does not, as the kernel takes the rest in meanwhile.
func loadMs(share float64) float64 {
	stop := (1 - share) * float64(slice.Milliseconds())
	return 2 * (1 - share) * stop
}
