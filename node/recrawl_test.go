package node_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/netsim"
	"proxima/node/runlog"
)

// prose is a page with enough text to be one.
func prose(title, text string) string {
	return "<html><head><title>" + title + "</title></head><body><p>" + strings.Repeat(text+" ", 30) + "</p></body></html>"
}

// changing is a site that is another in each of its ages.
type changing struct {
	age   int
	asked map[string][]http.Header // by path
}

func (c *changing) handle(site *netsim.Site, path string, answer func(age int, w http.ResponseWriter, r *http.Request)) {
	site.Handle(path, func(w http.ResponseWriter, r *http.Request) {
		c.asked[path] = append(c.asked[path], r.Header.Clone())
		answer(c.age, w, r)
	})
}

// What became of each page since the last visit is found out at the least cost, told, and lost by nobody.
func TestRecrawlChanges(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Recrawl.Age = time.Hour
		w.cfg.Politeness.RetryPage = []time.Duration{time.Second}
		a := w.Site("a.test", server1)
		c := &changing{asked: map[string][]http.Header{}}
		html := func(body string) func(int, http.ResponseWriter, *http.Request) {
			return func(_ int, w http.ResponseWriter, r *http.Request) { netsim.Text("text/html", body)(w, r) }
		}
		paths := []string{"/etag", "/date", "/plain", "/counter", "/text", "/gone", "/moved", "/soft", "/broken", "/not-modified", "/long-etag", "/future"}
		a.Page("/", paths...)
		c.handle(a, "/etag", func(age int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"v1"`)
			if r.Header.Get("If-None-Match") == `"v1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			html(prose("etag", "one sentence stands here"))(age, w, r)
		})
		modified := time.Now().Add(-100 * time.Hour).UTC().Format(http.TimeFormat)
		c.handle(a, "/date", func(age int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", modified)
			if r.Header.Get("If-Modified-Since") == modified {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			html(prose("date", "one sentence stands here"))(age, w, r)
		})
		c.handle(a, "/plain", html(prose("plain", "always the same words")))
		c.handle(a, "/counter", func(age int, w http.ResponseWriter, r *http.Request) {
			html(prose("counter", "always the same words")+fmt.Sprintf("<!-- %d -->", age))(age, w, r)
		})
		c.handle(a, "/text", func(age int, w http.ResponseWriter, r *http.Request) {
			html(prose("text", []string{"the first news of all", "something else happened today", "something else happened today"}[age]))(age, w, r)
		})
		c.handle(a, "/gone", func(age int, w http.ResponseWriter, r *http.Request) {
			if age == 1 {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			html(prose("gone", "here it stands"))(age, w, r)
		})
		c.handle(a, "/moved", func(age int, w http.ResponseWriter, r *http.Request) {
			if age > 0 {
				w.Header().Set("Location", "/target")
				w.WriteHeader(http.StatusMovedPermanently)
				return
			}
			html(prose("moved", "here it stands"))(age, w, r)
		})
		a.Page("/target")
		c.handle(a, "/soft", func(age int, w http.ResponseWriter, r *http.Request) {
			if age > 0 {
				html("<html><head><title>a.test | Page not found</title></head><body>Sorry.</body></html>")(age, w, r)
				return
			}
			html(prose("soft", "here it stands"))(age, w, r)
		})
		c.handle(a, "/broken", func(age int, w http.ResponseWriter, r *http.Request) {
			if age == 1 {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			html(prose("broken", "here it stands"))(age, w, r)
		})
		c.handle(a, "/not-modified", func(age int, w http.ResponseWriter, r *http.Request) {
			if age == 1 {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			html(prose("not modified", "here it stands"))(age, w, r)
		})
		c.handle(a, "/long-etag", func(age int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"`+strings.Repeat("x", 10_000)+`"`)
			html(prose("long", "here it stands"))(age, w, r)
		})
		c.handle(a, "/future", func(age int, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Last-Modified", time.Now().Add(1e6*time.Hour).UTC().Format(http.TimeFormat))
			html(prose("future", "here it stands"))(age, w, r)
		})

		var logDir string
		w.opened = func(n *node.Node) { logDir = n.LogDir() }
		w.run("http://a.test/")
		if got := readLog[runlog.Change](t, logDir, runlog.LogChange); len(got) > 0 {
			t.Errorf("changes of pages never seen before: %+v", got)
		}
		time.Sleep(10 * time.Minute)
		w.run("http://a.test/")
		for path, asked := range c.asked {
			if len(asked) != 1 {
				t.Errorf("%s was asked for %d times, though it is younger than the age", path, len(asked))
			}
		}
		for c.age = 1; c.age <= 2; c.age++ {
			time.Sleep(2 * time.Hour)
			w.run("http://a.test/")
		}
		what := map[string][]string{}
		for _, e := range readLog[runlog.Change](t, logDir, runlog.LogChange) {
			path := strings.TrimPrefix(e.URL, "http://a.test")
			what[path] = append(what[path], e.What)
			if e.SeenBefore.IsZero() || e.Visits < 2 || e.What == runlog.ChangeChanged && e.Distance == 0 {
				t.Errorf("%+v", e)
			}
		}
		want := map[string]string{"/counter": "trivial trivial", "/text": "changed", "/gone": "gone back", "/moved": "moved", "/soft": "gone"}
		for _, path := range paths {
			if got := strings.Join(what[path], " "); got != want[path] {
				t.Errorf("%s: %q, want %q", path, got, want[path])
			}
		}
		times := map[string]int{"/moved": 2, "/broken": 4, "/not-modified": 3} // of those that failed there was one more try
		for _, path := range paths {
			n, ok := times[path]
			if !ok {
				n = 3
			}
			if len(c.asked[path]) != n {
				t.Errorf("%s was asked for %d times, want %d", path, len(c.asked[path]), n)
			}
			for i, h := range c.asked[path] {
				etag, since := h.Get("If-None-Match"), h.Get("If-Modified-Since")
				if (etag != "") != (i > 0 && path == "/etag") || (since != "") != (i > 0 && path == "/date") {
					t.Errorf("%s, time %d: If-None-Match %.20q, If-Modified-Since %q", path, i, etag, since)
				}
			}
		}
		if n := a.Count("/target"); n != 2 { // found in the second age, and visited in the third
			t.Errorf("the target was asked for %d times", n)
		}
	})
}

// A continuous crawl visits pages again until it is stopped, and a kill in between loses nothing.
func TestRecrawlContinues(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Recrawl.Enabled, w.cfg.Recrawl.Min, w.cfg.Recrawl.Max = true, time.Minute, 2*time.Minute
		ctx, stop := context.WithCancel(w.t.Context())
		defer stop()
		a := w.Site("a.test", server1).Page("/", "/x", "/y").Page("/x").Page("/y")
		w.watch = func(n *node.Node) {
			time.Sleep(10 * time.Minute)
			if s := n.Status(); s.Frontier.Pages != 3 || s.Frontier.Revisited < 9 {
				t.Errorf("%d pages known, %d visits", s.Frontier.Pages, s.Frontier.Revisited)
			}
			stop()
		}
		end, _ := w.crawl(ctx, "http://a.test/")
		if end.Reason == "idle" {
			t.Errorf("it ended by itself: %+v", end)
		}
		for _, path := range []string{"/", "/x", "/y"} {
			if n := a.Count(path); n < 4 || n > 11 {
				t.Errorf("%s was visited %d times in ten minutes, at least one and at most two minutes apart", path, n)
			}
		}
	})
}

// Revisits leave the limits of hosts and domains to other pages, and go on when these are reached.
func TestRecrawlWithinHostLimits(t *testing.T) {
	for _, limit := range []func(*node.Config){
		func(c *node.Config) { c.Crawl.MaxHostPages = 3 },
		func(c *node.Config) { c.Crawl.MaxDomainPages = 3 },
	} {
		inBubble(t, func(w *trial) {
			w.cfg.Recrawl.Enabled, w.cfg.Recrawl.Min, w.cfg.Recrawl.Max = true, time.Minute, 2*time.Minute
			limit(&w.cfg)
			ctx, stop := context.WithCancel(w.t.Context())
			defer stop()
			a := w.Site("a.test", server1).Page("/", "/x", "/y", "/z").Page("/x").Page("/y").Page("/z")
			w.watch = func(n *node.Node) {
				time.Sleep(10 * time.Minute)
				if s := n.Status(); s.Frontier.Pages != 3 || s.Frontier.Revisited < 9 {
					t.Errorf("%d pages known, %d visits", s.Frontier.Pages, s.Frontier.Revisited)
				}
				stop()
			}
			w.crawl(ctx, "http://a.test/")
			if n := a.Count("/") + a.Count("/x") + a.Count("/y") + a.Count("/z"); n < 12 {
				t.Errorf("%d pages asked for", n)
			}
		})
	}
}
