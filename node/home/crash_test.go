package home

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// TestCrashAnywhere kills a node before each step by which a hand-off changes a disk or asks another node, at either end,
// and starts it again with the same disk. Wherever the host ends, it is whole, and done pages stay done.
func TestCrashAnywhere(t *testing.T) {
	for _, test := range []struct {
		name     string
		nodes    int
		from, to int
		dies     int
		steps    int // of interest; what follows is the making of the second copy
	}{
		{"the home hands over and dies", 2, 0, 1, 0, 8},
		{"the home hands over and the new owner dies", 2, 0, 1, 1, 8},
		{"an owner hands over and dies", 3, 1, 2, 1, 7},
		{"an owner hands over and the new owner dies", 3, 1, 2, 2, 8},
		{"an owner hands over and the home dies", 3, 1, 2, 0, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var steps []string
			for k := 0; ; k++ {
				over := false
				synctest.Test(t, func(t *testing.T) {
					w := newTown(t, test.nodes, func(c *Config) { c.ChunkURLs = 40 }, test.dies)
					op := w.crash(t, w.hostOf(0, 1), test.from, test.to, test.dies, k)
					steps = append(steps, op)
					over = op == ""
				})
				if t.Failed() {
					t.Fatalf("the steps: %q", steps)
				}
				if over || k == test.steps {
					break
				}
			}
			if len(steps) < 2 {
				t.Error("it never crashed")
			}
			t.Logf("%d steps: %q", len(steps)-1, steps)
		})
	}
}

// crash lets a node crash before the k-th step after a hand-off began. It returns the step, "" if there were fewer.
func (w *town) crash(t *testing.T, host string, from, to, dies, k int) (at string) {
	t.Helper()
	ctx := context.Background()
	links := pages(host, 0, 90)
	if err := w.house(0).offer(links...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if from != 0 {
		if err := w.house(0).home.HandOff(ctx, host, w.ids[from], true, "begin"); err != nil {
			t.Fatal(err)
		}
	}
	var done []identity.URL
	for _, l := range links[:30] {
		done = append(done, l.URL)
	}
	hashes := make([]uint64, 0, len(done))
	for _, u := range done {
		hashes = append(hashes, u.Hash())
	}
	if _, err := w.house(from).Import(ctx, host, frontier.Chunk{Done: hashes}, frontier.Assigned); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	w.is(host, from, digestOf(links, done))

	n := 0
	victim := w.house(dies).life
	victim.mu.Lock()
	victim.step = func(op string) bool {
		if n++; n-1 == k {
			at = fmt.Sprintf("%d %s", n-1, op)
		}
		return at != ""
	}
	victim.mu.Unlock()
	w.house(from).home.WishMove(host, w.ids[to], "test")
	time.Sleep(3 * w.cfg.RenewEvery) // and what follows by itself
	if !victim.crashed.Load() {
		victim.mu.Lock()
		victim.step = nil
		victim.mu.Unlock()
		w.is(host, to, digestOf(links, done))
		return ""
	}
	w.house(dies).end()
	time.Sleep(time.Second)
	w.house(dies).start()
	more := pages(host, 90, 95)
	for i, l := range more { // links go on coming, everywhere
		if err := w.house(i % len(w.ids)).offer(l); err != nil {
			t.Error(err)
		}
	}
	for range 80 {
		time.Sleep(time.Second / 2)
		if n := w.crawlers(host); n > 1 {
			t.Fatalf("crashed before %s: %d nodes crawl it", at, n)
		}
	}
	if w.house(to).hurry() {
		time.Sleep(w.cfg.SweepEvery + 10*time.Second) // it forgets what came in part, and is compared with the owner
	}
	owner := -1
	for i, id := range w.ids {
		if r, ok, _ := w.house(i).home.Record(host); ok && r.Owner == id {
			owner = i
		}
	}
	if owner < 0 {
		t.Errorf("crashed before %s: nobody owns the host", at)
		return at
	}
	if hold, known, _ := w.house(to).HoldOf(ctx, host); known && hold == frontier.Arriving && owner == from && from != 0 {
		// What a node that crashed had of a host stays on its disk, unused, until the host comes again.
		if err := w.house(to).Remove(ctx, host); err != nil {
			t.Error(err)
		}
	}
	w.is(host, owner, digestOf(append(links, more...), done))
	if t.Failed() {
		t.Errorf("crashed before %s", at)
		for i := range w.ids {
			t.Logf("%d: %+v, %v", i, w.house(i).events, w.house(i).warned)
		}
	}
	return at
}
