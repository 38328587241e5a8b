package node_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/console"
	"proxima/node/runlog"
)

// chain makes a.test of a web a chain of pages. Each is found only on the page before.
func chain(site *Site, length int) *Site {
	paths := numbered(length)
	for i, path := range paths {
		site.Page(path, paths[i+1:min(i+2, length)]...)
	}
	return site
}

// disk has the node keep a MiB free, and returns how many bytes there are.
func (w *trial) disk(bytes uint64) (free *atomic.Uint64) {
	free = new(atomic.Uint64)
	free.Store(bytes)
	w.cfg.Frontier.MinFreeMiB, w.deps.FreeBytes = 1, func() (uint64, error) { return free.Load(), nil }
	return free
}

// TestDiskFull fills the disk before the crawl, or while a page is under way: what is under way ends, nothing new is asked for, and the node
// says why. With room again the crawl goes on to its end, and a node that is stopped meanwhile goes on in its next life.
func TestDiskFull(t *testing.T) {
	const room, full = 1 << 40, 1<<20 - 1
	for _, c := range []struct {
		name    string
		asked   int // before the disk is full
		stopped bool
	}{{"at the start", 0, false}, {"under way", 10, false}, {"stopped", 10, true}} {
		each(t, c.name, func(t *testing.T, w *trial) {
			free := w.disk(full)
			a := chain(w.Site("a.test", server1), 30)
			if c.asked > 0 {
				free.Store(room)
				a.Handle(fmt.Sprintf("/%d", c.asked-1), func(rw http.ResponseWriter, r *http.Request) {
					free.Store(full)
					time.Sleep(10 * time.Second)
					html(fmt.Sprintf("/%d", c.asked))(rw, r)
				})
			}
			ctx, stop := context.WithCancel(w.t.Context())
			defer stop()
			w.watch = func(n *node.Node) {
				time.Sleep(5 * time.Minute)
				s := n.Status().Frontier
				if asked := len(pages(a.Visits())); asked != c.asked || int(s.Done) != c.asked || s.Paused != "disk full: 1 MiB must be free" {
					t.Errorf("%d pages asked for and %d done, want %d; paused by %q", asked, s.Done, c.asked, s.Paused)
				}
				var sample console.Sample
				if called(t, n, "GET", "/sample", &sample); sample.Paused != s.Paused || sample.Held {
					t.Errorf("the console offers to resume what no operator has paused: %+v", sample)
				}
				if c.stopped {
					stop()
				} else {
					free.Store(room)
				}
			}
			end, logs := w.crawl(ctx, "http://a.test/0")
			if c.stopped {
				if end.Reason != "stopped" || end.Unfinished != 1 {
					t.Errorf("ended as %q with %d unfinished", end.Reason, end.Unfinished)
				}
				w.watch = nil
				free.Store(room)
				end, logs = w.crawl(w.t.Context())
			}
			if end.Reason != "idle" || end.Unfinished != 0 || end.Frontier.Paused != "" || len(end.SeedsRefused) != 0 {
				t.Errorf("%+v", end)
			}
			w.same("pages", a.Paths(), append(numbered(30), "/robots.txt")...)
			var told []string
			for _, e := range slices.Concat(logs.events.of(runlog.EventDiskFull), logs.events.of(runlog.EventDiskOK)) {
				told = append(told, fmt.Sprint(e.Event, " ", e.Attrs[runlog.KeyDiskFreeBytes]))
				if reason := fmt.Sprint(e.Attrs[runlog.KeyReason]); e.Event == runlog.EventDiskFull && !strings.HasPrefix(reason, "no new downloads until 1 MiB are free") {
					t.Errorf("the disk is full: %q", reason)
				}
			}
			want := []string{fmt.Sprint("disk_full ", float64(full)), fmt.Sprint("disk_ok ", float64(room))}
			if c.stopped {
				want = want[:1]
			}
			w.same("events", told, want...)
		})
	}
}

// TestChainIsCrawledToItsEnd: between two pages of a chain nothing is pending and nothing under way, only being written.
// That is not the end of the crawl, whenever it is looked at.
func TestChainIsCrawledToItsEnd(t *testing.T) {
	const length = 20_000
	web := newWeb(t)
	chain(web.Site("a.test", public), length)
	end, err := run(t.Context(), t, config(t), depsOf(web), "http://a.test/0")
	if err != nil || end.Reason != "idle" || end.Unfinished != 0 || end.Pages != length {
		t.Errorf("%d of %d pages, %d unfinished, %s: %v", end.Pages, length, end.Unfinished, end.Reason, err)
	}
}
