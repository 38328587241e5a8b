package site

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"proxima/frontier/identity"
)

func ptr[T any](v T) *T { return &v }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, text string) identity.URL {
	t.Helper()
	u, err := identity.Parse(text)
	must(t, err)
	return u
}

func table(t testing.TB, entries ...Entry) *Table {
	t.Helper()
	tab, err := New(entries, Settings{Gap: 2 * time.Second, Depth: 3, SkipExtensions: []string{"gz"}})
	must(t, err)
	return tab
}

func TestEntriesAreFound(t *testing.T) {
	tab := table(t,
		Entry{Host: Names{"*"}, Priority: ptr(1)},
		Entry{Domain: Names{"example.co.uk"}, Priority: ptr(2)},
		Entry{Host: Names{"*.a.example.co.uk"}, Priority: ptr(3)},
		Entry{Host: Names{"a.example.co.uk", "b.org:8080"}, Priority: ptr(4)},
		Entry{Prefix: Names{"https://b.org/docs/"}, Priority: ptr(5)},
		Entry{Prefix: Names{"b.org/docs/x"}, Priority: ptr(6)},
		Entry{Host: Names{"b.org"}, Path: Names{"*.pdf", "/q?*"}, Priority: ptr(7)},
	)
	for text, want := range map[string]int{
		"http://elsewhere.net/":              1,
		"http://example.co.uk/":              2,
		"https://www.example.co.uk/x":        2,
		"http://notexample.co.uk/":           1,
		"http://x.a.example.co.uk/":          3,
		"http://a.example.co.uk/":            4,
		"http://a.example.co.uk:8080/":       3, // a host has its port, names below do not
		"http://b.org:8080/":                 4,
		"https://b.org:8080/":                4,
		"http://b.org/":                      1,
		"https://b.org/docs/":                5,
		"http://b.org/docs/":                 1,
		"https://b.org/docs/xyz":             6,
		"http://b.org/docs/xyz":              6,
		"http://b.org/docs":                  1,
		"https://b.org/docs/x.pdf":           7,
		"http://b.org/q?a":                   7,
		"http://b.org/q":                     1,
		"http://c.a.example.co.uk.evil.net/": 1,
	} {
		if got := tab.For(link(t, text)).Priority; got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

func TestLaterEntriesWinKeyByKey(t *testing.T) {
	tab := table(t,
		Entry{Host: Names{"a.org"}, Gap: ptr(5 * time.Second), Depth: ptr(9), Headers: map[string]string{"x-a": "1", "X-B": "2"},
			SkipExtensions: Names{"zip"}, Hours: Names{"09:00-10:00"}, Zone: ptr("UTC")},
		Entry{Domain: Names{"a.org"}, Gap: ptr(time.Duration(0)), Headers: map[string]string{"X-A": "", "X-B": "3"}, SkipExtensions: Names{}},
		Entry{Host: Names{"b.a.org"}, Hours: Names{}},
	)
	s := tab.For(link(t, "http://a.org/"))
	if s.Gap != 0 || !s.Chosen(KeyGap) || s.Depth != 9 || s.Headers.Get("X-B") != "3" || s.Headers.Values("X-A") != nil || len(s.SkipExtensions) != 0 || s.Times == nil {
		t.Errorf("for a.org holds %+v", s)
	}
	if s := tab.For(link(t, "http://b.a.org/")); s.Depth != 3 || s.Gap != 0 || s.Times != nil {
		t.Errorf("for b.a.org holds %+v", s)
	}
	if s := tab.For(link(t, "http://b.org/")); s.Gap != 2*time.Second || s.Chosen(KeyGap) || s.Headers != nil {
		t.Errorf("for b.org holds %+v", s)
	}
}

func TestRefuse(t *testing.T) {
	tab := table(t,
		Entry{Host: Names{"a.org", "c.org"}, SkipExtensions: Names{"ZIP", ".Jpg"}},
		Entry{Host: Names{"a.org"}, Include: Names{"/docs/*", "/"}, Exclude: Names{"*/private/*", "*?*sort=*"}},
		Entry{Host: Names{"b.org"}, SkipExtensions: Names{}},
	)
	for text, want := range map[string]string{
		"http://a.org/":                     "",
		"http://a.org/x":                    NotIncluded,
		"http://a.org/docs/a":               "",
		"http://a.org/docs/private/a":       Excluded,
		"http://a.org/docs/a?b=1&sort=down": Excluded,
		"http://a.org/docs/sort=":           "",
		"http://a.org/docs/a.zip":           Extension,
		"http://a.org/docs/a.JPG?x":         Extension,
		"http://a.org/docs/a.zip/":          "",
		"http://a.org/docs/a?f=b.zip":       "",
		"http://a.org/docs/zip":             "",
		"http://b.org/a.zip":                "",
		"http://c.org/a.zip":                Extension,
		"http://c.net/a.gz":                 Extension,
	} {
		if got := tab.For(link(t, text)).Refuse(link(t, text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestHostilePatternsAreLinear(t *testing.T) {
	p, err := parsePatterns([]string{"/" + strings.Repeat("a*", 2000) + "b"})
	must(t, err)
	path := "/" + strings.Repeat("a", 8000)
	for range 100 {
		if p.match(path) {
			t.Fatal("it matches")
		}
	}
}

func TestForAllocatesNothing(t *testing.T) {
	tab := table(t, manyEntries(2000)...)
	urls := []identity.URL{link(t, "https://www.site77.example/a/b"), link(t, "http://elsewhere.net/"), link(t, "http://site5.example/docs/a.pdf")}
	if n := testing.AllocsPerRun(100, func() {
		for _, u := range urls {
			tab.For(u)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if got := tab.For(urls[2]).Priority; got != 5 {
		t.Errorf("priority is %d", got)
	}
}

func manyEntries(n int) []Entry {
	list := []Entry{{Host: Names{"*"}, SkipExtensions: Names{"zip"}}}
	for i := range n {
		list = append(list, Entry{Domain: Names{fmt.Sprintf("site%d.example", i)}, Gap: ptr(time.Second)},
			Entry{Prefix: Names{fmt.Sprintf("site%d.example/docs/", i)}, Exclude: Names{"*/private/*"}},
			Entry{Host: Names{fmt.Sprintf("site%d.example", i)}, Path: Names{"*.pdf"}, Priority: ptr(5)})
	}
	return list
}

// Of an answer whose type is none, or cannot be read, nobody knows that it is unwanted.
func TestWantedTypes(t *testing.T) {
	s := Settings{ContentTypes: []string{"Text/html", "application/*"}}
	for kind, wanted := range map[string]bool{"": true, "TEXT/HTML; charset=x": true, "text/html charset=x": true, "text/html,text/html": true, "nonsense": true,
		"application/pdf": true, "text/plain": false, "text/htmlx": false, "image/png;x": false} {
		if err := s.Wants(http.StatusOK, http.Header{"Content-Type": {kind}}, -1); (err == nil) != wanted {
			t.Errorf("%q: %v", kind, err)
		}
	}
}
