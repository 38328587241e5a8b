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

// Lives whose data directory is a copy of another, and lives whose clock was set.

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
