package frontier

import (
	"testing"
	"testing/synctest"
	"time"
)

// After a start no server is asked within its gap, because the life before may just have asked it, also where only pages are left to visit
// again.
func TestGapAfterAStartWithPagesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Recrawl.Enabled, cfg.Recrawl.Budget, cfg.Recrawl.Max = true, 0, time.Hour
		dir := t.TempDir()
		l := crawling(t, dir, cfg, polite)
		l.add(page("http://h1.test", 1), page("http://h2.test", 1))
		for range 2 * 2 { // each with its robots.txt
			l.finish(l.taking(time.Minute), asSeen(1))
		}
		time.Sleep(2 * cfg.Recrawl.Max) // both pages are due
		l.finish(l.taking(time.Minute), asSeen(1))
		l.stop()
		l = crawling(t, dir, cfg, polite)
		if task := l.taking(polite.MinGap - 1); task != nil {
			t.Errorf("%s is asked for at once", task.URL)
			l.finish(task, asSeen(1))
		} else if task = l.taking(2); task == nil {
			t.Error("the other page does not come")
		} else {
			l.finish(task, asSeen(1))
		}
	})
}

// Where the longest time between two visits was made shorter, it counts for the pages that were put off for longer, but not for those of other
// nodes.
func TestShorterMaximum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Recrawl.Enabled, cfg.Recrawl.Budget, cfg.Recrawl.Min, cfg.Recrawl.Max = true, 0, 20*24*time.Hour, 60*24*time.Hour
		dir := t.TempDir()
		l := crawling(t, dir, cfg, polite)
		l.add(page("http://h1.test", 1), page("http://h2.test", 1), page("http://h3.test", 1))
		for range 3 * 2 { // each with its robots.txt
			l.finish(l.taking(time.Minute), asSeen(1))
		}
		l.role("http://h3.test", Replica)
		seen := time.Now()
		l.stop()
		cfg.Recrawl.Min = time.Hour
		l = begin(t, dir, cfg, polite, Deps{Site: func(host string) *Site {
			if host == "http://h1.test" {
				return nil
			}
			return &Site{RecrawlMax: 24 * time.Hour}
		}})
		for host, most := range map[string]time.Duration{"http://h1.test": cfg.Recrawl.Max, "http://h2.test": 24 * time.Hour, "http://h3.test": cfg.Recrawl.Max} {
			pages, _, err := l.store.duePages(host, nil, 1<<32-1, 10)
			if err != nil || len(pages) != 1 {
				t.Fatalf("%s: %+v, %v", host, pages, err)
			}
			if at := pages[0].record.Due.Sub(seen); at > most || most > 24*time.Hour && at < 19*24*time.Hour {
				t.Errorf("the page of %s is due after %v, the most is %v", host, at, most)
			}
		}
		if next := l.next(t, "http://h2.test"); next.Sub(seen) > 24*time.Hour {
			t.Errorf("the host is looked at after %v", next.Sub(seen))
		}
	})
}

// next returns when a host is looked at for its pages.
func (l *life) next(t *testing.T, host string) (at time.Time) {
	t.Helper()
	err := l.ledger.onHost(t.Context(), readOnly, host, func(_ *batch, h *hostEntry) error { at = timeOf(h.rec.next); return nil })
	must(t, err)
	return at
}
