package frontier

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A host takes its pages along, whatever is done to them meanwhile; the record of the later visit wins, and the copies are one.
func TestPagesMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		cfg.Shared = true
		const host = "http://h1.test"
		src := visitedOnce(t, cfg, polite, 50)
		time.Sleep(61 * time.Minute)
		src.Changes()
		chunks := src.export(host, Cursor{}, 7)
		src.visit(20, func(task *Task) Outcome {
			out := asSeen(2)
			if task.URL.Hash()%3 == 0 {
				out.Visit.Found = Moved
			}
			return out
		})
		changed := src.Changes()[host]
		sampled := func() int {
			src.mu.Lock()
			defer src.mu.Unlock()
			b, _ := src.bench.recrawl.sample.AppendBinary(nil)
			return len(b)
		}
		if before := sampled(); before == 0 {
			t.Error("no page is in the sample")
		}
		if src.role(host, Leaving); sampled() > 0 {
			t.Errorf("the sample holds %d bytes of pages that are not visited here any more", sampled())
		}
		want := src.digest(host)
		if want.Pages == 50 || len(changed.Pages) != 20 || want != src.scanned(host) {
			t.Fatalf("%+v, %d pages changed", want, len(changed.Pages))
		}
		dst := crawling(t, "", cfg, polite)
		for range 2 {
			dst.imported(host, Chunk{Pages: changed.Pages, Done: changed.Done})
			dst.imported(host, chunks...) // what is older comes later, and wins nothing but what was forgotten
			dst.imported(host, Chunk{Pages: changed.Pages, Done: changed.Done})
			if got := dst.digest(host); got != want || got != dst.scanned(host) {
				t.Fatalf("arrived with %+v, on disk %+v, want %+v", got, dst.scanned(host), want)
			}
		}
		if s := dst.Status(); s.Pages != 0 {
			t.Errorf("%d pages of a replica are counted", s.Pages)
		}
		if got := dst.visit(1, nil); len(got) > 0 {
			t.Errorf("%s of a replica was visited", got)
		}
		dst.role(host, Owned)
		if s := dst.Status(); s.Pages != int64(want.Pages) || s.Due < 25 {
			t.Errorf("%d pages of %d, %d due", s.Pages, want.Pages, s.Due)
		}
		old := 0
		dst.visit(int(want.Pages), func(task *Task) Outcome {
			switch p := task.Page; {
			case p == nil || p.Digest == 2 && p.History.Visits() != 2 || p.Digest == 1 && p.History.Visits() != 1:
				t.Errorf("%s came as %+v", task.URL, p)
			case p.Digest == 1:
				old++
			}
			return Outcome{Ending: Done, Visit: &Visit{Found: Unchanged}}
		})
		if old != 30 {
			t.Errorf("%d of 30 pages came after the move that were not visited before", old)
		}
	})
}

// What several calls bring of the same pages at once is counted once.
func TestPagesComeTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		const host = "http://h1.test"
		l := beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) {
			f.store.fault = func() error { time.Sleep(rand.N(time.Second)); return nil } // a slow disk
		})
		c := chunkOf(host, 0)
		c.State = nil
		l.imported(host, c) // from here on the host is known
		c = chunkOf(host, 20)
		var senders sync.WaitGroup
		for range 8 {
			senders.Go(func() { l.imported(host, c) })
		}
		senders.Wait()
		if d := l.digest(host); d.Pages != 6 || d != l.scanned(host) {
			t.Errorf("of 6 pages there are %d: %+v, on disk %+v", d.Pages, d, l.scanned(host))
		}
	})
}

// Pages that are on their way to the disk when their host becomes owned are counted, too.
func TestPagesOnTheirWayAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		const host = "http://h1.test"
		l := beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) {
			f.store.fault = func() error { // writes take a second
				for range f.store.calls.begun.Range {
					time.Sleep(time.Second)
				}
				return nil
			}
		})
		c := chunkOf(host, 0)
		l.imported(host, c)
		go l.imported(host, Chunk{Pages: chunkOf(host, 10).Pages})
		time.Sleep(time.Second / 2)
		l.role(host, Owned)
		if s := l.Status(); s.Pages != 6 {
			t.Errorf("of 6 pages %d are counted", s.Pages)
		}
	})
}
