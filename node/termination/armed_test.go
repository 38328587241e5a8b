package termination

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
)

// TestArmedInAnEarlierLife lets a node come back when the others have finished and left: it ends if all were there once.
func TestArmedInAnEarlierLife(t *testing.T) {
	for _, armed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			cfg := Default()
			cfg.ExpectedNodes = 3
			told := 0
			self := "a"
			r := New(cfg, Deps{Armed: armed, Arm: func() { told++ },
				View:  func() view.View { return view.View{Self: self, Settled: []string{self}, Majority: true} },
				State: func() State { return State{Idle: true, Seeded: true} }})
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
			select {
			case <-r.Over():
				if !armed {
					t.Error("ended although the expected nodes were never there")
				}
			default:
				if armed {
					t.Error("goes on for ever")
				}
			}
			if told != 0 {
				t.Errorf("told %d times that all are there", told)
			}
		})
	}
}
