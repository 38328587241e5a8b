package crawl

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch"
	"proxima/frontier"
	"proxima/node/site"
)

// Outside its hours nobody has the right to ask a site, whatever the lease says; within them the lease decides.
func TestHoursAreAskedBeforeARequest(t *testing.T) {
	l := newReading(t)
	other := "00:00-24:00 " + time.Now().UTC().AddDate(0, 0, 3).Weekday().String()
	for _, c := range []struct {
		hours  string
		lease  error
		passes bool
	}{{"00:00-24:00", nil, true}, {"00:00-24:00", errors.New("no lease"), false}, {other, nil, false}} {
		h, err := site.ParseHours([]string{c.hours}, "UTC")
		must(t, err)
		req := fetch.Request{Gate: func() error { return c.lease }}
		l.customize(&req, &frontier.Task{}, &site.Settings{Times: h})
		if err := req.Gate(); (err == nil) != c.passes {
			t.Errorf("hours %s, lease %v: %v", c.hours, c.lease, err)
		}
	}
}

// A pattern of the blocklist is one of whole URLs.
func TestPatternBlocksURLs(t *testing.T) {
	b := newBed(t, new(web))
	b.block("http://a.example/p*")
	p := b.deps.Policy
	for url, blocked := range map[string]bool{"http://a.example/page": true, "http://a.example/x": false, "http://b.example/page": false} {
		if rule := p.Blocked(mustParse(t, url)); (rule != "") != blocked {
			t.Errorf("%s is blocked by %q", url, rule)
		}
	}
}

// A site is read from its directory, however few there are, and other sites and nodes without it ask servers.
func TestSiteOfADirectory(t *testing.T) {
	p := policy(t)
	name, files := "docs", new(fetch.Files)
	var err error
	p.Sites, err = site.New([]site.Entry{{Host: site.Names{"a.test"}, Files: &name}}, site.Settings{})
	must(t, err)
	if p.files("http://a.test") != nil {
		t.Error("read from a directory that is not there")
	}
	p.Files = map[string]*fetch.Files{name: files}
	if p.files("http://a.test") != files || p.files("http://b.test") != nil {
		t.Error("not read from its directory, or another site is")
	}
}

// A page that redirects to itself until it gets its cookie is asked again with it, and then read, unless its site is set to have no cookies.
// The pages that follow have the cookie at once.
func TestPageBehindACookie(t *testing.T) {
	yes, no := true, false
	for cookies, want := range map[*bool]string{nil: "/robots.txt /page /page /x", &yes: "/robots.txt /page /page /x", &no: "/robots.txt /page"} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{html: `<a href="/x">x</a>`, wall: func(r *http.Request) bool { return r.URL.Path != "/robots.txt" && withoutCookie(r) }}
			b := newBed(t, w)
			b.keepCookies(cookies)
			b.crawl(func() { time.Sleep(10 * time.Minute) })
			if got := w.requests(); got != want {
				t.Errorf("cookies %v: asked for %q, want %q", cookies, got, want)
			}
		})
	}
}

// A page that redirects to itself in spite of its cookie is not asked for a third time. A robots.txt behind a cookie is asked for once more.
func TestCookiesOfOtherPages(t *testing.T) {
	for want, wall := range map[string]func(*http.Request) bool{
		"/robots.txt /page /page":          func(r *http.Request) bool { return r.URL.Path != "/robots.txt" },
		"/robots.txt /robots.txt /page /x": withoutCookie,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{html: `<a href="/x">x</a>`, wall: wall}
			newBed(t, w).crawl(func() { time.Sleep(10 * time.Minute) })
			if got := w.requests(); got != want {
				t.Errorf("asked for %q, want %q", got, want)
			}
		})
	}
}

// A server may forget a cookie, as when it is restarted. The next page brings a new one, and is not lost.
func TestCookieThatIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &web{html: `<a href="/x">x</a>`, wall: func(r *http.Request) bool {
			asked++
			old := r.Header.Get("Cookie") == "a=2" && asked >= 4
			return r.URL.Path != "/robots.txt" && (withoutCookie(r) || old)
		}}
		newBed(t, w).crawl(func() { time.Sleep(10 * time.Minute) })
		if got := w.requests(); got != "/robots.txt /page /page /x /x" {
			t.Errorf("asked for %q", got)
		}
	})
}

// A page may redirect to one that looks for its cookie and redirects back. Where cookies are to be kept, it is asked again after that, if the
// cookie is one that it gets.
func TestPageBehindACheckOfCookies(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		cookies     *bool
		bound, want string
	}{
		"by default":      {nil, "", "/robots.txt /page /check"},
		"kept":            {&yes, "", "/robots.txt /page /check /page /x /y"},
		"for TLS alone":   {&yes, "; Secure", "/robots.txt /page /check"},
		"for other sites": {&yes, "; Domain=b.example", "/robots.txt /page /check"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &web{html: `<a href="/x">x</a><a href="/y">y</a>`, check: "/check", bound: c.bound, wall: func(r *http.Request) bool {
				return (r.URL.Path == "/page" || r.URL.Path == "/y") && withoutCookie(r)
			}}
			b := newBed(t, w)
			b.keepCookies(c.cookies)
			b.crawl(func() { time.Sleep(10 * time.Minute) })
			if got := w.requests(); got != c.want {
				t.Errorf("%s: asked for %q, want %q", name, got, c.want)
			}
		})
	}
}

func withoutCookie(r *http.Request) bool { return r.Header.Get("Cookie") == "" }
