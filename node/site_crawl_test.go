package node_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/site"
)

// siteTables reads [[site]] tables.
func siteTables(t *testing.T, text string) []site.Entry {
	t.Helper()
	c, err := node.Parse("test.toml", text)
	must(t, err)
	return c.Site
}

// sites gives the node of a trial [[site]] tables.
func (w *trial) sites(text string) { w.cfg.Site = siteTables(w.t, text) }

func TestSiteGapAndBudget(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.sites("[[site]]\nhost = \"a.test\"\ngap = \"7s\"\nbudget = 4\n[[site]]\nhost = \"c.test\"\ngap = \"1s\"\n")
		w.cfg.Politeness.MinGap = time.Second // of which judge knows
		a := w.Site("a.test", server1).Pages(20)
		b := w.Site("b.test", server2).Pages(20)
		w.run("http://a.test/", "http://b.test/")
		if all := gaps(a.Visits()); slices.Min(all) < 7*time.Second || len(pages(a.Visits())) != 4 {
			t.Errorf("%q of a.test with a budget of 4, after %v", a.Paths(), all)
		}
		if all := gaps(b.Visits()); slices.Max(all) > 2*time.Second || len(pages(b.Visits())) != 21 {
			t.Errorf("%q of b.test, after %v", b.Paths(), all)
		}
	})
}

func TestSiteDepth(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Scope.MaxDepth = 2
		w.sites("[[site]]\nhost = \"a.test\"\ndepth = 1\n[[site]]\nhost = \"b.test\"\ndepth = 0\n")
		chain := func(s *Site) *Site {
			return s.Page("/", "/1").Page("/1", "/2").Page("/2", "/3").Page("/3", "/4").Page("/4")
		}
		a, b, c := chain(w.Site("a.test", server1)), chain(w.Site("b.test", server2)), chain(w.Site("c.test", server3))
		end, _ := w.run("http://a.test/", "http://b.test/", "http://c.test/")
		w.same("a", a.Paths(), "/robots.txt", "/", "/1")
		w.same("b", b.Paths(), "/robots.txt", "/", "/1", "/2", "/3", "/4")
		w.same("c", c.Paths(), "/robots.txt", "/", "/1", "/2")
		w.dropped(end, string(identity.TooDeep), 2)
	})
}

func TestSitePatternsAndExtensions(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Scope.SkipExtensions = []string{"zip"}
		w.sites(`
[[site]]
host = "a.test"
include = ["/", "/docs/*", "*.zip"]
exclude = ["*/private/*"]
[[site]]
host = "b.test"
skip_extensions = ["PDF"]
`)
		links := []string{"/docs/a", "/docs/private/b", "/other", "/docs/c.zip", "/docs/d.pdf"}
		a := w.Site("a.test", server1).Robots("Sitemap: /sitemap.xml").Page("/", links...).Page("/docs/a").Page("/docs/d.pdf").
			Handle("/sitemap.xml", Text("text/plain", "http://a.test/docs/e\nhttp://a.test/f\n")).Page("/docs/e")
		b := w.Site("b.test", server2).Page("/", links...).Page("/docs/a").Page("/docs/private/b").Page("/other").Page("/docs/c.zip")
		end, _ := w.run("http://a.test/", "http://b.test/", "http://a.test/private/seed")
		w.same("a", a.Paths(), "/robots.txt", "/sitemap.xml", "/", "/docs/a", "/docs/d.pdf", "/docs/e")
		w.same("b", b.Paths(), "/robots.txt", "/", "/docs/a", "/docs/private/b", "/other", "/docs/c.zip")
		w.dropped(end, site.Extension, 2)
		w.dropped(end, site.Excluded, 1)
		w.dropped(end, site.NotIncluded, 2)
		if end.SeedsRefused[site.NotIncluded] != 1 {
			t.Errorf("seeds refused: %v", end.SeedsRefused)
		}
	})
}

// TestSitePriority: what has the higher rank comes first, within what is in memory.
func TestSitePriority(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.sites(`
[[site]]
host = "a.test"
priority_per_link = -10
[[site]]
host = "a.test"
path = "/news/*"
priority = 25
`)
		a := w.Site("a.test", server1).Page("/", "/1", "/2", "/news/3", "/4").
			Page("/1", "/1/1").Page("/2").Page("/news/3", "/news/3/1", "/news/3/2").Page("/4").Page("/1/1").Page("/news/3/1").Page("/news/3/2")
		w.run("http://a.test/")
		want := "/robots.txt / /news/3 /news/3/1 /news/3/2 /1 /2 /4 /1/1"
		if got := strings.Join(a.Paths(), " "); got != want {
			t.Errorf("asked in the order %s, want %s", got, want)
		}
	})
}

// TestSiteHours: no request outside, the crawl goes on when the hours begin, by the clock of their zone, and what it waits for is said. Package site
// tests which times are within hours.
func TestSiteHours(t *testing.T) {
	inBubble(t, func(w *trial) {
		const hours, zone = "02:50-02:52, 03:10-03:12, 04:00-04:02", "Europe/Nicosia"
		time.Sleep(85*24*time.Hour + 51*time.Minute) // it is 2000-03-26 02:51 +0200, just before summer time
		begun := time.Now()
		w.sites("[[site]]\nhost = \"a.test\"\nhours = \"" + hours + "\"\nzone = \"" + zone + "\"\n")
		a := w.Site("a.test", server1).Pages(14)
		b := w.Site("b.test", server2).Pages(3)
		w.watch = func(n *node.Node) {
			time.Sleep(5 * time.Minute)
			if waiting := n.Status().Frontier.Hosts; waiting["hours"] != 1 || len(pages(b.Visits())) != 4 {
				t.Errorf("after 5 minutes hosts wait like this: %v, and another one gave %d pages", waiting, len(pages(b.Visits())))
			}
		}
		w.cfg.Politeness.MinGap = 5 * time.Second
		w.run("http://a.test/", "http://b.test/")
		h, err := site.ParseHours([]string{hours}, zone)
		if err != nil || len(pages(a.Visits())) != 15 {
			t.Fatalf("%d pages: %v", len(pages(a.Visits())), err)
		}
		waits, before := 0, begun
		for _, v := range a.Visits() {
			if v.Start.Sub(before) > 5*time.Minute {
				waits++
				if next, _ := h.Next(before.Add(2 * time.Minute)); v.Start.Sub(next) > 10*time.Second {
					t.Errorf("it went on %v after its hours began", v.Start.Sub(next))
				}
			}
			if before = v.Start; !h.Open(v.Start) {
				t.Errorf("%s came at %v", v.Path, v.Start)
			}
		}
		if waits == 0 {
			t.Error("it never waited")
		}
	})
}

// TestSiteRecrawl: the time between two visits is that of the site.
func TestSiteRecrawl(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Recrawl.Enabled, w.cfg.Recrawl.Min, w.cfg.Recrawl.Max = true, 10*time.Minute, 10*time.Minute
		w.sites("[[site]]\nhost = \"a.test\"\nrecrawl_max = \"2m\"\n[[site]]\nhost = \"b.test\"\nrecrawl_min = \"1h\"\n")
		a, b, c := w.Site("a.test", server1).Page("/"), w.Site("b.test", server2).Page("/"), w.Site("c.test", server3).Page("/")
		ctx, cancel := context.WithTimeout(w.t.Context(), 35*time.Minute)
		defer cancel()
		w.crawl(ctx, "http://a.test/", "http://b.test/", "http://c.test/")
		if x, y, z := a.Count("/"), b.Count("/"), c.Count("/"); x < 10 || x > 18 || y != 1 || z < 3 || z > 4 {
			t.Errorf("in 35 minutes %d visits every 2 minutes, %d every hour, %d every 10 minutes", x, y, z)
		}
	})
}

// TestSiteRequests: agent, headers and cookies of a site go to it and to no other, redirects or not.
func TestSiteRequests(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Fetch.Contact, w.cfg.Fetch.From = "https://example.org/bot", "bot@example.org"
		w.sites(`
[[site]]
host = "a.test"
user_agent = "Other/2.0"
cookies = true
headers = { Authorization = "Bearer hunter2", Accept-Language = "el" }
[[site]]
prefix = "a.test/plain"
cookies = false
headers = { Authorization = "" }
`)
		var mu sync.Mutex
		seen := map[string]http.Header{}
		note := func(next http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Host+r.URL.Path] = r.Header.Clone()
				mu.Unlock()
				next(rw, r)
			}
		}
		html := func(body string, cookies ...string) http.HandlerFunc {
			return note(func(rw http.ResponseWriter, r *http.Request) {
				for _, c := range cookies {
					rw.Header().Add("Set-Cookie", c)
				}
				Text("text/html", body)(rw, r)
			})
		}
		w.Site("a.test", server1).
			Handle("/robots.txt", note(Text("text/plain", "User-agent: other\nDisallow: /no\n\nUser-agent: proxima\nDisallow: /x\n"))).
			Handle("/", html(`<a href=/x>x</a><a href=/no>n</a><a href=/plain>p</a><a href=/away>a</a><a href=/quiet>q</a>`, "s=1; Path=/", "evil=1; Domain=b.test")).
			Handle("/x", html("")).Handle("/no", html("")).Handle("/plain", html("")).
			Handle("/away", note(func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, "http://b.test/to", http.StatusFound)
			})).
			Handle("/quiet", html(`<meta name=other content=nofollow><a href=/hidden>h</a>`)).Handle("/hidden", html(""))
		w.Site("b.test", server2).Handle("/robots.txt", note(http.NotFound)).Handle("/to", html("", "b=1; Path=/")).Handle("/", html("")).Page("/")
		w.run("http://a.test/", "http://b.test/")
		for url, want := range map[string][4]string{ // User-Agent, Authorization, Accept-Language, Cookie
			"a.test/robots.txt": {"Other/2.0 (+https://example.org/bot)", "Bearer hunter2", "el", ""},
			"a.test/x":          {"Other/2.0 (+https://example.org/bot)", "Bearer hunter2", "el", "s=1"},
			"a.test/plain":      {"Other/2.0 (+https://example.org/bot)", "", "el", ""},
			"b.test/robots.txt": {"Proxima/1.0 (+https://example.org/bot)", "", "", ""},
			"b.test/to":         {"Proxima/1.0 (+https://example.org/bot)", "", "", ""},
		} {
			h := seen[url]
			if got := [4]string{h.Get("User-Agent"), h.Get("Authorization"), h.Get("Accept-Language"), h.Get("Cookie")}; got != want {
				t.Errorf("%s was asked with %q, want %q", url, got, want)
			}
		}
		for _, url := range []string{"a.test/no", "a.test/hidden"} {
			if seen[url] != nil {
				t.Errorf("%s was asked for though the agent of the site must not", url)
			}
		}
	})
}

// TestUnwantedTypesAndSizes: they cost a head, and no body.
func TestUnwantedTypesAndSizes(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.cfg.Fetch.ContentTypes, w.cfg.Fetch.MaxSize = []string{"text/*", "application/xhtml+xml"}, 100_000
		w.sites("[[site]]\nhost = \"b.test\"\ncontent_types = []\nmax_size = 0\n")
		var written atomic.Int64
		big := func(kind, length string) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				rw.Header().Set("Content-Type", kind)
				rw.Header().Set("Content-Length", length)
				if length == "" {
					rw.Header().Del("Content-Length")
				}
				for range 1000 {
					n, err := io.WriteString(rw, strings.Repeat("<a href=/found>x</a>", 1000))
					if written.Add(int64(n)); err != nil {
						return
					}
				}
			}
		}
		a := w.Site("a.test", server1).Page("/", "/image", "/large", "/larger", "/endless", "/none", "/charset").
			Handle("/image", big("image/png", "")).Handle("/large", big("text/html", "10737418240")).Handle("/larger", big("text/html", "10737418241")).Handle("/endless", big("text/html", "")).
			Handle("/none", big("", "")).Handle("/charset", Text("Text/HTML ; charset=utf-8", "<a href=/c>c</a>")).Page("/found").Page("/c")
		end, logs := w.run("http://a.test/")
		if n := written.Load(); n > 40<<20 {
			t.Errorf("%d bytes of 80 million were written", n)
		}
		w.dropped(end, "unwanted type: image/png", 1)
		w.dropped(end, "unwanted size", 2) // not by size: each page has another one
		if l := logs.of("http://a.test/large"); len(l) != 1 || !strings.HasSuffix(l[0].Reason, "unwanted size: 10737418240 bytes") {
			t.Errorf("the log says: %+v", l)
		}
		w.same("a", a.Paths(), "/robots.txt", "/", "/image", "/large", "/larger", "/endless", "/none", "/charset", "/found", "/c")
		for path, bytes := range map[string]int64{"/image": 0, "/large": 0, "/endless": 100_000} {
			if l := logs.of("http://a.test" + path); len(l) != 1 || l[0].Status != 200 || l[0].Bytes != bytes {
				t.Errorf("the log says of %s: %+v", path, l)
			}
		}
		w.Site("b.test", server2).Page("/", "/image").Handle("/image", Text("image/png", strings.Repeat("x", 200_000)))
		w.cfg.Node.Data += "b"
		if end, _ := w.run("http://b.test/"); end.Frontier.Done != 2 {
			t.Errorf("of b.test %d URLs are done: %v", end.Frontier.Done, end.Frontier.Reasons)
		}
	})
}
