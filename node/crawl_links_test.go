package node_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// TestRedirects: a redirect is a link with one hop more. It obeys robots.txt, scope and politeness of where it leads.
func TestRedirects(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Robots("User-agent: *", "Disallow: /forbidden").
			Page("/", "/chain1", "/ring1", "/long/0", "/away", "/to-forbidden", "/nowhere", "/bad", "/self").
			Redirect("/chain1", "/chain2").Redirect("/chain2", "//b.test/chain3").Page("/end").
			Redirect("/ring1", "/ring2").Redirect("/ring2", "/ring1").
			Redirect("/away", "http://c.test/").Redirect("/to-forbidden", "/forbidden").Page("/forbidden").
			Redirect("/nowhere", "").Redirect("/bad", "http://[").Redirect("/self", "/self")
		for i := range 20 {
			a.Redirect(fmt.Sprintf("/long/%d", i), fmt.Sprintf("%d", i+1))
		}
		b := w.Site("b.test", server2).Redirect("/chain3", "http://a.test/end")
		c := w.Site("c.test", server3).Page("/")
		w.cfg.Scope.Exclude.Hosts = []string{"c.test"}
		w.cfg.Scope.MaxHops = 4
		end, logs := w.run("http://a.test/")
		w.same("requests", a.Paths(), "/robots.txt", "/", "/chain1", "/chain2", "/end", "/ring1", "/ring2", "/away", "/to-forbidden",
			"/nowhere", "/bad", "/self", "/long/0", "/long/1", "/long/2", "/long/3", "/long/4")
		w.same("requests to b", b.Paths(), "/robots.txt", "/chain3")
		w.same("requests to c", c.Paths())
		w.dropped(end, string(identity.TooManyHops), 1)
		w.dropped(end, string(identity.Excluded), 1)
		w.dropped(end, string(identity.Malformed), 1)
		w.dropped(end, "robots.txt disallows", 1)
		for url, hops := range map[string]int{"http://a.test/chain1": 0, "http://a.test/chain2": 1, "http://b.test/chain3": 2,
			"http://a.test/end": 3, "http://a.test/long/4": 4} {
			if l := logs.of(url); len(l) != 1 || l[0].Hops != hops || l[0].Depth != 1 {
				t.Errorf("%s: %+v, want %d hops at depth 1", url, l, hops)
			}
		}
	})
}

// TestLinks: which links of a page are followed.
func TestLinks(t *testing.T) {
	html := func(header, value, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if header != "" {
				w.Header().Set(header, value)
			}
			Text("text/html", body)(w, r)
		}
	}
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		want    []string
		dropped string // one link for this reason
	}{
		{"plain", html("", "", `<a href=/x>x</a><a href="y?q=1#f">`), []string{plainA + "/x", plainA + "/y?q=1"}, ""},
		{"rel nofollow", html("", "", `<a rel="me nofollow" href=/x>x</a><a href=/y>`), []string{plainA + "/y"}, "nofollow"},
		{"meta nofollow", html("", "", `<meta name=robots content="noindex, nofollow"><a href=/x>x</a>`), nil, ""},
		{"meta none", html("", "", `<meta name=robots content=none><a href=/x>x</a>`), nil, ""},
		{"meta for another", html("", "", `<meta name=otherbot content=nofollow><a href=/x>x</a>`), []string{plainA + "/x"}, ""},
		{"meta noindex", html("", "", `<meta name=robots content=noindex><a href=/x>x</a>`), []string{plainA + "/x"}, ""},
		{"header nofollow", html("X-Robots-Tag", "nofollow", `<a href=/x>x</a>`), nil, ""},
		{"header for another", html("X-Robots-Tag", "otherbot: nofollow", `<a href=/x>x</a>`), []string{plainA + "/x"}, ""},
		{"header for this one", html("X-Robots-Tag", "proxima: nofollow", `<a href=/x>x</a>`), nil, ""},
		{"base", html("", "", `<base href="/d/e"><a href=x>x</a>`), []string{plainA + "/d/x"}, ""},
		{"base of another host", html("", "", `<base href="http://b.test/d/"><a href=x>x</a>`), []string{"http://b.test/d/x"}, ""},
		{"schemes", html("", "", `<a href="mailto:a@a.test">m</a><a href=/x>x</a>`), []string{plainA + "/x"}, ""},
		{"image", html("Content-Type", "image/png", ``), nil, ""},
		{"not found", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
			io.WriteString(w, `<a href=/x>x</a>`)
		}, nil, ""},
		{"repeated", html("", "", `<a href=/x>x</a><a href="/x#1">x</a><a href="http://A.test:80/x">`), []string{plainA + "/x"}, ""},
		{"tracked", html("", "", `<a href="/x?utm_source=a&b=1">x</a>`), []string{plainA + "/x?b=1"}, ""},
	} {
		each(t, c.name, func(t *testing.T, w *trial) {
			a := w.Site("a.test", server1).Handle("/", c.answer)
			b := w.Site("b.test", server2)
			end, _ := w.run("http://a.test/")
			w.same("asked for", urls(pages(append(a.Visits(), b.Visits()...))), append(c.want, plainA+"/")...)
			if c.dropped != "" {
				w.dropped(end, c.dropped, 1)
			}
		})
	}
}

// TestSitemaps: robots.txt names an index, the index two sitemaps, and they name pages that nothing links to.
func TestSitemaps(t *testing.T) {
	for _, follow := range []bool{true, false} {
		inBubble(t, func(w *trial) {
			const ns = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"`
			gz := func(text string) string { return gzipped(t, func(z io.Writer) { io.WriteString(z, text) }) }
			a := w.Site("a.test", server1).
				Robots("User-agent: *", "Disallow: /no", "Sitemap: http://a.test/index.xml", "Sitemap: /missing.xml").
				Handle("/index.xml", Text("application/xml", `<?xml version="1.0"?><sitemapindex `+ns+`>
					<sitemap><loc>http://a.test/one.xml.gz</loc></sitemap><sitemap><loc>http://a.test/two.xml</loc></sitemap>
					<sitemap><loc>http://a.test/index.xml</loc></sitemap></sitemapindex>`)).
				Handle("/one.xml.gz", Text("application/gzip", gz(`<urlset `+ns+`><url><loc>http://a.test/one</loc></url>
					<url><loc>http://a.test/no</loc></url></urlset>`))).
				Redirect("/two.xml", "/two.txt").
				Handle("/two.txt", Text("text/plain", "http://a.test/two\nhttp://a.test/one\n")).
				Page("/").Page("/one").Page("/two").Page("/no")
			w.cfg.Crawl.Sitemaps = follow
			end, logs := w.run("http://a.test/")
			if !follow {
				w.same("requests without sitemaps", a.Paths(), "/robots.txt", "/")
				return
			}
			w.same("requests", a.Paths(), "/robots.txt", "/", "/index.xml", "/missing.xml", "/one.xml.gz", "/two.xml", "/two.txt", "/one", "/two")
			w.dropped(end, "robots.txt disallows", 1)
			kinds := map[string]int{}
			for _, f := range logs.fetches {
				kinds[f.Kind]++
			}
			if kinds[runlog.KindRobots] != 1 || kinds[runlog.KindSitemap] != 5 || kinds[runlog.KindPage] != 3 || end.Pages != 3 {
				t.Errorf("kinds %v, %d pages", kinds, end.Pages)
			}
		})
	}
}

// TestMaxDepth: the depth of a page is that of the shortest way to it, even where a longer one was found first. TestSiteDepth has what is too deep.
func TestMaxDepth(t *testing.T) {
	inBubble(t, func(w *trial) {
		// /x is found at depth 2 by the first server, and at depth 1 from the slow second while it is pending.
		w.Site("a.test", server1).Page("/", "/a", "/b", "/c", "/d", "/e", "/f").Page("/a", "/x").Page("/x", "/y").Page("/y")
		w.Site("b.test", server2).Page("/", "http://a.test/x").Took(9 * time.Second)
		w.cfg.Scope.MaxDepth = 2
		_, logs := w.run("http://a.test/", "http://b.test/")
		for path, depth := range map[string]int{"/": 0, "/a": 1, "/x": 1, "/y": 2} {
			if l := logs.of("http://a.test" + path); len(l) != 1 || l[0].Depth != depth {
				t.Errorf("%s: %+v, want depth %d", path, l, depth)
			}
		}
	})
}
