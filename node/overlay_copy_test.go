package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/member"
	"proxima/node/runlog"
)

// Data directories of which there are copies.

// copyOf gives a place the data directory of a node that does not run.
func (b *bed) copyOf(from, to int) {
	b.t.Helper()
	dir := func(i int) string { return filepath.Join(b.dir, b.name(i)) }
	must(b.t, errors.Join(os.RemoveAll(dir(to)), os.CopyFS(dir(to), os.DirFS(dir(from)))))
}

// Of two nodes with copies of one directory the younger ends, and says why. Both ask for pages until then, and no server is asked by both at once.
func TestOverlayOneDirectoryTwice(t *testing.T) {
	for _, later := range []time.Duration{0, 3 * time.Minute} {
		t.Run(fmt.Sprint(later), func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) { c.Termination.ExpectedNodes = 4 }
				b.seeds = func(i int) []string { return map[int][]string{0: b.fronts()}[i] }
				b.sitesBeside(12, 200, 1000)
				for i := range 4 {
					b.start(i)
				}
				b.awaitPages(400)
				b.leave(2)
				b.copyOf(2, 4)
				b.start(2)
				time.Sleep(later)
				b.start(4)
				gone := -1
				b.await("the end of one", time.Minute, func() bool {
					for _, i := range []int{2, 4} {
						if b.nodes[i].hasEnded() {
							gone = i
						}
					}
					return gone >= 0
				})
				n := b.nodes[gone]
				if n.dead.Store(true); !errors.Is(n.err, member.ErrDuplicate) || later > 0 && gone != 4 {
					t.Errorf("%s ended: %v", b.name(gone), n.err)
				}
				if said := fmt.Sprint(b.events(6 - gone).of(runlog.EventWarning).reasons()); !strings.Contains(said, "a younger node has this node's id; it gives way") {
					t.Errorf("the other says: %s", said)
				}
				b.awaitEnd(time.Hour)
				b.complete(200, true)
			})
		})
	}
}
