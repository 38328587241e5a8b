package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node"
	"proxima/node/member"
	"proxima/node/placement"
	"proxima/node/runlog"
)

// Data directories of which there are copies.

// backup copies the data directory of a node, which may run: no write is half done. restore gives the copy to a node that does not run.
func (b *bed) backup(i int) (restore func(to int)) {
	b.t.Helper()
	synctest.Wait()
	dir := b.t.TempDir()
	must(b.t, os.CopyFS(dir, os.DirFS(filepath.Join(b.dir, b.name(i)))))
	return func(to int) {
		b.t.Helper()
		at := filepath.Join(b.dir, b.name(to))
		must(b.t, errors.Join(os.RemoveAll(at), os.CopyFS(at, os.DirFS(dir))))
	}
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
				b.backup(2)(4)
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

// The directories of two nodes are swapped, as they are or as older backups. Each goes on at the other's address.
func TestOverlayDirectoriesSwapped(t *testing.T) {
	for what, older := range map[string]bool{"as they are": false, "older": true} {
		t.Run(what, func(t *testing.T) {
			inBed(t, square(), func(b *bed) {
				const perSite = 100
				b.sitesBeside(12, perSite, 1000)
				b.startAll(2 * time.Second)
				b.awaitPages(150)
				var restore [2]func(to int)
				for step := range 2 {
					if older == (step == 0) {
						for k := range restore {
							if !older {
								b.leave(1 + k)
							}
							restore[k] = b.backup(1 + k)
						}
					}
					b.awaitPages(300)
				}
				for k := range restore {
					b.kill(1 + k)
				}
				for k := range restore {
					restore[k](2 - k)
				}
				for k := range restore {
					b.start(2 - k)
				}
				swapped := time.Now()
				b.awaitEnd(time.Hour)
				again := b.complete(perSite, true)
				t.Logf("ended %v after the swap, %d pages came again", time.Since(swapped), again)
				for _, s := range b.sites {
					if pause := b.longestPause(s, swapped); pause > 4*time.Minute {
						t.Errorf("%s paused for %v", s, pause)
					}
				}
			})
		})
	}
}

// A node gets an older backup just while its hosts are handed to others, or hosts of another one to it. Nothing is lost, and of the pages that its
// disk knew only those of the last seconds come again.
func TestOverlayBackupInHandOff(t *testing.T) {
	for what, back := range map[string]int{"of the giver": 1, "of a receiver": 2} {
		t.Run(what, func(t *testing.T) {
			inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
				const perSite = 60
				b.cfg = func(_ int, c *node.Config) { c.Batch.Mode = placement.ModeCrawl }
				b.sitesBeside(20, perSite, 1)
				b.startAll(2 * time.Second)
				b.awaitPages(200)
				restore := b.backup(back)
				b.awaitPages(600)
				moved := func() int {
					c := b.nodes[back].node.Status().Overlay.Hosts
					return int(c.HandedOff + c.Received)
				}
				before := moved()
				mover, to := b.operator(1), b.nodes[2].node.ID().Node
				var moves sync.WaitGroup
				defer moves.Wait()
				for _, site := range b.sites {
					if b.ownerOf(site) == 1 {
						moves.Go(func() { _, _ = mover.Move(b.t.Context(), site, to, "ann") }) // it may fail
					}
				}
				for end := time.Now().Add(time.Minute); moved() < before+2; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("%d hosts were handed over", moved()-before)
					}
				}
				b.kill(back)
				restore(back)
				b.start(back)
				b.awaitEnd(3 * time.Hour)
				if again := b.complete(perSite, true); again > len(b.sites) {
					t.Errorf("%d pages came again", again)
				}
			})
		})
	}
}
