package node_test

import (
	"os"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// Nodes that were killed go on where they were, whatever their clocks say in their next lives. Every bubble begins at one moment. So the second
// life begins before the first if its nodes wait for a shorter time.
func TestOverlayClocksSetBetweenLives(t *testing.T) {
	const day, perSite = 24 * time.Hour, 40
	for what, begin := range map[string][2]time.Duration{"back by a day": {day, 0}, "back by years": {3000 * day, 0}, "forward by years": {0, 3000 * day}} {
		t.Run(what, func(t *testing.T) {
			kept, got, robots := t.TempDir(), map[string]int{}, []Visit(nil)
			for life, at := range begin {
				inBed(t, square(), func(b *bed) {
					time.Sleep(at)
					b.cfg = func(_ int, c *node.Config) { c.Crawl.MaxPages = 2000 }                   // what four nodes were granted when they died counts as asked for
					b.seeds = func(i int) []string { return map[int][]string{0: b.fronts()}[i+life] } // in the first life only
					b.sitesBeside(8, perSite, 1000)
					if life == 1 {
						b.known = robots
						must(t, os.RemoveAll(b.dir))
						must(t, os.CopyFS(b.dir, os.DirFS(kept)))
						must(t, os.Chmod(b.secret, 0o600))
					}
					b.startAll(time.Second)
					if life == 0 {
						b.awaitPages(8 * perSite / 2)
						for i := range b.nodes {
							b.kill(i)
						}
						must(t, os.CopyFS(kept, os.DirFS(b.dir)))
						got = b.got()
						for _, s := range b.sites {
							robots = append(robots, Visit{Scheme: "http", Site: s, Path: "/robots.txt", Start: b.began, End: b.began})
						}
						return
					}
					b.awaitEnd(10 * time.Minute)
					again := 0
					for page, n := range b.got() {
						if got[page] += n; got[page] > 1 {
							again++
						}
					}
					if len(got) != 8*(perSite+1) || again > 16 {
						t.Errorf("%d pages were downloaded, %d of them in both lives", len(got), again)
					}
				})
			}
		})
	}
}

// The wall clocks of running nodes are set by hours, to and fro, and again before the node has its leases back. Such a node asks nobody for some
// seconds, and loses no host; the others do not notice.
func TestOverlayClocksSetWhileRunning(t *testing.T) {
	for what, steps := range map[string][]time.Duration{
		"forward, twice": {5 * time.Hour, 3 * time.Hour},
		"back, twice":    {-5 * time.Hour, -3 * time.Hour},
		"to and fro":     {5 * time.Hour, -5 * time.Hour, -2 * time.Hour, 2 * time.Hour},
	} {
		t.Run(what, func(t *testing.T) {
			inBed(t, square(), func(b *bed) {
				const perSite = 100
				b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 2*time.Second }
				b.sitesBeside(8, perSite, 1000)
				b.startAll(2 * time.Second)
				b.calm()
				began := time.Now()
				for i, n := range b.nodes {
					for k, step := range steps {
						n.jump.Add(int64(step))
						time.Sleep(time.Duration(1+i*k) * 700 * time.Millisecond)
					}
				}
				b.awaitEnd(time.Hour)
				if again := b.complete(perSite, true); again > len(b.sites) {
					t.Errorf("%d pages came again", again)
				}
				for _, s := range b.sites {
					if pause, moves := b.longestPause(s, began), len(b.by(s, began)); pause > 30*time.Second || moves > 1 {
						t.Errorf("%s paused for %v, and was crawled by %v", s, pause, b.by(s, began))
					}
				}
			})
		})
	}
}
