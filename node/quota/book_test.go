package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What a node was granted while others were down or had just come back is known when it is down itself.
func TestGrantsOutliveTheKeeper(t *testing.T) {
	for first := range 3 {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := newWorld(t, 1, 3, Limits{MaxPages: 6000})
			w.calm = true
			pass := func(seconds int) {
				for range seconds {
					w.look()
					time.Sleep(time.Second)
				}
			}
			for _, f := range w.nodes {
				f.work = 6000
				f.start(ctx)
			}
			pass(8)
			a, b, c := w.nodes[first], w.nodes[(first+1)%3], w.nodes[(first+2)%3]
			b.kill()
			c.kill()
			pass(40) // a counts alone
			b.start(ctx)
			pass(18) // a and b are the majority, and b does not count yet
			a.kill()
			c.start(ctx)
			pass(300)
			w.mu.Lock()
			if b.ended != "max_pages" || c.ended != "max_pages" {
				t.Errorf("they have ended by %q and %q", b.ended, c.ended)
			}
			w.mu.Unlock()
			stop()
			time.Sleep(4 * askPatience) // calls under way
		})
	}
}

// A node that was away while pages were granted is told of them when it is back, even if nothing is asked for any more.
func TestWhoComesBackIsTold(t *testing.T) {
	for away := range 3 {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := newWorld(t, 1, 3, Limits{MaxPages: 6000})
			w.calm = true
			pass := func(seconds int) {
				for range seconds {
					w.look()
					time.Sleep(time.Second)
				}
			}
			for _, f := range w.nodes {
				f.work = 100
				f.start(ctx)
			}
			pass(15)
			f := w.nodes[away]
			f.stop()
			w.mu.Lock()
			for _, f := range w.nodes {
				f.work = 300
			}
			f.work = 0
			w.mu.Unlock()
			pass(40)
			f.start(ctx)
			pass(40)
			books := map[string]bool{}
			for _, f := range w.nodes {
				res, err := f.quota.promise(0)
				if err != nil {
					t.Fatal(err)
				}
				books[fmt.Sprint(res.GetBook().GetEntries())] = true
			}
			if len(books) != 1 {
				t.Errorf("node %d was away: %v", away, slices.Collect(maps.Keys(books)))
			}
			stop()
			time.Sleep(4 * askPatience) // calls under way
		})
	}
}

// Nodes that join know what was granted before, even if nothing is granted between then and the time when they are cut off from the others.
func TestNewcomersKnowWhatIsGranted(t *testing.T) {
	for salt := range 8 { // the keeper is one of the first three, or of those that come
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			w := newWorld(t, 1, 0, Limits{MaxPages: 100})
			w.begun = 3
			w.calm = true
			pass := func() {
				for range 30 {
					w.look()
					time.Sleep(time.Second)
				}
			}
			come := func(n int, work int64) {
				w.join(n)
				for i, f := range w.nodes[len(w.nodes)-n:] {
					f.id = fmt.Sprintf("%030x%02x", salt, len(w.nodes)-n+i)
				}
				w.nodes[len(w.nodes)-n].work = work
				for _, f := range w.nodes[len(w.nodes)-n:] {
					f.start(ctx)
				}
				pass()
			}
			come(3, 60)
			come(4, 0)
			w.mu.Lock()
			for i, f := range w.nodes[3:] {
				w.side[3+i], f.work = 1, 100
			}
			w.mu.Unlock()
			pass()
			w.mu.Lock()
			if w.asked < 70 {
				t.Errorf("the newcomers are a majority, and have asked for %d pages", w.asked-60)
			}
			w.mu.Unlock()
			stop()
			time.Sleep(4 * askPatience) // calls under way
		})
	}
}
