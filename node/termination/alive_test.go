package termination

import (
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// TestWhoAnswersCounts has a node come back that is not settled yet and has much to do: nobody ends without it, and it
// hears of the end.
func TestWhoAnswersCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 2)
		c.set(func() {
			c.view = func(_ string, v view.View) view.View {
				v.Alive = v.Settled
				if len(v.Settled) == 3 {
					v.Settled = v.Settled[:2]
				}
				return v
			}
			c.mates[2].state.Idle = false
		})
		c.goesOn(time.Minute)
		c.set(func() { c.mates[2].state.Idle = true })
		c.endsBy(3 * every)
	})
}
