package termination

import (
	"testing"
	"time"
)

// A node that has lost its disk hears from the others that all expected nodes have been there, though one of them is gone for good.
func TestErasedNodeHearsWhoWasThere(t *testing.T) {
	// One that is asked hears it at once; one that asks when another makes sure that it is there.
	for at, within := range map[int]time.Duration{0: probeEvery + 5*every, 2: 5 * every} {
		withCrew(t, 3, 3, func(_ *testing.T, c *crew) {
			c.set(func() { c.mates[1].state.Idle = false })
			time.Sleep(10*every + every/2) // nobody is asking
			c.set(func() {
				c.mates[1].gone = true
				c.mates[at].rounds.mu.Lock()
				defer c.mates[at].rounds.mu.Unlock()
				c.mates[at].rounds.armed, c.mates[at].rounds.met = false, false
			})
			c.endsBy(within)
		})
	}
}
