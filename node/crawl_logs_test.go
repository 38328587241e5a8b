package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// jsonLines reads a log as anybody would.
func (w *trial) jsonLines(log string) []map[string]any {
	w.t.Helper()
	f, err := os.Open(filepath.Join(w.cfg.Node.Data, "logs", log+".jsonl"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	var lines []map[string]any
	s := bufio.NewScanner(f)
	s.Buffer(nil, runlog.MaxLine)
	for s.Scan() {
		var line map[string]any
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			w.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := s.Err(); err != nil {
		w.t.Fatal(err)
	}
	return lines
}

// keysOf complains about keys of an entry that a line has not, and about a seq that is not the number of the line.
func (w *trial) keysOf(log string, lines []map[string]any, entry reflect.Type) {
	w.t.Helper()
	var keys func(t reflect.Type) []string
	keys = func(t reflect.Type) (names []string) {
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				names = append(names, keys(f.Type)...)
			} else {
				names = append(names, f.Tag.Get("json"))
			}
		}
		return names
	}
	for i, line := range lines {
		for _, key := range keys(entry) {
			if _, ok := line[key]; !ok {
				w.t.Errorf("%s line %d has no %q", log, i+1, key)
			}
		}
		if line["seq"] != float64(i+1) || line["boot"] != float64(1) {
			w.t.Errorf("%s line %d has seq %v of boot %v", log, i+1, line["seq"], line["boot"])
		}
	}
}

// TestLogs: what is logged of a crawl, and when.
func TestLogs(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Robots("User-agent: *", "Disallow: /1$").Pages(20).Took(1500*time.Millisecond).
			Handle("/19", netsim.Broken)
		w.Site("b.test", server2).Handle("/", netsim.Turns(netsim.Status(503, "Retry-After", "60"), netsim.Status(404)))
		w.Site("c.test", server3).Handle("/robots.txt", netsim.Status(503))
		w.cfg.Politeness.RetryPage = []time.Duration{20 * time.Second}
		end, _ := w.crawl(w.t.Context(), "http://a.test/", "http://b.test/", "http://c.test/")

		fetches := w.jsonLines(runlog.LogFetch)
		w.keysOf(runlog.LogFetch, fetches, reflect.TypeFor[runlog.Fetch]())
		visits := w.Visits(nil)
		if len(fetches) != len(visits) || end.Requests != int64(len(visits)) {
			t.Errorf("%d lines, %d counted, %d requests", len(fetches), end.Requests, len(visits))
		}
		logged := map[string]int{}
		for _, f := range fetches {
			logged[fmt.Sprint(f["url"])]++
			if f["url"] == "http://a.test/5" && (f["total_ms"] != 1500.0 || f["server"] != server1 || f["status"] != 200.0 || f["waited_ms"] == nil) {
				t.Errorf("logged %v", f)
			}
		}
		for _, v := range visits {
			logged[v.URL()]--
		}
		for url, n := range logged {
			if n != 0 {
				t.Errorf("%s: %+d lines too many", url, n)
			}
		}

		queue, load := w.jsonLines(runlog.LogQueue), w.jsonLines(runlog.LogLoad)
		w.keysOf(runlog.LogQueue, queue, reflect.TypeFor[runlog.Queue]())
		w.keysOf(runlog.LogLoad, load, reflect.TypeFor[runlog.Load]())
		if len(queue) != len(load) || len(queue) != int(end.Elapsed/(10*time.Second))+2 {
			t.Errorf("%d and %d lines in %v", len(queue), len(load), end.Elapsed)
		}
		waits := map[string]bool{}
		for i, line := range queue {
			at, err := time.Parse(time.RFC3339, fmt.Sprint(line["time"]))
			if want := time.Duration(i) * 10 * time.Second; err != nil || i < len(queue)-1 && w.at(at) != want {
				t.Errorf("line %d came at %v, %v, want %v", i, w.at(at), err, want)
			}
			sum := 0.0
			for kind, n := range line["waits"].(map[string]any) {
				waits[kind] = true
				sum += n.(float64)
			}
			if sum != line["hosts_waiting"] {
				t.Errorf("line %d: waits %v are not %v hosts", i, line["waits"], line["hosts_waiting"])
			}
		}
		for _, kind := range []string{"backoff", "retry", "gap"} {
			if !waits[kind] {
				t.Errorf("no host was ever waiting for %q: %v", kind, waits)
			}
		}
		last := queue[len(queue)-1]
		drops := last["drops"].(map[string]any)
		if drops["robots.txt disallows"] != 1.0 || drops["status 404"] != 1.0 || drops["eof"] != 1.0 {
			t.Errorf("drops %v", drops)
		}
		// The books: everything accepted is done, failed, dropped or pending.
		if f := end.Frontier; int64(f.Accepted) != int64(f.Done+f.Failed+f.Dropped)+f.Pending || f.Pending != 1 || last["pending"] != 1.0 {
			t.Errorf("books %+v, the last line says %v pending", f.Totals, last["pending"])
		}

		events := w.jsonLines(runlog.LogNode)
		if e := events[0]; e["event"] != runlog.EventStart || e["config"] != w.cfg.Public() {
			t.Errorf("the first event is %v", e["event"])
		}
		if e := events[len(events)-1]; e["event"] != runlog.EventStop || e["reason"] != "idle" {
			t.Errorf("the last event is %v", e)
		}
	})
}

// TestPatience: what waits for longer than the patience is reported as unfinished, and the crawl ends.
func TestPatience(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(5).Handle("/0", netsim.Status(503, "Retry-After", "3600"))
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
		a := w.Site("a.test", server1).Page("/").Handle("/", netsim.Turns(netsim.Status(503), netsim.Status(200)))
		w.cfg.Crawl.End, w.cfg.Crawl.Patience = "never", 0
		ctx, stop := context.WithTimeout(w.t.Context(), 10*time.Minute)
		defer stop()
		end, _ := w.crawl(ctx, "http://a.test/")
		if end.Reason != "stopped" || a.Count("/") != 2 || end.Elapsed < 10*time.Minute || end.Elapsed > 10*time.Minute+time.Second {
			t.Errorf("%q after %v with %d requests", end.Reason, end.Elapsed, a.Count("/"))
		}
	})
}

// TestStopAndResume: a stopped crawl ends within 5 s whatever is under way, and the next one in its directory gets every
// page that is missing, again only those that were under way.
func TestStopAndResume(t *testing.T) {
	for _, took := range []time.Duration{0, 3 * time.Second, 15 * time.Second} {
		t.Run(took.String(), func(t *testing.T) {
			inBubble(t, func(w *trial) {
				sites := []*netsim.Site{
					w.Site("a.test", server1).Pages(40).Took(took),
					w.Site("b.test", server2).Pages(40).Took(took),
					w.Site("c.test", server2).Robots("User-agent: *", "Disallow: /7").Pages(40).Took(took),
				}
				stopAt := 100 * time.Second
				ctx, stop := context.WithTimeout(w.t.Context(), stopAt)
				defer stop()
				urls := []string{"http://a.test/", "http://b.test/", "http://c.test/"}
				end, _ := w.crawl(ctx, urls...)
				if end.Reason != "stopped" || w.at(time.Now()) > stopAt+5*time.Second {
					t.Errorf("%q at %v, want stopped at %v", end.Reason, w.at(time.Now()), stopAt)
				}
				under := map[string]bool{}
				for _, v := range w.Visits(nil) {
					if w.at(v.End) >= stopAt {
						under[v.URL()] = true
					}
				}
				if len(under) > 2 {
					t.Errorf("%d requests under way at two servers", len(under))
				}
				before := end.Frontier.Pending
				end, _ = w.run(urls...)
				if end.Frontier.AtStart != before {
					t.Errorf("%d pending at the start, want %d", end.Frontier.AtStart, before)
				}
				for i, s := range sites {
					for _, path := range append(numbered(40), "/", "/robots.txt") {
						want := 1
						if i == 2 && path == "/7" {
							want = 0
						}
						url := strings.TrimSuffix(urls[i], "/") + path
						if n := s.Count(path); n != want && !(under[url] && n == 2) {
							t.Errorf("%s was asked for %d times, want %d", url, n, want)
						}
					}
				}
			})
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
			v := w.Visits(netsim.On(server))
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
		for _, e := range logs.events {
			if e.Event == runlog.EventBlocklist && e.Attrs[runlog.KeyCount] == 2.0 {
				told++
			}
		}
		if told != 1 {
			t.Errorf("%d events tell of the list with two entries, want one", told)
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
		if err := os.Symlink("/dev/full", filepath.Join(w.cfg.Output.Logs, runlog.LogFetch+".jsonl")); err != nil {
			w.t.Fatal(err)
		}
		w.cfg.Fetch.DNS.Hosts = w.Names()
		n, err := node.New(w.cfg, seeds(w.t, "http://a.test/"), w.deps)
		if err != nil {
			w.t.Fatal(err)
		}
		if end, err := n.Run(w.t.Context()); err != nil || end.Reason != "idle" || end.Pages != 4 {
			w.t.Errorf("%d pages, ended as %q: %v", end.Pages, end.Reason, err)
		}
		var told []string
		for _, e := range readLog[runlog.Event](w.t, w.cfg.Output.Logs, runlog.LogNode) {
			if reason, _ := e.Attrs[runlog.KeyReason].(string); e.Event == runlog.EventWarning && strings.Contains(reason, "write log fetch") {
				told = append(told, reason)
			}
		}
		if len(told) != 2 || !strings.HasPrefix(told[0], "write log fetch") || !strings.HasPrefix(told[1], "log fetch lost 5 lines") {
			w.t.Errorf("told of lost lines: %q", told)
		}
	})
}
