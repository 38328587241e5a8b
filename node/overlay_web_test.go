package node_test

import (
	"fmt"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/placement"
)

// A node that has been without the web for long hands its hosts to the others, who crawl them, and takes a single one. When that shows it that the
// web is back, it takes others, too. If it never is, the crawl ends all the same.
func TestOverlayWithoutWeb(t *testing.T) {
	const perSite, without = 90, 1
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprint(again), func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 15*time.Second }
				b.sitesBeside(15, perSite, 1)
				b.startAll(2 * time.Second)
				b.awaitPages(50)
				b.Cut(b.name(without), true)
				time.Sleep(15 * time.Minute)
				for _, site := range b.sites {
					if all := b.pagesOf(site); time.Since(all[len(all)-1].Start) > 3*time.Minute {
						t.Errorf("%s had no page for %v", site, time.Since(all[len(all)-1].Start))
					}
				}
				if again {
					b.Cut(b.name(without), false)
					for _, site := range b.sites[:2] {
						if _, err := b.operator(b.ownerOf(site)).Move(b.t.Context(), site, netsim.ID(without), "ann"); err != nil {
							t.Error(err)
						}
						b.await("it crawls "+site, time.Minute, func() bool { return b.by(site, time.Now().Add(-time.Minute))[b.name(without)] > 0 })
						time.Sleep(time.Minute) // until it takes all
					}
				}
				b.awaitEnd(3 * time.Hour)
				b.complete(perSite, true)
			})
		})
	}
}
