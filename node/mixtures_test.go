package node_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"proxima/node/runlog"
)

// byScheme answers by http and by https.
func byScheme(plain, secure http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil {
			secure(w, r)
		} else {
			plain(w, r)
		}
	}
}

// to redirects to the same path elsewhere.
func to(status int, origin string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", origin+r.URL.RequestURI())
		w.WriteHeader(status)
	}
}

// html is a page with links.
func html(refs ...string) http.HandlerFunc {
	body := "<!doctype html><title>page</title>"
	for _, ref := range refs {
		body += fmt.Sprintf("<a href=%q>link</a>", ref)
	}
	return Text("text/html", body)
}

// at puts an origin before paths.
func at(origin string, paths ...string) []string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = origin + p
	}
	return out
}

const (
	plainA  = "http://a.test"
	secureA = "https://a.test"
)

// mixture is a site that is there by http, by https, or by both in some way.
type mixture struct {
	name  string
	build func(w *trial)
	seed  string
	want  []string // the pages that a perfect crawler finds
	// most is how many pages may be asked for to find them, where not 0.
	most int
	// lost is how many of the pages may be missed.
	lost int
}

// whole builds a site of n pages, whose links have an origin, from what makes the answer of each page.
func whole(n int, links string, answer func(page http.HandlerFunc) http.HandlerFunc) func(w *trial) {
	return func(w *trial) {
		s := w.Site("a.test", server1)
		s.Handle("/", answer(html(at(links, numbered(n)...)...)))
		for _, p := range numbered(n) {
			s.Handle(p, answer(html(links+"/")))
		}
	}
}

func both(page http.HandlerFunc) http.HandlerFunc { return page }

// redirected answers by https what is asked for by http.
func redirected(status int) func(http.HandlerFunc) http.HandlerFunc {
	return func(page http.HandlerFunc) http.HandlerFunc { return byScheme(to(status, secureA), page) }
}

func mixtures() []mixture {
	all := func(origin string, n int) []string { return append(at(origin, numbered(n)...), origin+"/") }
	onlyPlain := func(closed bool, links ...string) func(*trial) {
		return func(w *trial) {
			s := w.Site("a.test", server1).Pages(30)
			s.Page("/", append(numbered(30), links...)...)
			w.BreakTLS(server1, closed)
		}
	}
	hsts := func(page http.HandlerFunc) http.HandlerFunc {
		return byScheme(to(301, secureA), func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
			page(w, r)
		})
	}
	return []mixture{
		{"http with one bad https link", onlyPlain(true, secureA+"/x"), plainA + "/", all(plainA, 30), 0, 0},
		{"http with many bad https links", onlyPlain(true, at(secureA, numbered(30)...)...), plainA + "/", all(plainA, 30), 0, 0},
		{"TLS broken", onlyPlain(false, secureA+"/x"), plainA + "/", all(plainA, 30), 0, 0},
		{"TLS broken, sitemap by https", func(w *trial) {
			onlyPlain(false)(w)
			w.Site("b.test", server2).Page("/", plainA+"/", secureA+"/")
		}, "http://b.test/", append(all(plainA, 30), "http://b.test/"), 0, 0},
		{"all to https by 301", whole(60, plainA, redirected(301)), plainA + "/", all(secureA, 60), 61 + 24, 0},
		{"all to https by 308", whole(60, plainA, redirected(308)), plainA + "/", all(secureA, 60), 61 + 24, 0},
		{"all to https by 302", whole(20, plainA, redirected(302)), plainA + "/", all(secureA, 20), 0, 0},
		{"all to https, links by https", whole(20, secureA, redirected(301)), plainA + "/", all(secureA, 20), 22, 0},
		{"all to http by 301", whole(60, secureA, func(page http.HandlerFunc) http.HandlerFunc {
			return byScheme(page, to(301, plainA))
		}), secureA + "/", all(plainA, 60), 61 + 24, 0},
		{"HSTS", whole(60, plainA, hsts), plainA + "/", all(secureA, 60), 61 + 24, 0},
		{"login by https, the rest by http", func(w *trial) {
			s := w.Site("a.test", server1)
			s.Handle("/", byScheme(html(append(numbered(20), "/login")...), to(301, plainA)))
			for _, p := range numbered(20) {
				s.Handle(p, byScheme(html(secureA+"/", secureA+"/login"), to(301, plainA)))
			}
			s.Handle("/login", byScheme(to(301, secureA), html(at(secureA, numbered(20)...)...)))
		}, plainA + "/", append(all(plainA, 20), secureA+"/login"), 0, 0},
		{"a loop between schemes", func(w *trial) {
			s := w.Site("a.test", server1).Pages(5).Page("/", append(numbered(5), "/loop")...)
			s.Handle("/loop", byScheme(to(301, secureA), to(301, plainA)))
		}, plainA + "/", all(plainA, 5), 0, 0},
		{"all in loops between schemes", func(w *trial) {
			s := w.Site("a.test", server1)
			for _, p := range numbered(10) {
				s.Handle(p, byScheme(to(301, secureA), to(301, plainA)))
			}
			w.Site("b.test", server2).Page("/", at(plainA, numbered(10)...)...)
		}, "http://b.test/", []string{"http://b.test/"}, 0, 0},
		{"a loop of two pages", func(w *trial) {
			w.Site("a.test", server1).Page("/", "/1", "/3").Redirect("/1", "/2").Redirect("/2", "/1").Page("/3")
		}, plainA + "/", at(plainA, "/", "/3"), 0, 0},
		{"a page that redirects to itself", func(w *trial) {
			w.Site("a.test", server1).Page("/", "/1", "/3").Redirect("/1", "/1").Page("/3")
		}, plainA + "/", at(plainA, "/", "/3"), 0, 0},
		{"www to the bare name", func(w *trial) {
			w.Site("a.test", server1).Pages(10)
			s := w.Site("www.a.test", server2)
			for _, p := range append(numbered(10), "/") {
				s.Handle(p, to(301, plainA))
			}
		}, "http://www.a.test/", all(plainA, 10), 0, 0},
		{"the bare name to www by https", func(w *trial) {
			s := w.Site("www.a.test", server2)
			old := w.Site("a.test", server1)
			for _, p := range append(numbered(10), "/") {
				s.Handle(p, byScheme(to(301, "https://www.a.test"), html(at(plainA, numbered(10)...)...)))
				old.Handle(p, to(301, "https://www.a.test"))
			}
		}, plainA + "/", all("https://www.a.test", 10), 0, 0},
		{"links by both schemes", func(w *trial) {
			s := w.Site("a.test", server1).Pages(3)
			s.Page("/", append(at(plainA, numbered(3)...), at(secureA, numbered(3)...)...)...)
		}, plainA + "/", append(append(at(plainA, numbered(3)...), at(secureA, numbered(3)...)...), plainA+"/"), 0, 0},
		{"links without a scheme", whole(10, "//a.test", both), secureA + "/", all(secureA, 10), 11, 0},
		{"robots.txt moved to https, too", func(w *trial) {
			s := w.Site("a.test", server1)
			s.Handle("/robots.txt", byScheme(to(301, secureA), Text("text/plain", "User-agent: *\nDisallow: /3\n")))
			for _, p := range append(numbered(10), "/") {
				s.Handle(p, byScheme(to(301, secureA), html(at(plainA, numbered(10)...)...)))
			}
		}, plainA + "/", at(secureA, "/", "/0", "/1", "/2", "/4", "/5", "/6", "/7", "/8", "/9"), 0, 0},
		{"only the first pages by https", func(w *trial) {
			s := w.Site("a.test", server1)
			moved := redirected(301)
			s.Handle("/", moved(html(at(plainA, numbered(20)...)...)))
			for i, p := range numbered(20) {
				if s.Handle(p, byScheme(html(plainA+"/"), http.NotFound)); i < 4 {
					s.Handle(p, moved(html(plainA+"/")))
				}
			}
		}, plainA + "/", append(at(plainA, numbered(20)[4:]...), append(at(secureA, numbered(4)...), secureA+"/")...), 0, 3},
		{"redirects that end", func(w *trial) {
			began := time.Now()
			whole(40, plainA, func(page http.HandlerFunc) http.HandlerFunc {
				return func(rw http.ResponseWriter, r *http.Request) {
					if r.TLS == nil && time.Since(began) < 20*time.Second {
						to(301, secureA)(rw, r)
					} else {
						page(rw, r)
					}
				}
			})(w)
		}, plainA + "/", nil, 0, 0}, // by either scheme: see below
	}
}

// TestMixtures crawls sites that are there by http, by https, or by both in some way: all that a perfect crawler finds is found, and a site
// that redirects all its pages is not asked page by page.
func TestMixtures(t *testing.T) {
	for _, m := range mixtures() {
		each(t, m.name, func(t *testing.T, w *trial) {
			m.build(w)
			end, logs := w.crawl(w.t.Context(), m.seed)
			var got []string
			asked := 0
			paths := map[string]bool{}
			for _, l := range logs.fetches {
				if l.Kind != runlog.KindPage {
					continue
				}
				asked++
				if l.Status == http.StatusOK {
					got = append(got, l.URL)
					paths[strings.TrimPrefix(strings.TrimPrefix(l.URL, plainA), secureA)] = true
				}
			}
			if m.want == nil {
				if len(paths) != 41 {
					t.Errorf("%d pages found of 41", len(paths))
				}
				return
			}
			slices.Sort(got)
			missed := slices.DeleteFunc(slices.Clone(m.want), func(url string) bool { return slices.Contains(got, url) })
			found := slices.Sorted(slices.Values(m.want))
			if len(missed) <= m.lost {
				found = slices.DeleteFunc(found, func(url string) bool { return slices.Contains(missed, url) })
			}
			if !slices.Equal(got, found) || m.most > 0 && asked > m.most {
				t.Errorf("found %d pages, want %d, and asked for %d\n%q\nwithout %q\n%v", len(got), len(m.want), asked, got, missed, end.Frontier.Reasons)
			}
			for _, e := range logs.events.of(runlog.EventHostDropped) {
				if host := fmt.Sprint(e.Attrs[runlog.KeyHost], "/"); slices.ContainsFunc(got, func(url string) bool { return strings.HasPrefix(url, host) }) {
					t.Errorf("%s has pages, and was given up: %v", host, e.Attrs[runlog.KeyReason])
				}
			}
			t.Logf("%d pages of %d, %d requests for pages, %v", len(got), len(m.want), asked, end.Frontier.Reasons)
		})
	}
}
