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
				c.mates[at].rounds.met = 0
			})
			c.endsBy(within)
		})
	}
}

// A newcomer hears that all expected nodes have been there while everybody is busy, so that it still knows when the last one that saw them is
// gone for good.
func TestBusyNewcomerHearsWhoWasThere(t *testing.T) {
	for _, founder := range []int{0, 1} { // the one that asks, or the one that does not
		withCrew(t, 3, 3, func(_ *testing.T, c *crew) {
			c.idle(false, 0, 1)
			time.Sleep(10*every + every/2)
			c.set(func() {
				c.mates[2].gone = true
				r := c.mates[1-founder].rounds
				r.mu.Lock()
				defer r.mu.Unlock()
				r.met = 0
			})
			time.Sleep(2 * probeEvery)
			c.set(func() { c.mates[founder].gone, c.mates[founder].dead = true, true })
			c.idle(true, 1-founder)
			c.endsBy(5 * every)
		})
	}
}

// Where nodes differ in how many they expect, the crawl does not end before as many were there as the one with the largest number expects.
func TestLargestExpectationCounts(t *testing.T) {
	withCrew(t, 1, 1, func(_ *testing.T, c *crew) {
		c.idle(false, 0)
		c.cfg.ExpectedNodes = 3
		c.join()
		time.Sleep(2 * probeEvery)
		c.idle(true, 0)
		c.goesOn(2 * probeEvery)
		c.join()
		c.endsBy(5 * every)
	})
}
