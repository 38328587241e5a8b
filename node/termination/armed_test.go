package termination

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// A node that comes back when the others have ended and left ends as well, if its earlier life saw all expected nodes.
func TestArmedInAnEarlierLife(t *testing.T) {
	for _, armed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.ExpectedNodes = 3
			r := New(cfg, Deps{Armed: armed,
				Arm:   func() { t.Error("one node counts as three") },
				Ended: func(string) {},
				Waits: func(string) {},
				View:  func() view.View { return view.View{Self: "a", Settled: []string{"a"}, Majority: true} },
				State: func() State { return State{Idle: true, Seeded: true} }})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if over := r.Run(ctx); over != armed {
				t.Errorf("all expected nodes were there is %v, and it ended is %v", armed, over)
			}
		})
	}
}

// A node that has seen all expected nodes stays armed when some of them end and leave.
func TestArmedForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, 3, 3)
		c.set(func() {
			for _, m := range c.mates {
				m.state.Idle = false
			}
		})
		c.goesOn(3 * every)
		c.set(func() {
			c.mates[2].gone = true
			for _, m := range c.mates {
				m.state.Idle = true
			}
		})
		c.endsBy(10 * every) // a question to the one that left may still be out
	})
}
