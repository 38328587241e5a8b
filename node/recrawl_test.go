package node_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/runlog"
)

// prose is a page with enough text to be one.
func prose(title, text string) string {
	return "<html><head><title>" + title + "</title></head><body><p>" + strings.Repeat(text+" ", 30) + "</p></body></html>"
}

// aging is a page that is another in each age of its site.
type aging func(age int, w http.ResponseWriter, r *http.Request)

// always answers with the same text.
func always(title, text string) aging {
	return func(_ int, w http.ResponseWriter, r *http.Request) {
		Text("text/html", prose(title, text))(w, r)
	}
}

// from answers with a status from an age on, until another one.
func (page aging) from(first, last, status int, header ...string) aging {
	return func(age int, w http.ResponseWriter, r *http.Request) {
		if age >= first && age <= last {
			Status(status, header...)(w, r)
			return
		}
		page(age, w, r)
	}
}

// with adds a header field to the page, and answers those who have what it says already that nothing has changed.
func (page aging) with(name, value, ask string) aging {
	return func(age int, w http.ResponseWriter, r *http.Request) {
		if w.Header().Set(name, value); ask != "" && r.Header.Get(ask) == value {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		page(age, w, r)
	}
}

// What became of each page since the last visit is found out at the least cost, told, and lost by nobody.
func TestRecrawlChanges(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Recrawl.Age = time.Hour
		w.cfg.Politeness.RetryPage = []time.Duration{time.Second}
		longAgo := time.Now().Add(-100 * time.Hour).UTC().Format(http.TimeFormat)
		future := time.Now().Add(1e6 * time.Hour).UTC().Format(http.TimeFormat)
		same := always("page", "always the same words")
		age, asked := 0, map[string][]http.Header{} // by path
		a := w.Site("a.test", server1).Page("/target")
		all := []struct {
			path   string
			page   aging
			change string // what the log says of it
			times  int    // that it is asked for in three ages; of those that failed there is one more try
			asks   string // the header field that asks for changes only
		}{
			{"/etag", same.with("ETag", `"v1"`, "If-None-Match"), "", 3, "If-None-Match"},
			{"/date", same.with("Last-Modified", longAgo, "If-Modified-Since"), "", 3, "If-Modified-Since"},
			{"/long-etag", same.with("ETag", `"`+strings.Repeat("x", 10_000)+`"`, ""), "", 3, ""},
			{"/future", same.with("Last-Modified", future, ""), "", 3, ""},
			{"/plain", same, "", 3, ""},
			{"/counter", func(age int, w http.ResponseWriter, r *http.Request) {
				Text("text/html", prose("page", "always the same words")+fmt.Sprintf("<!-- %d -->", age))(w, r)
			}, "trivial trivial", 3, ""},
			{"/text", func(age int, w http.ResponseWriter, r *http.Request) {
				always("text", []string{"the first news of all", "something else happened today", "something else happened today"}[age])(age, w, r)
			}, "changed", 3, ""},
			{"/soft", func(age int, w http.ResponseWriter, r *http.Request) {
				if age == 0 {
					same(age, w, r)
				} else {
					Text("text/html", "<html><head><title>a.test | Page not found</title></head><body>Sorry.</body></html>")(w, r)
				}
			}, "gone", 3, ""},
			{"/gone", same.from(1, 1, http.StatusNotFound), "gone back", 3, ""},
			{"/moved", same.from(1, 2, http.StatusMovedPermanently, "Location", "/target"), "moved", 2, ""},
			{"/broken", same.from(1, 1, http.StatusInternalServerError), "", 4, ""},
			{"/not-modified", same.from(1, 1, http.StatusNotModified), "", 3, ""},
		}
		var paths []string
		for _, p := range all {
			paths = append(paths, p.path)
			a.Handle(p.path, func(w http.ResponseWriter, r *http.Request) {
				asked[p.path] = append(asked[p.path], r.Header.Clone())
				p.page(age, w, r)
			})
		}
		a.Page("/", paths...)

		_, logs := w.run("http://a.test/")
		if got := readLog[runlog.Change](t, logs.dir, runlog.LogChange); len(got) > 0 {
			t.Errorf("changes of pages never seen before: %+v", got)
		}
		time.Sleep(10 * time.Minute)
		w.run("http://a.test/")
		for path, asked := range asked {
			if len(asked) != 1 {
				t.Errorf("%s was asked for %d times, though it is younger than the age", path, len(asked))
			}
		}
		for age = 1; age <= 2; age++ {
			time.Sleep(2 * time.Hour)
			w.run("http://a.test/")
		}
		what := map[string][]string{}
		for _, e := range readLog[runlog.Change](t, logs.dir, runlog.LogChange) {
			path := strings.TrimPrefix(e.URL, "http://a.test")
			what[path] = append(what[path], e.What)
			if e.SeenBefore.IsZero() || e.Visits < 2 || e.What == runlog.ChangeChanged && e.Distance == 0 {
				t.Errorf("%+v", e)
			}
		}
		for _, p := range all {
			if got := strings.Join(what[p.path], " "); got != p.change || len(asked[p.path]) != p.times {
				t.Errorf("%s: %q, asked for %d times, want %q and %d", p.path, got, len(asked[p.path]), p.change, p.times)
			}
			for i, h := range asked[p.path] {
				for _, field := range []string{"If-None-Match", "If-Modified-Since"} {
					if got := h.Get(field); (got != "") != (i > 0 && p.asks == field) {
						t.Errorf("%s, time %d: %s %.20q", p.path, i, field, got)
					}
				}
			}
		}
		if n := a.Count("/target"); n != 2 { // found in the second age, and visited in the third
			t.Errorf("the target was asked for %d times", n)
		}
	})
}

// A page that has not changed since the scope did is had whole once more: "not modified" has none of the links that were left out.
func TestRecrawlFindsWhatWasOutOfScope(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Recrawl.Age, w.cfg.Scope.SeedScope = time.Hour, identity.ScopeHost
		var notes []string
		w.opened = func(n *node.Node) { notes = n.Notes() }
		a, b := w.Site("a.test", server1), w.Site("b.test", server2).Page("/")
		var asked []string
		a.Handle("/", func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Header.Get("If-None-Match"))
			if w.Header().Set("ETag", `"v1"`); r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			Text("text/html", `<a href="http://b.test/">b</a>`)(w, r)
		})
		for _, scope := range []string{identity.ScopeHost, identity.ScopeHost, identity.ScopeAny, identity.ScopeAny} {
			w.cfg.Scope.SeedScope = scope
			w.run("http://a.test/")
			if told := strings.Contains(strings.Join(notes, "\n"), "as their pages are visited again"); told != (len(asked) == 3) {
				t.Errorf("visit %d: %q", len(asked), notes)
			}
			time.Sleep(2 * time.Hour)
		}
		if diff := cmp.Diff([]string{"", `"v1"`, "", `"v1"`}, asked); diff != "" || b.Count("/") != 2 {
			t.Errorf("validators: %s; b.test was asked for %d times, want 2", diff, b.Count("/"))
		}
	})
}

// A continuous crawl visits pages again until it is stopped. Revisits leave the limits of hosts and domains to other pages, and go on when these
// are reached.
func TestRecrawlContinues(t *testing.T) {
	for _, limit := range []func(*node.Config){
		func(*node.Config) {},
		func(c *node.Config) { c.Crawl.MaxHostPages = 3 },
		func(c *node.Config) { c.Crawl.MaxDomainPages = 3 },
	} {
		inBubble(t, func(w *trial) {
			w.cfg.Recrawl.Enabled, w.cfg.Recrawl.Min, w.cfg.Recrawl.Max = true, time.Minute, 2*time.Minute
			limit(&w.cfg)
			known := []string{"/", "/x", "/y"}
			a := w.Site("a.test", server1).Page("/", "/x", "/y").Page("/x", "/z").Page("/y", "/z")
			if w.cfg.Crawl.MaxHostPages+w.cfg.Crawl.MaxDomainPages == 0 {
				known = append(known, "/z")
				a.Page("/z")
			}
			ctx, stop := context.WithCancel(w.t.Context())
			defer stop()
			w.watch = func(n *node.Node) {
				time.Sleep(10 * time.Minute)
				if s := n.Status(); int(s.Frontier.Pages) != len(known) || s.Frontier.Revisited < 9 {
					t.Errorf("%d pages known, %d visits", s.Frontier.Pages, s.Frontier.Revisited)
				}
				stop()
			}
			if end, _ := w.crawl(ctx, "http://a.test/"); end.Reason != "stopped" {
				t.Errorf("it ended by itself: %+v", end)
			}
			for _, path := range known {
				if n := a.Count(path); n < 4 || n > 11 {
					t.Errorf("%s was visited %d times in ten minutes, at least one and at most two minutes apart", path, n)
				}
			}
		})
	}
}

// TestOverlayRecrawl: hosts take what is known of their pages along, to whom they are handed and who goes on after the
// owner's death; pages are visited again there, and none is new.
func TestOverlayRecrawl(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) {
			c.Recrawl.Enabled, c.Recrawl.Min, c.Recrawl.Max = true, 2*time.Minute, 4*time.Minute
		}
		const n = 10
		for home := range b.nodes {
			b.site(b.homed(home), address(home), beside(b.nodes[2].at), n, 500)
		}
		b.startAll(80 * time.Second)
		all := len(b.sites) * (n + 1)
		known := func() (pages int, visits uint64) {
			for _, n := range b.nodes {
				if n.node != nil && !n.dead.Load() {
					s := n.node.Status()
					pages, visits = pages+int(s.Frontier.Pages), visits+s.Frontier.Revisited
				}
			}
			return pages, visits
		}
		b.await("all pages known and visited again", 30*time.Minute, func() bool {
			pages, visits := known()
			return pages == all && visits > uint64(2*all)
		})
		victim := slices.MaxFunc([]int{1, 2, 3}, func(i, k int) int {
			return int(b.nodes[i].node.Status().Frontier.Pages - b.nodes[k].node.Status().Frontier.Pages)
		})
		if b.nodes[victim].node.Status().Frontier.Pages == 0 {
			t.Fatal("nobody has any to lose")
		}
		b.kill(victim)
		died := time.Now()
		b.await("all pages known elsewhere", 10*time.Minute, func() bool {
			pages, _ := known()
			return pages == all
		})
		time.Sleep(10 * time.Minute)
		revisits := map[string]int{}
		fresh := 0
		for i := range b.nodes {
			for _, f := range logged[runlog.Fetch](b, i, runlog.LogFetch) {
				if f.Kind != runlog.KindPage || f.Time.Before(died) || f.Batch != "" { // a batch times nodes with pages that are due
					continue
				}
				if f.Origin == runlog.OriginRevisit {
					revisits[f.URL]++
				} else {
					fresh++
				}
			}
		}
		if len(revisits) != all || fresh > len(b.sites) { // as new came what its replica had not been told yet
			t.Errorf("%d of %d pages were visited again after the death, and %d downloaded as new", len(revisits), all, fresh)
		}
	})
}
