package node_test

import (
	"fmt"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// limited is an overlay with far more pages than it may ask for.
func limited(t *testing.T, limit func(*node.Config), test func(b *bed)) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { limit(c) }
		b.sitesBeside(12, 100, 1000)
		b.startAll(2 * time.Second)
		test(b)
	})
}

// endBy waits until all nodes have ended for a reason.
func (b *bed) endBy(want string) {
	b.t.Helper()
	b.await("the end", 2*time.Hour, b.ended)
	for i, n := range b.nodes {
		if !n.dead.Load() && n.end.Reason != want {
			b.t.Errorf("%s ended by %q", b.name(i), n.end.Reason)
		}
	}
}

// The nodes of an overlay together ask for exactly as many pages as the limit says, and all end.
func TestOverlayAsksForAsManyPagesAsTheLimit(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxPages = 400 }, func(b *bed) {
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n != 400 {
			t.Errorf("%d pages are asked for, not 400", n)
		}
	})
}

// A node that crashes may have asked for what it was given: that counts. Nobody asks for more pages than the limit, and nobody waits for ever.
// Half of what is left stays with the keeper at each grant, so two crashes cost no more than half of all.
func TestOverlayKeepsItsLimitWhenNodesDie(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxPages = 600 }, func(b *bed) {
		for _, step := range []struct {
			pages, node int
			back        bool
		}{{100, 0, true}, {200, 1, false}} {
			b.awaitPages(step.pages)
			if b.kill(step.node); step.back {
				b.start(step.node)
			}
		}
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n > 600 || n < 300 {
			t.Errorf("%d pages are asked for, of 600", n)
		}
	})
}

// The overlay's bytes and time end the crawl at all nodes, those among them that have received little, or came late.
func TestOverlayEndsByBytesAndTime(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxBytes = 200_000 }, func(b *bed) {
		b.endBy("max_bytes")
		var sum int64
		for _, n := range b.nodes {
			sum += n.end.Bytes
		}
		if sum < 200_000 || sum > 300_000 {
			t.Errorf("%d bytes were received, of 200,000", sum)
		}
	})
	limited(t, func(c *node.Config) { c.Crawl.MaxTime = 2 * time.Minute }, func(b *bed) {
		b.awaitPages(10)
		b.kill(2)
		b.start(2)
		b.endBy("max_time")
		if took := time.Since(b.began); took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("the crawl took %v, not 2 minutes", took)
		}
	})
	limited(t, func(c *node.Config) { c.Crawl.MaxTime = 2 * time.Minute }, func(b *bed) {
		b.part([]int{2}, true)
		b.await("the end, also of a node that is cut off", 5*time.Minute, b.ended)
		b.endBy("max_time")
	})
}

// What may be asked for at one host counts wherever the host goes.
func TestOverlayKeepsTheLimitOfAHost(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxHostPages = 40 }, func(b *bed) {
		for i := range 3 {
			b.awaitPages(60 * (i + 1))
			b.kill(i)
			b.start(i)
		}
		b.awaitEnd(3 * time.Hour)
		for _, site := range b.sites {
			asked := map[string]bool{} // pages that a node had asked for just before it died are asked for again
			for _, v := range b.pagesOf(site) {
				asked[v.Path] = true
			}
			if n := len(asked); n < 40 || n > 42 {
				t.Errorf("%d pages of %s are asked for, not 40", n, site)
			}
		}
	})
}

// TestOverlayLimitWithoutRoom: the nodes that can write share all pages although one cannot, whether that one keeps the book or not.
func TestOverlayLimitWithoutRoom(t *testing.T) {
	for full := range 3 {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			withoutRoom(t, full, func(c *node.Config) { c.Crawl.MaxPages, c.Batch.Mode = 200, placement.ModeCrawl }, func(b *bed) {
				name := b.homed((full + 1) % 3)
				b.site(name, address(0), beside(b.nodes[0].at), 300, 1000)
				b.seeds = func(i int) []string {
					if i == full && full == 0 {
						return nil // it would own the host, as the first of all nodes
					}
					return []string{"http://" + name + "/"}
				}
				b.startAll(time.Second)
				b.await("all pages", 15*time.Minute, func() bool { return len(b.pagesOf(name)) == 200 })
				time.Sleep(time.Minute)
				if n := len(b.pagesOf(name)); n != 200 {
					t.Errorf("%d pages are asked for", n)
				}
			})
		})
	}
}
