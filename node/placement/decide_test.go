package placement

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
)

func TestAssignerRestsAsLongAsItThought(t *testing.T) {
	for _, c := range []struct {
		thought, cut time.Duration
		answers      int
	}{
		{0, time.Hour, 0}, // on a fake clock thinking takes no time
		{10 * time.Millisecond, time.Hour, 90},
		{10 * time.Millisecond, 30 * time.Millisecond, 30},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(context.Background(), c.cut)
			defer stop()
			answers, over := make(chan assign.Result), make(chan struct{})
			defer close(over)
			go func() {
				for tick := time.Tick(time.Millisecond); ; {
					select {
					case <-over:
						return
					case <-tick:
					}
					select {
					case <-over:
						return
					case answers <- assign.Result{}:
					}
				}
			}()
			n := 0
			rest(ctx, c.thought, answers, func(assign.Result) { n++ })
			if n < c.answers-1 || n > c.answers {
				t.Errorf("after %v of thinking, cut after %v: %d answers taken in, want %d", c.thought, c.cut, n, c.answers)
			}
		})
	}
}
