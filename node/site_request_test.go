package node_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

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
		a := w.Site("a.test", server1).Page("/", "/image", "/large", "/endless", "/none", "/charset").
			Handle("/image", big("image/png", "")).Handle("/large", big("text/html", "10737418240")).Handle("/endless", big("text/html", "")).
			Handle("/none", big("", "")).Handle("/charset", Text("Text/HTML ; charset=utf-8", "<a href=/c>c</a>")).Page("/found").Page("/c")
		end, logs := w.run("http://a.test/")
		if n := written.Load(); n > 40<<20 {
			t.Errorf("%d bytes of 80 million were written", n)
		}
		w.dropped(end, "unwanted type: image/png", 1)
		w.dropped(end, "unwanted size: 10737418240 bytes", 1)
		w.same("a", a.Paths(), "/robots.txt", "/", "/image", "/large", "/endless", "/none", "/charset", "/found", "/c")
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
