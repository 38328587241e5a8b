package node_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/runlog"
)

// TestOverlayRecrawl: hosts take what is known of their pages along, to whom they are handed and who goes on after the
// owner's death; pages are visited again there, and none is new.
func TestOverlayRecrawl(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Recrawl.Enabled, c.Recrawl.Min, c.Recrawl.Max = true, 2*time.Minute, 4*time.Minute
		}
		const n = 10
		for home := range b.nodes {
			b.site(b.homed(home), address(home), beside(b.nodes[2].at), n, 500)
		}
		b.startAll(80 * time.Second)
		all := len(b.sites) * (n + 1)
		known := func() (pages int, visits uint64) {
			for _, n := range b.nodes {
				if n.node != nil && !n.dead.Load() {
					s := n.node.Status()
					pages, visits = pages+int(s.Frontier.Pages), visits+s.Frontier.Revisited
				}
			}
			return pages, visits
		}
		b.await("all pages known and visited again", 30*time.Minute, func() bool {
			pages, visits := known()
			return pages == all && visits > uint64(2*all)
		})
		victim := slices.MaxFunc([]int{1, 2, 3}, func(i, k int) int {
			return cmp.Compare(b.nodes[i].node.Status().Frontier.Pages, b.nodes[k].node.Status().Frontier.Pages)
		})
		if b.nodes[victim].node.Status().Frontier.Pages == 0 {
			t.Fatal("nobody has any to lose")
		}
		b.kill(victim)
		died := time.Now()
		b.await("all pages known elsewhere", 10*time.Minute, func() bool {
			pages, _ := known()
			return pages == all
		})
		time.Sleep(10 * time.Minute)
		revisits := map[string]int{}
		fresh := 0
		for i := range b.nodes {
			for _, f := range logged[runlog.Fetch](b, i, runlog.LogFetch) {
				if f.Kind != runlog.KindPage || f.Time.Before(died) || f.Batch != "" { // a batch times nodes with pages that are due
					continue
				}
				if f.Origin == runlog.OriginRevisit {
					revisits[f.URL]++
				} else {
					fresh++
				}
			}
		}
		if len(revisits) != all || fresh > len(b.sites) { // as new came what its replica had not been told yet
			t.Errorf("%d of %d pages were visited again after the death, and %d downloaded as new", len(revisits), all, fresh)
		}
	})
}
