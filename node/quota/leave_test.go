package quota

import (
	"context"
	"testing"
	"time"
)

// The pages that a node gives back when it leaves for good are asked for by others, whether it keeps the book or not.
func TestWhoLeavesGivesBack(t *testing.T) {
	for n := range 6 {
		at, wants := n/2, n%2 == 1
		calmly(t, 3, Limits{MaxPages: 2000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 2000)
			w.pass(8)
			f := w.nodes[at]
			w.mu.Lock()
			if !wants {
				f.work = 0
			}
			w.mu.Unlock()
			w.pass(2)
			began := time.Now()
			f.quota.Leave(ctx)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			f.stop()
			w.pass(100)
			w.mu.Lock()
			if w.asked != w.limits.MaxPages {
				t.Errorf("node %d has left, with work %v: %d pages are asked for", at, wants, w.asked)
			}
			w.mu.Unlock()
		})
	}
}
