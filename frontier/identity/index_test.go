package identity

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Each URL has the numbers of the sets that it belongs to, in order and each once.
func TestSetsOfAURL(t *testing.T) {
	x, err := NewIndex([]Match{
		{Hosts: []string{"*"}},
		{Hosts: []string{"a.test", "*.b.test"}, Prefixes: []string{"a.test/docs"}},
		{Prefixes: []string{"https://a.test/docs/", "a.test/docs"}},
		{Domains: []string{"b.test"}},
		{Hosts: []string{"a.test:8080"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for raw, want := range map[string][]int{
		"http://c.test/": {0}, "http://a.test/": {0, 1}, "http://a.test/docs": {0, 1, 2}, "http://a.test/doc": {0, 1}, "https://a.test/docs/x": {0, 1, 2},
		"http://b.test/": {0, 1, 3}, "http://x.b.test:81/": {0, 1, 3}, "http://a.test:8080/": {0, 4}, "http://ab.test/docs": {0},
	} {
		if got := x.Find(mustParse(t, raw), nil); !slices.Equal(got, want) {
			t.Errorf("%s belongs to %v, want %v", raw, got, want)
		}
	}
	for _, c := range []struct {
		m    Match
		want string
	}{
		{Match{Hosts: []string{"a.test", "a b"}}, "[1].host[1]: "}, {Match{Prefixes: []string{""}}, "[1].prefix[0]: "},
		{Match{Domains: []string{"a.test:81", "b.test"}}, "[1].domain[0]: "}, {Match{Hosts: []string{"*.a.test:81"}}, "[1].host[0]: "},
		{Match{Hosts: []string{"*.192.0.2.1"}}, "[1].host[0]: "},
	} {
		if _, err := NewIndex([]Match{{}, c.m}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
	}
}

// What people write in lists is read like what they mean.
func TestPrefixesThatPeopleWrite(t *testing.T) {
	for entry, want := range map[string]string{
		"a.test": "http://a.test/", "a.test:8080/x": "http://a.test:8080/x", "https://a.test/x": "https://a.test/x", "//a.test": "http://a.test/",
		"a.test/?u=http://b.test": "http://a.test/?u=http://b.test", "": "", "/x": "", "?x": "", "://a.test": "", "#x": "",
	} {
		if u, err := ParsePrefix(entry); u.String() != want || (err == nil) != (want != "") {
			t.Errorf("%q is read as %q, %v", entry, u, err)
		}
	}
}

// The extension is that of the last segment, without the query.
func TestExtension(t *testing.T) {
	for path, want := range map[string]string{
		"/a.ZIP": "zip", "/a.tar.gz": "gz", "/a": "", "/a.b/c": "", "/a?x=.zip": "", "/.zip": "zip", "/a.": "", "/a.b/c.d?e.f/g.h": "d", "": "",
	} {
		if got := Extension(path); got != want {
			t.Errorf("%q has the extension %q, want %q", path, got, want)
		}
	}
	for entry, ok := range map[string]bool{
		"zip": true, ".zip": true, strings.Repeat("x", 32): true, strings.Repeat("x", 33): false, "": false, ".": false, "tar.gz": false, "a/b": false, "*": false,
	} {
		if err := CheckExtensions([]string{"gz", entry}); (err == nil) != ok {
			t.Errorf("%q as an extension: %v", entry, err)
		}
		cfg := Default()
		cfg.SkipExtensions = []string{entry}
		if err := cfg.Validate(); (err == nil) != ok || err != nil && !strings.HasPrefix(err.Error(), "skip_extensions: ") {
			t.Errorf("%q in a configuration: %v", entry, err)
		}
	}
}

// An identity is refused if it is too long or has too many segments.
func TestIdentitiesAreBounded(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want Reason
	}{
		{"http://a.test" + strings.Repeat("/x", 512), Accepted}, {"http://a.test" + strings.Repeat("/x", 513), TooManySegments},
		{"http://a.test/" + strings.Repeat("x", 8<<10-14), Accepted}, {"http://a.test/" + strings.Repeat("x", 8<<10-13), TooLong},
		{"http://a.test/" + strings.Repeat("ü", 3000), TooLong}, // in its normal form
	} {
		if u, reason := resolve(URL{}, c.raw); reason != c.want || c.want != Accepted && u != (URL{}) {
			t.Errorf("a URL of %d bytes is %v", len(c.raw), reason)
		}
	}
}

// What is remembered of a name keeps no page in memory that the name is a part of.
func TestRememberedNamesAreCopies(t *testing.T) {
	var recent recentDomains
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	for i := range len(recent) {
		page := fmt.Sprintf("%sw%d.example.org", strings.Repeat("x", 1<<16), i)
		if of := recent.of(page[1<<16:]); of != "example.org" {
			t.Errorf("the domain of %s is %s", page[1<<16:], of)
		}
	}
	if took := heap() - before; took > 1<<20 {
		t.Errorf("%d names take %d bytes", len(recent), took)
	}
	runtime.KeepAlive(&recent)
}
