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
