package node_test

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// A host that was given up stays so when it moves to another node, as its owner is drained or dies: a link to it is refused there, and nobody
// asks its server again.
func TestOverlayGiveUpMoves(t *testing.T) {
	const perSite, which = 250, 3
	for _, drained := range []bool{true, false} {
		t.Run(fmt.Sprintf("drained %v", drained), func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) {
					c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 5*time.Second
					c.Politeness.RetryConnect = []time.Duration{10 * time.Second}
				}
				b.sitesBeside(8, perSite, 1)
				site, server, tries := b.sites[which], netip.MustParseAddr(address(which)), new(atomic.Int64)
				b.barred = func(_ int, to netip.Addr) bool {
					if to == server {
						tries.Add(1)
					}
					return to == server
				}
				b.startAll(2 * time.Second)
				b.await("it is given up", time.Hour, func() bool {
					before := tries.Load()
					time.Sleep(2 * time.Minute)
					return before > 0 && tries.Load() == before
				})
				owner, before := b.ownerOf(site), tries.Load()
				if drained {
					must(b.t, b.operator(owner).Drain("ann"))
					b.awaitDrained(owner)
				} else {
					b.kill(owner)
				}
				moved := func(n *bedNode) bool { return !n.dead.Load() && n.node.Owns("http://"+site) }
				b.await("another owner", 10*time.Minute, func() bool { return slices.ContainsFunc(b.nodes, moved) })
				time.Sleep(time.Minute)
				for i, n := range b.nodes {
					if !n.dead.Load() {
						_, err := b.operator(i).AddSeeds(b.t.Context(), seeds(t, "http://"+site+"/new"), "ann")
						must(b.t, err)
					}
				}
				if time.Sleep(5 * time.Minute); tries.Load() != before {
					t.Errorf("%d tries at its new owner", tries.Load()-before)
				}
				b.sites = slices.Delete(b.sites, which, which+1)
				b.awaitEnd(3 * time.Hour)
				b.complete(perSite, true)
			})
		})
	}
}
