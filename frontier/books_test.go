package frontier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The books after a restart are those before it, for hosts of each role, with a digest or without, and with blocks of which a part
// is done. What comes then lies behind what was there.
func TestBooksOverARestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		l := crawling(t, dir, cfg, polite)
		const plain, tracked, replica, leaving = "http://h1.test", "http://h2.test", "http://h3.test", "http://h4.test"
		for _, host := range []string{plain, tracked, replica, leaving} {
			l.add(pages(host, 0, 20)...)
		}
		done := map[string]int64{}
		l.visit(50, func(task *Task) Outcome { done[task.Host]++; return asSeen(task.URL.Hash()) })
		l.digest(tracked)
		l.role(replica, Replica)
		l.role(leaving, Leaving)
		crawled := done[plain] + done[tracked]
		want := Totals{Pending: 40 - crawled, Held: 40 - done[replica] - done[leaving], Pages: crawled}
		for life := range 3 {
			got := l.Status().Totals
			books := Totals{Pending: got.Pending, Held: got.Held, Pages: got.Pages, Due: got.Due, AtStart: got.AtStart}
			if d := cmp.Diff(want, books); d != "" {
				t.Errorf("life %d, after %v: %s", life, done, d)
			}
			if life > 0 && got.Accepted+got.Done+got.Arrived+got.Left+got.Dropped > 0 {
				t.Errorf("life %d begins with %+v", life, got)
			}
			if v := l.add(append(pages(plain, 0, 20), pages(tracked, 0, 20)...)...); !allAre(v, Duplicate) {
				t.Errorf("life %d: what is known is %v", life, v)
			}
			for _, host := range []string{plain, tracked} {
				if v := l.add(pages(host, 100+10*life, 10)...); !allAre(v, Accepted) {
					t.Errorf("life %d: what is new is %v", life, v)
				}
			}
			l.stop()
			time.Sleep(2 * time.Hour) // no page is left alone for longer
			l = begin(t, dir, cfg, polite, Deps{})
			want.Pending += 20
			want.AtStart, want.Due = want.Pending, crawled
		}
	})
}

// A copy that a crash left half removed counts as what is left of it.
func TestBooksOfAHalfRemovedCopy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		l := begin(t, dir, cfg, polite, Deps{})
		l.add(pages(host, 0, 20)...)
		l.role(host, Replica)
		err := l.ledger.onHost(t.Context(), alone, host, func(_ *batch, h *hostEntry) error {
			rec := h.rec
			rec.tracked = false // as between two transactions of a removal
			return l.store.write(func(txn *tx) { txn.set(hostKey(kindHost, host), rec.bytes(time.Now())) })
		})
		must(t, err)
		l.stop()
		l = begin(t, dir, cfg, polite, Deps{})
		for _, want := range []int64{20, 0} {
			if s := l.Status(); s.Held != want || s.Pending != 0 {
				t.Errorf("%d URLs are held and %d pending, want %d and 0", s.Held, s.Pending, want)
			}
			must(t, l.Remove(t.Context(), host))
		}
	})
}

// What is moved with a host is counted at the host's role, and pages that are due in the part of an hour that is over.
func TestCounters(t *testing.T) {
	c := counters{due: make(map[stamp]int64), t: Totals{Reasons: make(map[string]uint64)}}
	c.change(func(t *Totals) { t.Pending, t.AtStart, t.Held, t.Duplicate, t.Revisited = 10, 10, 5, 2, 1 })
	c.moved(Owned, 3, 2)
	c.moved(Replica, 4, 1)
	c.moved(Leaving, 1, 0)
	c.verdict(Accepted)
	c.verdict(Duplicate)
	c.verdict(HostFull)
	c.ended(Done, "", 1)
	c.ended(Failed, "gone", 2)
	c.ended(Dropped, "robots", 3)
	now := stampOf(time.Now())
	for _, ago := range []stamp{2 * dueStep, 2 * dueStep, 0} {
		c.page(Owned, now-ago, 1)
		c.page(Replica, now-ago, 1)
	}
	c.page(Owned, now-2*dueStep, -1)
	want := Totals{Accepted: 1, Duplicate: 3, Done: 1, Failed: 2, Dropped: 3, Arrived: 3, Left: 2, Held: 9, Pending: 6, AtStart: 10,
		Pages: 2, Due: 1, Revisited: 1, Reasons: map[string]uint64{HostFull.String(): 1, "gone": 2, "robots": 3}}
	before := c.totals()
	for i := range maxReasons {
		c.ended(Failed, fmt.Sprintf("refused: %d", i), 1)
	}
	if d := cmp.Diff(want, before); d != "" {
		t.Errorf("counted by then, or since: %s", d)
	}
	c.ended(Failed, "refused: 0", 1)
	if r := c.totals().Reasons; len(r) != maxReasons+1 || r["refused"] != 3 || r["refused: 0"] != 2 {
		t.Errorf("%d reasons, %d summed up, %d of the first", len(r), r["refused"], r["refused: 0"])
	}
}

// Nothing is pending between two lives, so that runs of done URLs alone say which numbers are taken: each life adds another run.
func TestRunsOfEarlierLivesStay(t *testing.T) {
	cfg, polite := ownServers(testConfig())
	dir := t.TempDir()
	const lives = 3
	for i := range lives {
		l := crawling(t, dir, cfg, polite)
		l.add(pages("http://h1.test", i*maxFresh, maxFresh)...)
		l.work(maxFresh)
		l.stop()
	}
	l := begin(t, dir, cfg, polite, Deps{})
	if n := count(l.add(pages("http://h1.test", 0, lives*maxFresh)...), Duplicate); n != lives*maxFresh {
		t.Errorf("%d of %d URLs are known to be done", n, lives*maxFresh)
	}
}
