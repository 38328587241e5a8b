package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/journal"
)

// The secret of an overlay is changed while it crawls: each node gets the file of each step some time after the others.
// Nobody is lost on the way; a node that has only the old secret is out at the end.
func TestOverlaySecretIsRotated(t *testing.T) {
	inBed(t, []point{{0, 0, 1}, {40, 0, 1}, {0, 40, 1}, {40, 40, 1}}, func(b *bed) {
		file := func(i int) string { return filepath.Join(b.dir, b.name(i)+".secret") }
		give := func(i int) {
			text, err := os.ReadFile(b.secret)
			if err != nil {
				b.t.Fatal(err)
			}
			if err := os.WriteFile(file(i), text, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
		b.cfg = func(i int, c *node.Config) { c.Peer.Secret = file(i) }
		for i := range b.nodes {
			give(i)
		}
		b.site("one.example", address(0), point{1, 1, 1}, 60, 5)
		b.site("two.example", address(1), point{39, 1, 1}, 60, 5)
		b.startAll(2 * time.Second)
		alive := func(i int) int { return b.nodes[i].node.Status().Overlay.Alive }
		b.await("the overlay", time.Minute, func() bool { return alive(0) == 4 && alive(1) == 4 && alive(2) == 4 && alive(3) == 4 })
		for step := range 3 {
			if _, err := node.Rotate(b.secret); err != nil {
				b.t.Fatal(err)
			}
			for i := range 3 { // the last one gets nothing
				give(i)
				time.Sleep(5 * time.Second)
				for j := range 3 {
					if n := alive(j); n < 3 {
						b.t.Errorf("at step %d %s sees %d nodes", step+1, b.name(j), n)
					}
				}
			}
		}
		says := b.nodes[0].node.Status().Overlay.Secret
		for i := range 3 {
			if s := b.nodes[i].node.Status().Overlay.Secret; s != says || strings.Contains(s, ",") {
				b.t.Errorf("%s uses secret %s, not %s", b.name(i), s, says)
			}
		}
		b.await("the end of the old one", 5*time.Minute, func() bool { return alive(0) == 3 && alive(1) == 3 && alive(2) == 3 && alive(3) == 1 })
		b.nodes[3].stop()
		<-b.nodes[3].done
		for i := range 3 {
			changes := 0
			for _, e := range logged[journal.Event](b, i, "node") {
				if e.Event == journal.EventSecret {
					changes++
				}
			}
			if changes != 3 {
				b.t.Errorf("%s changed its secret %d times", b.name(i), changes)
			}
		}
	})
}
