package node_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
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

// barring fails a node's dials to the servers that are barred from it, like a firewall that rejects them.
func (b *bed) barring(i int, dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if b.barred != nil && b.barred(i, netip.MustParseAddrPort(address).Addr()) {
			return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
		}
		return dial(ctx, network, address)
	}
}

// A host that its owner alone cannot reach, from the start or any more, goes to another node, which crawls it. If none can reach it, two have
// tried when the crawl ends.
func TestOverlayServerOutOfReach(t *testing.T) {
	const perSite, which = 20, 3
	for _, later := range []bool{false, true} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("later %v, for all %v", later, all), func(t *testing.T) {
				inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
					b.cfg = func(_ int, c *node.Config) { c.Batch.Mode, c.Politeness.MinGap = placement.ModeCrawl, 5*time.Second }
					b.sitesBeside(10, perSite, 1)
					site, server := b.sites[which], netip.MustParseAddr(address(which))
					owner, barred, tried := b.homeOf(site), new(atomic.Bool), new(sync.Map)
					b.barred = func(i int, to netip.Addr) bool {
						if to != server || !barred.Load() || !all && i != owner {
							return false
						}
						tried.Store(i, true)
						return true
					}
					barred.Store(!later)
					b.startAll(2 * time.Second)
					if later {
						b.await("it is crawled", time.Hour, func() bool { return len(b.pagesOf(site)) > perSite/2 })
						barred.Store(true)
						b.Reset(b.name(owner))
					}
					b.await("all nodes end", 3*time.Hour, b.ended)
					if !all {
						b.complete(perSite, true)
					}
					nodes := 0
					tried.Range(func(any, any) bool { nodes++; return true })
					if want := map[bool]int{false: 1, true: 2}[all]; nodes != want {
						t.Errorf("%d nodes tried it in vain, want %d", nodes, want)
					}
				})
			})
		}
	}
}
