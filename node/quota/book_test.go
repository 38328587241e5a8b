package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// What a node was granted while others were down or had just come back is known when it is down itself.
func TestGrantsOutliveTheKeeper(t *testing.T) {
	for first := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 6000)
			w.pass(8)
			a, b, c := w.nodes[first], w.nodes[(first+1)%3], w.nodes[(first+2)%3]
			b.kill()
			c.kill()
			w.pass(40) // a counts alone
			b.start(ctx)
			w.pass(18) // a and b are the majority, and b does not count yet
			a.kill()
			c.start(ctx)
			w.pass(300)
			w.mu.Lock()
			if b.ended != "max_pages" || c.ended != "max_pages" {
				t.Errorf("they have ended by %q and %q", b.ended, c.ended)
			}
			w.mu.Unlock()
		})
	}
}

// A node that was away while pages were granted is told of them when it is back, even if nothing is asked for any more.
func TestWhoComesBackIsTold(t *testing.T) {
	for away := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 100)
			w.pass(15)
			f := w.nodes[away]
			f.stop()
			w.mu.Lock()
			for _, f := range w.nodes {
				f.work = 300
			}
			f.work = 0
			w.mu.Unlock()
			w.pass(40)
			f.start(ctx)
			w.pass(40)
			books := map[string]bool{}
			for _, f := range w.nodes {
				res, err := f.quota.agree(0, nil)
				if err != nil {
					t.Fatal(err)
				}
				books[fmt.Sprint(res.GetBook().GetEntries())] = true
			}
			if len(books) != 1 {
				t.Errorf("node %d was away: %v", away, slices.Collect(maps.Keys(books)))
			}
		})
	}
}

// Nodes that join know what was granted before, even if nothing is granted between then and the time when they are cut off from the others.
func TestNewcomersKnowWhatIsGranted(t *testing.T) {
	for salt := range 8 { // the keeper is one of the first three, or of those that come
		calmly(t, 0, Limits{MaxPages: 100}, func(ctx context.Context, t *testing.T, w *world) {
			w.begun = 3
			come := func(n int, work int64) {
				w.join(n)
				for i, f := range w.nodes[len(w.nodes)-n:] {
					f.id = fmt.Sprintf("%030x%02x", salt, len(w.nodes)-n+i)
				}
				w.nodes[len(w.nodes)-n].work = work
				for _, f := range w.nodes[len(w.nodes)-n:] {
					f.start(ctx)
				}
				w.pass(30)
			}
			come(3, 60)
			come(4, 0)
			w.mu.Lock()
			for i, f := range w.nodes[3:] {
				w.side[3+i], f.work = 1, 100
			}
			w.mu.Unlock()
			w.pass(30)
			w.mu.Lock()
			if w.asked < 70 {
				t.Errorf("the newcomers are a majority, and have asked for %d pages", w.asked-60)
			}
			w.mu.Unlock()
		})
	}
}
