package home

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// copyIs asserts what a second copy has.
func (w *town) copyIs(host string, at int, want frontier.Digest) {
	w.t.Helper()
	hold, known, err := w.house(at).HoldOf(context.Background(), host)
	if err != nil || !known || hold != frontier.Backup {
		w.t.Errorf("%s: %d holds it as %v (known %v, %v)", host, at, hold, known, err)
	}
	d, err := w.house(at).DigestOf(context.Background(), host)
	if err != nil || d != want {
		w.t.Errorf("%s: the copy at %d has %+v, not %+v; %v", host, at, d, want, err)
	}
}

// TestSecondCopy follows a host with its copy: within a second it has what was accepted and what is done, and robots.txt
// and the politeness of the host.
func TestSecondCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 25)
		var done []identity.URL
		var whole atomic.Int64
		w.set(func() {
			w.before = func(_, _ string, req proto.Message) error {
				if r, ok := req.(*wire.BackupRequest); ok && r.GetItems()[0].GetNumber() == 1 {
					whole.Add(1)
				}
				return nil
			}
		})
		for i := 0; i < len(links); i += 5 {
			if err := w.house(0).offer(links[i : i+5]...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.copyIs(host, 1, digestOf(links[:i+5], nil))
		}
		for range 4 {
			if task := w.house(0).crawl(1)[0]; task.Kind == frontier.Page {
				done = append(done, task.URL)
			}
			time.Sleep(time.Second)
			w.copyIs(host, 1, digestOf(links, done))
		}
		if whole.Load() != 1 {
			t.Errorf("the host was copied whole %d times", whole.Load()) // once, at its beginning
		}
		if body, err := w.house(1).RobotsBody(host); err != nil || string(body) != robotsText {
			t.Errorf("the copy has the robots.txt %q, %v", body, err)
		}
		if s, err := w.house(1).StateOf(context.Background(), host); err != nil || s.CrawlDelay != crawlDelay || s.SinceRequest < 0 {
			t.Errorf("the copy has the state %+v, %v", s, err)
		}
		if _, known, _ := w.house(2).HoldOf(context.Background(), host); known {
			t.Error("a third node has a copy")
		}
		w.is(host, 0, digestOf(links, done))
	})
}

// TestCopyStaysAtHandOff asserts that a hand-off does not copy anew what the node with the second copy has.
func TestCopyStaysAtHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 60)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		var urls atomic.Int64
		w.set(func() {
			w.before = func(_, _ string, req proto.Message) error {
				if r, ok := req.(*wire.BackupRequest); ok {
					for _, item := range r.GetItems() {
						urls.Add(int64(len(item.GetChunk().GetPending()) + len(item.GetChunk().GetDone())/8))
					}
				}
				return nil
			}
		})
		for hop, to := range []int{1, 2, 0} {
			if err := w.house([]int{0, 1, 2}[hop]).home.HandOff(context.Background(), host, w.ids[to], true, "test"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			w.is(host, to, digestOf(links, nil))
			if want := []int64{0, 0, 60}[hop]; urls.Load() != want { // at last 1 needs a copy, which has none
				t.Errorf("%d URLs were copied after hand-off %d, not %d", urls.Load(), hop, want)
			}
		}
	})
}

// TestCopyIsMended damages a second copy in each of the ways in which it may differ, and sees it made whole.
func TestCopyIsMended(t *testing.T) {
	for _, test := range []struct {
		name   string
		within time.Duration
		damage func(t *testing.T, w *town, host string)
	}{
		{"changes are lost", 5 * time.Second, func(_ *testing.T, w *town, _ string) {
			var n atomic.Int64
			w.set(func() {
				w.before = func(_, _ string, req proto.Message) error {
					if _, ok := req.(*wire.BackupRequest); ok {
						if n.Add(1) == 1 {
							return errGone
						}
					}
					return nil
				}
			})
		}},
		{"answers are lost", 5 * time.Second, func(_ *testing.T, w *town, _ string) {
			var n atomic.Int64
			w.set(func() {
				w.after = func(_, _ string, req, _ proto.Message) error {
					if _, ok := req.(*wire.BackupRequest); ok {
						if n.Add(1) < 3 {
							return errGone
						}
					}
					return nil
				}
			})
		}},
		{"a change lacks a URL", 5 * time.Second, func(_ *testing.T, w *town, _ string) {
			var n atomic.Int64
			w.set(func() {
				w.before = func(_, _ string, req proto.Message) error {
					if r, ok := req.(*wire.BackupRequest); ok {
						if n.Add(1) == 1 {
							r.Items[0].Chunk.Pending = r.Items[0].Chunk.Pending[1:]
						}
					}
					return nil
				}
			})
		}},
		{"it has a URL too many", 5 * time.Second, func(t *testing.T, w *town, host string) {
			c := frontier.Chunk{Pending: []frontier.PendingURL{{Path: "/strange"}}, Done: []uint64{4711}}
			if _, err := w.house(1).Import(context.Background(), host, c, frontier.Discovered); err != nil {
				t.Error(err)
			}
		}},
		{"it is gone", 5 * time.Second, func(t *testing.T, w *town, host string) {
			if err := w.house(1).Remove(context.Background(), host); err != nil {
				t.Error(err)
			}
		}},
		{"its node is busy with the host", 5 * time.Second, func(_ *testing.T, w *town, host string) {
			unlock := w.house(1).home.locks.lock(host)
			time.AfterFunc(2*time.Second, unlock)
		}},
		{"a hand-off was given up", 70 * time.Second, func(t *testing.T, w *town, host string) {
			if err := w.house(1).Frontier.SetHold(context.Background(), host, frontier.Arriving); err != nil {
				t.Error(err)
			}
		}},
		{"more changed than can be gathered", 5 * time.Second, func(_ *testing.T, w *town, _ string) {
			gathered := func(n int) {
				b := w.house(0).home.backups
				b.mu.Lock()
				defer b.mu.Unlock()
				b.bytes += n
			}
			gathered(maxGathered)
			time.AfterFunc(time.Second, func() { gathered(-maxGathered) })
		}},
		{"its node dies and comes back", 75 * time.Second, func(_ *testing.T, w *town, _ string) {
			w.house(1).end()
			w.believe(func() { w.dead[w.ids[1]] = true })
			time.Sleep(10 * time.Second)
			w.house(1).start()
			w.believe(func() { clear(w.dead) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTown(t, 2, nil, 1)
				host := w.hostOf(0, 1)
				links := pages(host, 0, 45)
				if err := w.house(0).offer(links[:30]...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				w.copyIs(host, 1, digestOf(links[:30], nil))
				test.damage(t, w, host)
				if err := w.house(0).offer(links[30:]...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.within)
				w.copyIs(host, 1, digestOf(links, nil))
				w.is(host, 0, digestOf(links, nil))
			})
		})
	}
}

// TestQuietCopyIsCompared asserts that a copy is looked at even though nothing changes at its host.
func TestQuietCopyIsCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		host := w.hostOf(0, 1)
		if err := w.house(0).offer(pages(host, 0, 30)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if err := w.house(1).Remove(context.Background(), host); err != nil {
			t.Fatal(err)
		}
		time.Sleep(w.cfg.SweepEvery + 5*time.Second)
		w.copyIs(host, 1, digestOf(pages(host, 0, 30), nil))
	})
}

// TestTakeOver lets owners die. The home goes on from its copy, or, where the home itself dies, the node that is the next
// home and has the copy; the host then gets a new second copy.
func TestTakeOver(t *testing.T) {
	for _, test := range []struct {
		name  string
		owner int // hands over to this one first
		leave bool
	}{{"an owner dies", 2, false}, {"an owner leaves", 2, true}, {"a home that owns it dies", 0, false}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTown(t, 3, nil)
				host := w.hostOf(0, 1)
				links := pages(host, 0, 30)
				if err := w.house(0).offer(links...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				next := 1
				if test.owner != 0 {
					next = 0
					if err := w.house(0).home.HandOff(context.Background(), host, w.ids[test.owner], true, "test"); err != nil {
						t.Fatal(err)
					}
				}
				var done []identity.URL
				for _, task := range w.house(test.owner).crawl(3) {
					if task.Kind == frontier.Page {
						done = append(done, task.URL)
					}
				}
				time.Sleep(time.Second)
				w.house(test.owner).end()
				died := time.Now()
				gone := func() { w.believe(func() { w.left[w.ids[test.owner]] = true }) }
				if test.leave {
					gone()
				} else {
					w.believe(func() { w.dead[w.ids[test.owner]] = true })
				}
				for w.house(next).had(Took) == 0 {
					if w.house(next).home.Wait(host) == "" {
						t.Fatal("crawled before it was taken over")
					}
					if since := time.Since(died); since > 2*time.Minute {
						t.Fatal("never taken over")
					} else if since > 25*time.Second && !test.leave {
						gone() // the dead count as members for a while
					}
					time.Sleep(time.Second)
				}
				took := time.Since(died)
				if low := w.cfg.TakeAfter; !test.leave && took < low {
					t.Errorf("taken over after %v", took)
				} else if test.leave && took > 5*time.Second {
					t.Errorf("taken over %v after it left", took)
				}
				gone()
				time.Sleep(2 * w.cfg.SweepEvery)
				w.is(host, next, digestOf(links, done))
				w.copyIs(host, 3-next-test.owner, digestOf(links, done))
				for _, task := range w.house(next).crawl(2) {
					if task.Kind != frontier.Page {
						t.Errorf("%v is asked for again", task.URL)
					}
					for _, u := range done {
						if u == task.URL {
							t.Errorf("%v is downloaded twice", u)
						}
					}
				}
			})
		})
	}
}

// TestSilentNodeDelaysNoOtherCopy asserts that the copies at one node are up to date within a second while another one
// lets each call wait, and that those at the silent one follow when it answers again.
func TestSilentNodeDelaysNoOtherCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		hosts := []string{w.hostOf(0, 1), w.hostOf(0, 2)}
		offer := func(n int) {
			t.Helper()
			for _, host := range hosts {
				if err := w.house(0).offer(pageOf(host, n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		offer(0)
		time.Sleep(3 * time.Second) // the second copies are made
		w.set(func() {
			w.before = func(_, to string, _ proto.Message) error {
				if to != w.ids[1] {
					return nil
				}
				time.Sleep(10 * time.Second)
				return errGone
			}
		})
		n := 1
		for ; n < 30; n++ {
			offer(n)
			time.Sleep(time.Second)
			w.copyIs(hosts[1], 2, digestOf(pages(hosts[1], 0, n+1), nil))
		}
		w.set(func() { w.before = nil })
		time.Sleep(20 * time.Second)
		for i, host := range hosts {
			w.is(host, 0, digestOf(pages(host, 0, n), nil))
			w.copyIs(host, i+1, digestOf(pages(host, 0, n), nil))
		}
	})
}

// TestGatheredChangesAreBounded asserts that what waits for second copies is bounded in bytes, however long URLs are.
func TestGatheredChangesAreBounded(t *testing.T) {
	h := &Home{backups: newBackups()}
	long := "/" + strings.Repeat("x", 2000)
	most := maxGathered/len(long) + 1
	for i := range 2 * most {
		h.Changed([]frontier.Change{{Host: hostName(i % 7), Added: []frontier.PendingURL{{Path: long}}, Done: []uint64{1}}})
	}
	hosts, broken := h.backups.gather()
	kept := 0
	for _, g := range hosts {
		kept += len(g.added)
	}
	if kept == 0 || kept > most || len(broken) == 0 {
		t.Errorf("%d of %d URLs are kept, %d hosts are to be copied whole", kept, 2*most, len(broken))
	}
	if h.backups.bytes != 0 {
		t.Errorf("%d bytes are counted where nothing is left", h.backups.bytes)
	}
}

// TestCopyIsComparedWhenItsHolderIsBack restarts the owner of a host while the node with its second copy is dead, but not
// forgotten: what had to be copied anew is forgotten with the owner's life. The copy is compared when that node is back.
func TestCopyIsComparedWhenItsHolderIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil, 0, 1)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 40)
		if err := w.house(0).offer(links[:20]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.copyIs(host, 1, digestOf(links[:20], nil))
		w.house(1).end()
		w.believe(func() { w.dead[w.ids[1]] = true })
		if err := w.house(0).offer(links[20:]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		w.house(0).end()
		w.house(0).start()
		time.Sleep(3 * time.Second)
		w.house(1).start()
		w.believe(func() { w.dead[w.ids[1]] = false })
		time.Sleep(5 * time.Second)
		w.copyIs(host, 1, digestOf(links, nil))
	})
}
