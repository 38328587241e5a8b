package termination

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The node that waits and the node that asks each tell a reason once, even if the numbers in it change.
func TestReasonIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 2, 2)
		busy := func(why string) {
			c.set(func() { c.mates[1].state.Idle, c.mates[1].state.Why = why == "", why })
		}
		time.Sleep(every / 2) // between two rounds
		for _, why := range []string{"it has pages to download", "7 links wait for other nodes", "it has pages to download"} {
			busy(why)
			time.Sleep(every)
		}
		for _, why := range []string{"8 links wait for other nodes", "5 links wait for other nodes", "3 links wait for other nodes"} {
			busy(why)
			time.Sleep(4 * every)
		}
		busy("")
		time.Sleep(10 * every)
		c.mu.Lock()
		defer c.mu.Unlock()
		if got := c.mates[1].told; !slices.Equal(got, []string{"8 links wait for other nodes"}) {
			t.Errorf("the node that waits told %q", got)
		}
		if got := c.mates[0].told; !slices.Equal(got, []string{c.mates[1].id + ": 8 links wait for other nodes"}) {
			t.Errorf("the node that asks told %q", got)
		}
		for _, m := range c.mates {
			if m.over.IsZero() {
				t.Error("it has not ended")
			}
		}
	})
}
