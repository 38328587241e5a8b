package node_test

import (
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// A node that has been without the web for long hands its hosts to the others, who crawl them. When it has the web again, it gets hosts again where
// they are assigned anew from time to time. If it never has, the crawl ends all the same.
func TestOverlayWithoutWeb(t *testing.T) {
	const perSite = 300
	for _, again := range []bool{false, true} {
		for _, mode := range []string{placement.ModeCrawl, placement.ModeCycle} {
			t.Run(mode, func(t *testing.T) {
				inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
					b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = mode, 10*time.Second }
					b.sitesBeside(15, perSite, 1)
					b.startAll(2 * time.Second)
					b.awaitPages(50)
					b.Cut(b.name(1), true)
					time.Sleep(25 * time.Minute)
					for _, site := range b.sites {
						if since := time.Since(b.pagesOf(site)[len(b.pagesOf(site))-1].Start); since > 12*time.Minute {
							t.Errorf("%s had no page for %v", site, since)
						}
					}
					back := time.Now()
					if again {
						b.Cut(b.name(1), false)
					}
					b.awaitEnd(3 * time.Hour)
					b.complete(perSite, true)
					by := 0
					for _, site := range b.sites {
						by += b.by(site, back)[b.name(1)]
					}
					if want := again && mode == placement.ModeCycle; (by > perSite/10) != want {
						t.Errorf("it crawled %d pages after 25 minutes, and the web is back: %v", by, again)
					}
				})
			})
		}
	}
}
