package node_test

import (
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/runlog"
)

// TestOverlayFirstNode: where all nodes have one configuration, the first one has its own address to join. It begins as soon as one that has
// none, and looks for nobody.
func TestOverlayFirstNode(t *testing.T) {
	inBed(t, square()[:1], func(b *bed) {
		b.cfg = func(i int, c *node.Config) { c.Member.Join = []string{b.gossipAt(i)} }
		b.sitesBeside(1, 20, 1)
		b.start(0)
		b.await("the first page", 14*time.Second, func() bool { return len(b.pagesOf("s0.example")) > 0 })
		b.awaitEnd(5 * time.Minute)
		for _, e := range b.events(0).of(runlog.EventWarning) {
			if why, _ := e.Attrs[runlog.KeyReason].(string); strings.Contains(why, "member.join") {
				t.Errorf("it says: %s", why)
			}
		}
	})
}

// TestOverlayOfOneAlone: a node that has crawled alone goes on as the first of an overlay. Its hosts are shared with the others: each page is
// crawled once.
func TestOverlayOfOneAlone(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		alone := true
		b.cfg = func(_ int, c *node.Config) {
			if alone {
				c.Peer.Secret, c.Peer.Listen, c.Member.Join, c.Termination.ExpectedNodes = "", "127.0.0.1:7947", nil, 1
			}
		}
		b.seeds = func(i int) []string {
			if i == 0 {
				return []string{"http://hub.example/"} // it alone leads to the others
			}
			return nil
		}
		b.sitesBeside(6, 60, 1)
		b.site("hub.example", address(6), b.nodes[1].at, 0, 1)
		b.Site("hub.example", address(6)).Page("/", b.fronts()...)
		b.start(0)
		b.awaitPages(100)
		b.kill(0)
		alone = false
		b.startAll(2 * time.Second)
		b.awaitEnd(time.Hour)
		if n := b.got()["hub.example/"]; n != 1 {
			t.Errorf("a page that was done before is downloaded %d times", n)
		}
		b.sites = b.sites[:6]
		if again := b.complete(60, true); again > 8 {
			t.Errorf("%d pages are downloaded again, which is more than were under way", again)
		}
	})
}
