package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch"
	"proxima/fetch/page"
	"proxima/fetch/robots"
	"proxima/fetch/sitemap"
	"proxima/frontier"
)

// Only links that were offered are remembered, each as what it is: all others are offered again.
func TestLinksAreOfferedUntilTheyAreRemembered(t *testing.T) {
	l := newReading(t)
	base := mustParse(t, "http://a.test/dir/page")
	links := []page.Link{{Ref: []byte("/nofollow"), NoFollow: true}}
	for _, ref := range []string{"x", "?query", "http://user@b.test:bad/", "../y", "/dir/x"} {
		links = append(links, page.Link{Ref: []byte(ref)})
	}
	for i, want := range []struct {
		offered string
		known   int
	}{
		{"http://a.test/dir/x http://a.test/dir/page?query http://a.test/y http://a.test/dir/x", 0},
		{"http://a.test/nofollow http://a.test/dir/page?query", 3},
	} {
		g := l.reader.gather()
		g.addLinks(base, links, 1, false)
		if offered := urls(g.links); offered != want.offered || g.known != want.known {
			t.Errorf("time %d: offered %q, %d known; want %+v", i, offered, g.known, want)
		}
		remember(g.fresh, nil)
		// The pool may have dropped it: what was released is looked at, whoever has it now.
		if l.reader.release(g); g.links != nil || len(g.drops)+len(g.fresh)+g.known != 0 {
			t.Errorf("left behind for the next page: %+v", g)
		}
		links[0].NoFollow = false
	}
}

// A robots.txt that is cut must not lose the end of a rule: half an Allow allows too much.
func TestRobotsCutInARule(t *testing.T) {
	l := newReading(t)
	const head, allow = "User-agent: *\nDisallow: /\n#", "\nAllow: /public/"
	kept := len(allow) - len("public/") // up to the path "/"
	body := head + strings.Repeat("x", robots.MaxBytes-len(head)-kept) + allow
	res := fetch.Result{Status: 200, Body: []byte(body)[:robots.MaxBytes+1], Truncated: "length"}
	task := &frontier.Task{Kind: frontier.Robots, Host: "http://a.test", URL: mustParse(t, "http://a.test/robots.txt")}
	var out frontier.Outcome
	l.reader.read(task, &res, &out, l.reader.gather())
	for from, rules := range map[string]*robots.Rules{
		"cache": l.reader.robots.get(task.Host),
		"disk":  robots.Parse(out.Robots.Body, l.deps.Policy.Agent),
	} {
		if rules.Allowed("/private") {
			t.Errorf("from %s: /private is allowed", from)
		}
	}
}

// Short links on a page whose address, or base, is long are long URLs: it has fewer of them than other pages.
func TestLinksOfAPageTakeLittleMemory(t *testing.T) {
	for length, want := range map[int]int{300: 10_000, 2000: 2097} {
		l := newReading(t)
		var body strings.Builder
		fmt.Fprintf(&body, "<base href='/%s/'>", strings.Repeat("b", length-len("http://a.test//")))
		for i := range 10_000 {
			fmt.Fprintf(&body, "<a href=%d>", i)
		}
		r := l.readPage(t, "http://a.test/", "", body.String())
		if dropped := l.Stats().Drops["too many links on a page"]; len(r.out.Links) != want || int(dropped) != 10_000-want || r.found != 10_000 {
			t.Errorf("below a base of %d bytes: %d links of %d, %d dropped", length, len(r.out.Links), r.found, dropped)
		}
	}
}

// Browsers follow the Refresh header of a page as they follow that in its head.
func TestRefreshHeader(t *testing.T) {
	l := newReading(t)
	for header, want := range map[string]string{"0; url=next": "http://a.test/dir/next", "5": "", "": ""} {
		r := l.readPage(t, "http://a.test/dir/page", "Refresh: "+header, "")
		if urls(r.out.Links) != want || r.found != len(r.out.Links) {
			t.Errorf("%q: %d links, %+v", header, r.found, r.out.Links)
		}
	}
}

// Proxies that change a page answer 203, and other programs 202 or 206: browsers show those like any page.
func TestLinksOfAnySuccess(t *testing.T) {
	l := newReading(t)
	for status, want := range map[int]string{200: "http://a.test/x", 202: "http://a.test/x", 203: "http://a.test/x", 206: "http://a.test/x", 302: "", 304: ""} {
		r := l.readPage(t, "http://a.test/", "", "")
		r.res.Status, r.res.Body = status, []byte("<a href=x>")
		g := l.reader.gather()
		l.reader.read(r.task, r.res, &r.out, g)
		if urls(g.links) != want {
			t.Errorf("%d: links %q, want %q", status, urls(g.links), want)
		}
	}
}

// Browsers show what has come of a page that breaks off. Where its framing is wrong each time, there will never be more.
func TestLinksOfABrokenBody(t *testing.T) {
	l := newReading(t)
	l.deps.Sitemap = sitemap.Default()
	for _, kind := range []frontier.Kind{frontier.Page, frontier.Sitemap} {
		for class, want := range map[fetch.Class]frontier.Ending{fetch.EOF: frontier.Again, fetch.TooSlow: frontier.Again, fetch.Decode: frontier.Failed,
			fetch.Canceled: frontier.Again, fetch.Unwanted: frontier.Dropped} {
			for body, links := range map[string]string{"": "", "<urlset><url><loc>http://a.test/x</loc></url><a href=/x><a href=/y": "http://a.test/x"} {
				task := &frontier.Task{Kind: kind, Host: "http://a.test", URL: mustParse(t, "http://a.test/page")}
				res := &fetch.Result{Status: 200, Class: class, Err: errors.New("broken"), Body: []byte(body), Header: http.Header{"Content-Type": {"text/html"}}}
				if class == fetch.Canceled || class == fetch.Unwanted {
					links = ""
				}
				if class == fetch.Unwanted {
					res.Body = nil
				}
				out := judge(res, time.Now())
				reason := out.Reason
				l.reader.read(task, res, &out, l.reader.gather())
				if urls(out.Links) != links || out.Ending != want || out.Reason != reason {
					t.Errorf("%v, %s, %q: links %q, %v, %q", kind, class, body, urls(out.Links), out.Ending, out.Reason)
				}
			}
		}
	}
}

// Some sites name a page as their sitemap, and pages link to sitemaps and feeds. All are read as what they are, where sitemaps are read.
func TestPagesAndSitemapsInEachOthersPlace(t *testing.T) {
	const (
		list = `<urlset><url><loc>/x</loc></url></urlset>`
		rss  = `<?xml version="1.0"?><rss><channel><item><link>http://a.test/x</link></item></channel></rss>`
	)
	for _, c := range []struct {
		kind              frontier.Kind
		contentType, body string
		want              string // the link, with "map" behind it if it is a sitemap
	}{
		{frontier.Sitemap, "text/html", "<p><a href=/x>", "http://a.test/x"},
		{frontier.Sitemap, "", "<!doctype html><a href=/x>", "http://a.test/x"},
		{frontier.Sitemap, "text/html", list, "http://a.test/x"},
		{frontier.Sitemap, "text/plain", "<p><a href=/x>", ""},
		{frontier.Page, "application/xml", list, "http://a.test/x"},
		{frontier.Page, "Text/XML; charset=utf-8", rss, "http://a.test/x"},
		{frontier.Page, "application/rss+xml", rss, "http://a.test/x"},
		{frontier.Page, "application/rdf+xml", "<rdf:RDF><item><link>/x</link></item></rdf:RDF>", "http://a.test/x"},
		{frontier.Page, "application/atom+xml", "<feed><entry><link href='/x'/></entry></feed>", "http://a.test/x"},
		{frontier.Page, "text/xml", "<sitemapindex><sitemap><loc>/x</loc></sitemap></sitemapindex>", "http://a.test/x map"},
		{frontier.Page, "text/xml", "<data><loc>/x</loc></data>", ""},
		{frontier.Page, "text/plain", "http://a.test/x", ""},
		{frontier.Page, "text/html", list, ""},
	} {
		for _, on := range []bool{true, false} {
			l := newReading(t)
			l.deps.Sitemap, l.reader.cfg.Sitemaps = sitemap.Default(), on
			task := &frontier.Task{Kind: c.kind, Host: "http://a.test", URL: mustParse(t, "http://a.test/dir/page"), Depth: 3}
			res := &fetch.Result{Status: 200, Header: http.Header{"Content-Type": {c.contentType}}, Body: []byte(c.body)}
			res.Header.Set("X-Robots-Tag", "otherbot: nofollow")
			var out frontier.Outcome
			found := l.reader.read(task, res, &out, l.reader.gather())
			got, want := urls(out.Links), c.want
			if !on && c.kind == frontier.Page {
				want = ""
			}
			if want != "" && (len(out.Links) != 1 || out.Links[0].Depth != 4) || found != len(out.Links) {
				t.Errorf("%s, %q: %d found, %+v", c.contentType, c.body, found, out.Links)
			} else if want != "" && out.Links[0].Sitemap {
				got += " map"
			}
			if got != want {
				t.Errorf("%v, %s, %q: %q, want %q", c.kind, c.contentType, c.body, got, want)
			}
			res.Header.Set("X-Robots-Tag", "nofollow")
			if g := l.reader.gather(); c.kind == frontier.Page && (l.reader.read(task, res, &out, g) > 0 || len(out.Links) > 0) {
				t.Errorf("%s, %q: %q in spite of nofollow", c.contentType, c.body, urls(out.Links))
			}
		}
	}
}

// A page in XML is read as one, whether sitemaps are or not.
func TestXHTMLSentAsXML(t *testing.T) {
	for _, on := range []bool{true, false} {
		l := newReading(t)
		l.deps.Sitemap, l.reader.cfg.Sitemaps = sitemap.Default(), on
		r := l.readPage(t, "http://a.test/", "Content-Type: application/xml", `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><a href="x">x</a></html>`)
		if got := urls(r.out.Links); got != "http://a.test/x" || r.out.Reason != "" {
			t.Errorf("sitemaps %v: %q, %s", on, got, r.out.Reason)
		}
	}
}

// What a sitemap has beyond its bounds is counted, and the log says so.
func TestSitemapBeyondItsBounds(t *testing.T) {
	l := newReading(t)
	l.deps.Sitemap = sitemap.Config{MaxBytes: 1 << 20, MaxURLs: 1, MaxRefBytes: 20}
	task := &frontier.Task{Kind: frontier.Sitemap, Host: "http://a.test", URL: mustParse(t, "http://a.test/sitemap")}
	for body, want := range map[string]struct {
		tooLong int64
		reason  string
	}{
		"http://a.test/1\n": {0, ""},
		"http://a.test/1\nhttp://a.test/longer-than-20\n": {1, ""},
		"http://a.test/1\nhttp://a.test/2\n":              {0, "sitemap is too large, its rest is not read"},
	} {
		before := l.Stats().Drops["too long"]
		var out frontier.Outcome
		found := l.reader.read(task, &fetch.Result{Status: 200, Body: []byte(body)}, &out, l.reader.gather())
		if dropped := l.Stats().Drops["too long"] - before; found != 1 || dropped != want.tooLong || out.Reason != want.reason {
			t.Errorf("%q: %d URLs, %d too long, reason %q; want %+v", body, found, dropped, out.Reason, want)
		}
	}
}

// Of a sitemap that is too long no URL is asked for that the limit has cut, and the log says so.
func TestSitemapIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: "http://a.example/one\nhttp://a.example/another"}
		b := newBed(t, w)
		b.deps.Sitemap = sitemap.Default()
		b.deps.Sitemap.MaxBytes = int64(len(w.html) - 3)
		_, err := b.deps.Frontier.Add(t.Context(), []frontier.Link{{URL: mustParse(t, "http://a.example/map"), Sitemap: true}})
		must(t, err)
		b.crawl(func() { time.Sleep(time.Minute) })
		log, err := os.ReadFile(b.log)
		if got := w.requests(); err != nil || !strings.Contains(got, "/one") || strings.Contains(got, "/ano") || !strings.Contains(string(log), "sitemap is too large") {
			t.Errorf("asked for %q; %v\n%s", got, err, log)
		}
	})
}

// Sitemaps wait for each other, until their URLs are on disk, and other pages do not wait for them.
func TestSitemapsInMemoryAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: `<urlset><url><loc>http://a.example/x</loc></url></urlset>`}
		b := newBed(t, w)
		b.deps.Sitemap = sitemap.Default()
		_, err := b.deps.Frontier.Add(t.Context(), []frontier.Link{{URL: mustParse(t, "http://a.example/map"), Sitemap: true}})
		must(t, err)
		for range maxSitemaps {
			b.sitemaps <- struct{}{}
		}
		b.crawl(func() {
			time.Sleep(time.Minute)
			if got := w.requests(); !strings.Contains(got, "/page") || !strings.Contains(got, "/map") || strings.Contains(got, "/x") {
				t.Errorf("while %d others are in memory: asked for %q", maxSitemaps, got)
			}
			<-b.sitemaps
			time.Sleep(time.Minute)
			if got := w.requests(); !strings.Contains(got, "/x") || len(b.sitemaps) != maxSitemaps-1 {
				t.Errorf("afterwards: asked for %q, %d in memory", got, len(b.sitemaps))
			}
		})
	})
}

// Reasons that name what is particular do not grow without bound, and nothing goes uncounted; nor do answers.
func TestReasonsForDropsAreBounded(t *testing.T) {
	l := newReading(t)
	const links = 5000
	for i := range links {
		l.DropLinks(fmt.Sprintf("refused by a peer: for reason %d", i), 1)
		l.DropLinks(fmt.Sprintf("blocked: host%d.test", i), 1)
	}
	drops := l.Stats().Drops
	counts := map[string]int64{}
	for reason, n := range drops {
		kind, _, _ := strings.Cut(reason, ":")
		counts[kind] += n
	}
	if counts["blocked"] != links || counts["refused by a peer"] != links || len(drops) > maxDropReasons+2 {
		t.Errorf("%v in %d reasons", counts, len(drops))
	}
	if drops["blocked: host0.test"] != 1 {
		t.Error("the first reasons are not told apart")
	}
	g := l.reader.gather()
	var answers Stats
	for range 3 {
		g.drop("nofollow")
		answers.row("404")
	}
	if answers.Rows["404"] != 3 {
		t.Errorf("of three answers, %v are counted", answers.Rows)
	}
	if want := []drop{{"nofollow", 3}}; !slices.Equal(g.drops, want) {
		t.Errorf("one page drops %v, want %v", g.drops, want)
	}
}

// A host that comes back from another node brings the robots.txt that was read there: what is remembered of it is no longer true.
func TestMovedHostsHaveNoRobotsInMemory(t *testing.T) {
	l := newReading(t)
	c := l.reader.robots
	for _, origin := range []string{"http://a.test", "https://a.test", "http://b.test", "http://a.test:8080"} {
		c.put(origin, robots.AllowAll(), 100)
	}
	l.Moved("http://a.test")
	for origin, want := range map[string]bool{"http://a.test": false, "https://a.test": true, "http://b.test": true, "http://a.test:8080": true} {
		if got := c.get(origin) != nil; got != want {
			t.Errorf("robots.txt of %s in memory: %v", origin, got)
		}
	}
	if want := 3 * (100 + robotsOverhead); c.bytes != want || c.lru.Len() != 3 {
		t.Errorf("%d bytes in %d files are counted, want %d in 3", c.bytes, c.lru.Len(), want)
	}
}

// A body that makes a parser panic costs its links, not the crawl: its page is not read again, and a robots.txt counts as unreachable.
func TestParserThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &web{html: "<a href=/x>"}
		b := newBed(t, w)
		b.deps.Policy.Rules = nil // the reader panics over links
		b.crawl(func() { time.Sleep(time.Hour) })
		if got := w.requests(); got != "/robots.txt /page" {
			t.Errorf("%q asked", got)
		}
		if log, err := os.ReadFile(b.log); err != nil || !strings.Contains(string(log), `"reason":"panic at identity/rules.go:`) {
			t.Errorf("%v, the log of fetches has no panic: %s", err, log)
		}
		task := &frontier.Task{Kind: frontier.Robots, Host: "http://a.example", URL: mustParse(t, "http://a.example/robots.txt")}
		res := &fetch.Result{Status: 301, Location: "/robots"}
		var out frontier.Outcome
		g := b.reader.gather()
		g.links, g.fresh = make([]frontier.Link, 1), make([]reference, 1)
		if b.reader.read(task, res, &out, g); len(g.links)+len(g.fresh) > 0 {
			t.Errorf("%d links are left, %d to be remembered, which nobody was offered", len(g.links), len(g.fresh))
		}
		if out.Ending != frontier.Again || out.Trouble != frontier.Busy || !strings.Contains(out.Reason, "panic") {
			t.Errorf("a robots.txt ends with %+v", out)
		}
	})
}
