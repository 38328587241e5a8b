package node_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/runlog"
)

// TestLogs: what is logged of a crawl, and when.
func TestLogs(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Robots("User-agent: *", "Disallow: /1$").Pages(20).Page("/torn").Took(1500*time.Millisecond).
			Handle("/19", Broken)
		w.Site("b.test", server2).Handle("/", Turns(Status(503, "Retry-After", "60"), Status(404)))
		w.Site("c.test", server3).Handle("/robots.txt", Status(503))
		w.cfg.Politeness.RetryPage = []time.Duration{20 * time.Second}
		var echo bytes.Buffer
		w.deps.Echo = slog.NewTextHandler(&echo, nil)
		end, logs := w.crawl(w.t.Context(), "http://a.test/", "http://b.test/", "http://c.test/")

		asked, logged := urls(w.Visits(nil)), []string{}
		for _, f := range logs.fetches {
			logged = append(logged, f.URL)
		}
		w.same("lines", logged, asked...)
		if f := logs.of("http://a.test/5")[0]; end.Requests != int64(len(asked)) || f.TotalMs != 1500 || f.Server != server1 || f.Status != 200 {
			t.Errorf("%d requests counted of %d, and logged %+v", end.Requests, len(asked), f)
		}

		queue, load := readLog[runlog.Queue](t, logs.dir, runlog.LogQueue), readLog[runlog.Load](t, logs.dir, runlog.LogLoad)
		if len(queue) != len(load) || len(queue) != int(end.Elapsed/(10*time.Second))+2 {
			t.Errorf("%d and %d lines in %v", len(queue), len(load), end.Elapsed)
		}
		waits := map[string]bool{}
		for i, line := range queue {
			if want := time.Duration(i) * 10 * time.Second; i < len(queue)-1 && w.at(line.Time) != want {
				t.Errorf("line %d came at %v, want %v", i, w.at(line.Time), want)
			}
			sum := int64(0)
			for kind, n := range line.Waits {
				waits[kind] = true
				sum += n
			}
			if sum != line.HostsWaiting {
				t.Errorf("line %d: waits %v are not %d hosts", i, line.Waits, line.HostsWaiting)
			}
		}
		drops := logs.queue.Drops
		if !waits["backoff"] || !waits["retry"] || !waits["gap"] || drops["robots.txt disallows"] != 1 || drops["status 404"] != 1 || drops["eof"] != 1 {
			t.Errorf("hosts waited for %v; drops %v", waits, drops)
		}
		// The books: everything accepted is done, failed, dropped or pending.
		if f := end.Frontier; int64(f.Accepted) != int64(f.Done+f.Failed+f.Dropped)+f.Pending || f.Pending != 1 || logs.queue.Pending != 1 {
			t.Errorf("books %+v, the last line says %d pending", f.Totals, logs.queue.Pending)
		}

		first, last := logs.events[0], logs.events[len(logs.events)-1]
		if first.Event != runlog.EventStart || first.Attrs["config"] != w.cfg.Public() || last.Event != runlog.EventStop || last.Attrs["reason"] != "idle" {
			t.Errorf("the first event is %v, the last %v", first.Event, last)
		}
		if events := strings.Count(echo.String(), "\n"); events != len(logs.events) {
			t.Errorf("%d events of %d are shown to people: %s", events, len(logs.events), &echo)
		}
	})
}

// TestPatience: what waits for longer than the patience is reported as unfinished, and the crawl ends.
func TestPatience(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(5).Handle("/0", Status(503, "Retry-After", "3600"))
		w.Site("b.test", server2).Pages(30)
		end, _ := w.crawl(w.t.Context(), "http://a.test/", "http://b.test/")
		if end.Reason != "idle" || end.Unfinished != 5 || end.Frontier.Hosts["backoff"] != 1 {
			t.Errorf("%q with %d unfinished, hosts %v; want idle with 5 of one in backoff", end.Reason, end.Unfinished, end.Frontier.Hosts)
		}
		if last := w.Visits(nil); w.at(last[len(last)-1].End)+2*time.Second < end.Elapsed {
			t.Errorf("the crawl ended %v after its last request", end.Elapsed-w.at(last[len(last)-1].End))
		}
	})
}

// TestNeverEnds: a crawl that ends only when stopped waits for what is due later, and then for nothing.
func TestNeverEnds(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Page("/").Handle("/", Turns(Status(503), Status(200)))
		w.cfg.Crawl.End, w.cfg.Crawl.Patience = "never", 0
		ctx, stop := context.WithTimeout(w.t.Context(), 10*time.Minute)
		defer stop()
		end, _ := w.crawl(ctx, "http://a.test/")
		if end.Reason != "stopped" || a.Count("/") != 2 || end.Elapsed < 10*time.Minute || end.Elapsed > 10*time.Minute+time.Second {
			t.Errorf("%q after %v with %d requests", end.Reason, end.Elapsed, a.Count("/"))
		}
	})
}

// TestStopLetsDownloadsEnd: a page that comes within a second of the stop is not asked for again in the next life, and its links are
// followed. One that takes longer is broken off.
func TestStopLetsDownloadsEnd(t *testing.T) {
	for took, want := range map[time.Duration]int{900 * time.Millisecond: 1, 5 * time.Second: 2} {
		each(t, took.String(), func(t *testing.T, w *trial) {
			ctx, stop := context.WithCancel(w.t.Context())
			defer stop()
			var stopped time.Time
			a := w.Site("a.test", server1).Page("/", "/next")
			page := Text("text/html", `<a href="/next">`)
			a.Handle("/", func(rw http.ResponseWriter, r *http.Request) {
				if stopped.IsZero() {
					stopped = time.Now()
					stop()
					pause(r.Context(), took)
				}
				page(rw, r)
			})
			end, _ := w.crawl(ctx, "http://a.test/")
			if wait := time.Since(stopped); end.Reason != "stopped" || wait > 1100*time.Millisecond {
				t.Errorf("%q after %v", end.Reason, wait)
			}
			if w.run("http://a.test/"); a.Count("/") != want || a.Count("/next") != 1 {
				t.Errorf("%d requests for the page, want %d; %d for its link", a.Count("/"), want, a.Count("/next"))
			}
		})
	}
}

// TestStopAndResume: a stopped crawl ends soon whatever is under way, and the next one in its directory gets every
// page that is missing, again only those that were broken off.
func TestStopAndResume(t *testing.T) {
	for _, took := range []time.Duration{0, 3 * time.Second, 15 * time.Second} {
		each(t, took.String(), func(t *testing.T, w *trial) {
			w.Site("a.test", server1).Pages(40).Took(took)
			w.Site("b.test", server2).Pages(40).Took(took)
			w.Site("c.test", server2).Robots("User-agent: *", "Disallow: /7").Pages(40).Took(took)
			urls, stopAt := []string{"http://a.test/", "http://b.test/", "http://c.test/"}, 100*time.Second
			ctx, stop := context.WithTimeout(w.t.Context(), stopAt)
			defer stop()
			end, _ := w.crawl(ctx, urls...)
			if end.Reason != "stopped" || w.at(time.Now()) > stopAt+1100*time.Millisecond {
				t.Errorf("%q at %v, want stopped at %v", end.Reason, w.at(time.Now()), stopAt)
			}
			under := map[string]bool{}
			for _, v := range w.Visits(nil) {
				under[v.URL()] = w.at(v.End) >= stopAt+time.Second
			}
			before := end.Frontier.Pending
			end, _ = w.run(urls...)
			if end.Frontier.AtStart != before {
				t.Errorf("%d pending at the start, want %d", end.Frontier.AtStart, before)
			}
			again, want := 0, []string{}
			for _, url := range urls {
				want = append(want, at(strings.TrimSuffix(url, "/"), append(numbered(40), "/", "/robots.txt")...)...)
			}
			want = slices.DeleteFunc(want, func(url string) bool { return url == "http://c.test/7" })
			var got []string
			for _, v := range w.Visits(nil) {
				if under[v.URL()] && slices.Contains(got, v.URL()) {
					again++
					continue
				}
				got = append(got, v.URL())
			}
			if w.same("requests", got, want...); again > 2 {
				t.Errorf("%d requests were under way at two servers", again)
			}
		})
	}
}

// TestBlocklistChanges: a host that is put on the list during the crawl is asked nothing more from the next poll on.
func TestBlocklistChanges(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(600)
		// A little slower, so that no request begins in the moment of the poll.
		b := w.Site("b.test", server2).Pages(600).Took(100 * time.Millisecond)
		w.Site("c.test", server3).Pages(600).Took(100 * time.Millisecond)
		w.blocklist("# nobody yet\n")
		go func() {
			time.Sleep(5 * time.Minute)
			w.blocklist("b.test\n198.51.100.3\n")
		}()
		poll := w.cfg.Blocklist.Poll
		end, logs := w.run("http://a.test/", "http://b.test/", "http://c.test/")
		for _, server := range []string{server2, server3} {
			v := w.Visits(On(server))
			if last := w.at(v[len(v)-1].Start); last > poll+time.Second || last < 5*time.Minute {
				t.Errorf("the last request to %s came at %v, the list changed before the poll at %v", server, last, poll)
			}
		}
		if n := len(pages(a.Visits())); n != 601 {
			t.Errorf("%d pages of another host, want 601", n)
		}
		left := 601 - len(pages(b.Visits()))
		w.dropped(end, "blocked: b.test", int64(left))
		w.givenUp(logs, "http://b.test", "blocked: b.test", left)
		if n := logs.queue.Drops["blocked"]; n < int64(2*left-10) {
			t.Errorf("the log of the queues counts %d, want about %d", n, 2*left)
		}
		told := 0
		for _, e := range logs.events.of(runlog.EventBlocklist) {
			if e.Attrs[runlog.KeyCount] == 2.0 {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d events tell of the list with two entries, want one", told)
		}
	})
}

// Lines of a blocklist that cannot be read are told at the start, not only when the list changes: what they name is crawled.
func TestWrongLinesOfABlocklistAreTold(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Page("/")
		w.blocklist("c.test\nhttps://b.test\n")
		_, logs := w.run("http://a.test/")
		told := false
		for _, e := range logs.events.of(runlog.EventWarning) {
			told = told || strings.Contains(fmt.Sprint(e.Attrs[runlog.KeyReason]), "1 wrong lines, the first: "+w.cfg.Node.Data+".blocklist:2: matches no URL: ")
		}
		if !told {
			t.Errorf("no warning: %+v", logs.events.of(runlog.EventWarning))
		}
	})
}

// A log that the disk refuses is told of, when it begins and at the end, and nothing else suffers.
func TestLostLinesAreTold(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no device that is always full: ", err)
	}
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(3)
		w.cfg.Output.Logs = w.t.TempDir()
		must(w.t, os.Symlink("/dev/full", filepath.Join(w.cfg.Output.Logs, runlog.LogFetch+".jsonl")))
		w.cfg.Fetch.DNS.Hosts = w.Names()
		n, err := node.New(w.cfg, seeds(w.t, "http://a.test/"), w.deps)
		must(w.t, err)
		if end, err := n.Run(w.t.Context()); err != nil || end.Reason != "idle" || end.Pages != 4 {
			w.t.Errorf("%d pages, ended as %q: %v", end.Pages, end.Reason, err)
		}
		told := slices.DeleteFunc(events(readLog[runlog.Event](w.t, w.cfg.Output.Logs, runlog.LogNode)).of(runlog.EventWarning).reasons(),
			func(reason string) bool { return !strings.Contains(reason, "log fetch") })
		if len(told) != 2 || !strings.HasPrefix(told[0], "write log fetch") || !strings.HasPrefix(told[1], "log fetch lost 5 lines") {
			w.t.Errorf("told of lost lines: %q", told)
		}
	})
}
