package quota

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The pages that a node gives back when it leaves for good are asked for by others, whether it keeps the book or not.
func TestWhoLeavesGivesBack(t *testing.T) {
	for at := range 3 {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := newWorld(t, 1, 3, Limits{MaxPages: 2000})
			w.calm = true
			for _, f := range w.nodes {
				f.work = 2000
				f.start(ctx)
			}
			pass := func(seconds int) {
				for range seconds {
					w.look()
					time.Sleep(time.Second)
				}
			}
			pass(8)
			f := w.nodes[at]
			w.mu.Lock()
			f.work = 0
			w.mu.Unlock()
			pass(2)
			began := time.Now()
			f.quota.Leave(ctx)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			f.stop()
			pass(100)
			w.mu.Lock()
			if w.asked != w.limits.MaxPages {
				t.Errorf("node %d has left: %d pages are asked for", at, w.asked)
			}
			w.mu.Unlock()
			stop()
			time.Sleep(4 * askPatience) // calls under way
		})
	}
}
