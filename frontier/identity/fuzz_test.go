package identity

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// seedRefs are links that reach every branch of the fast path and what it leaves to the parser.
var seedRefs = []string{
	"", "?", "?q=1&r=ü", "#f", "/", "/a/b?c#d", "/a b?'c'", "a", "a/b.html", "a:b", "1:b", "./a:b", "../x/y", "../../..", ".",
	"..", "./.", "..?q", ".//x", "..//x", ".%2e/x", "%2E", "%2e%2E?x", "%2e%2e%2e", ".a", "/a/../b", "/a/%2e", "/a/..", "/..;x/",
	"//example.org", "//example.org?", "//example.org:80/", "//example.org:", "///x", "/\\x", "\\x", "/a\\b", "/a\tb", "/\xff", "?\xff",
	"/|^[]{}`", "?|^[]{}`", "http:x", "http:/x", "http:", "https:x", "http://a", "https://a:443/", "http://a:0443", "http://a:65536",
	"http://a:0", "HTTP://A.b/", "http://xn--mnchen-3ya.de/", "http://münchen.de/", "http://a.xn--a/", "http://1.2.3.4/", "http://1.2.3.04/",
	"http://0x7f.1/", "http://1.2.3.-4/", "http://4/", "http://a.4/", "http://a.4b/", "http://a.b./", "http://a..b/", "http://-a.b-/", "http://ab--c.d/",
	"http://[::1]:81/x", "http://[::1", "http://a@b/", "http://@b/", "http://a_b/", "http://a%41/", "mailto:x", "java\nscript:x", "c:\\x", "+a:b", "a+b:c",
	"/a?b?c", "/a??", "/?/../x", "/a;b=c;jsessionid=1/d", "http://a\u00adb.de/", "http://☃.net/", "http://a.b:8080?x", "ws://a/", "file:///x", " /x ", "/x #y",
}

// FuzzFast holds the fast path against the parser: what it answers must be what the parser answers.
func FuzzFast(f *testing.F) {
	bases := []string{"http://www.example.org/dir/sub/page.html?old=1", "https://example.org:8080/", "http://[::1]//a//b/?x=/y/",
		"https://xn--mnchen-3ya.de/%C3%BC;x/a:b"}
	for i, ref := range seedRefs {
		f.Add(bases[i%len(bases)], ref)
		f.Add(bases[(i+1)%len(bases)], ref)
	}
	f.Fuzz(func(t *testing.T, rawBase, raw string) {
		if len(rawBase) > 1000 || len(raw) > 1000 {
			return
		}
		base, reason := slow(URL{}, trim(rawBase))
		if reason != Accepted {
			base = URL{}
		}
		ref := trim(raw)
		want, wantReason := slow(base, ref)
		if got, reason, ok := fast(base, ref); ok && (got != want || reason != wantReason) {
			// The fast path refuses foreign schemes before the parser sees what is wrong with the rest.
			if reason != Scheme || wantReason == Accepted {
				t.Fatalf("base %q ref %q: fast %q %s, parser %q %s", base, ref, got, reason, want, wantReason)
			}
		}
		if wantReason != Accepted {
			if want != (URL{}) {
				t.Fatalf("refused %q with a URL: %q", ref, want)
			}
			return
		}
		checkIdentity(t, want)
	})
}

// checkIdentity checks that a URL is in normal form: it is its own identity whatever the base and the path taken.
func checkIdentity(t *testing.T, u URL) {
	t.Helper()
	if u.Scheme() != "http" && u.Scheme() != "https" || u.Authority() == "" || u.Path[:1] != "/" {
		t.Fatalf("%+v lacks a part", u)
	}
	if strings.ContainsAny(u.Path, "# \\\t\r\n") && !strings.Contains(u.Path, "?") || strings.ContainsAny(u.Authority(), "/?#@ \x00") || CheckHost(u.Host) != nil {
		t.Fatalf("%+v holds what ends a part", u)
	}
	text := u.String()
	other := URL{Host: "https://other.example", Path: "/x/y?z"}
	for _, base := range []URL{{}, u, other} {
		if again, reason := slow(base, text); again != u || reason != Accepted {
			t.Fatalf("%q becomes %q %s from base %q", text, again, reason, base)
		}
		if again, reason, ok := fast(base, text); ok && (again != u || reason != Accepted) {
			t.Fatalf("%q becomes %q %s on the fast path", text, again, reason)
		}
	}
	if again, reason := slow(u, u.Path); !strings.HasPrefix(u.Path, "//") && (again != u || reason != Accepted) {
		t.Fatalf("path of %q becomes %q %s", text, again, reason)
	}
	if u.Name() == "" {
		t.Fatalf("%q has no name", text)
	}
	if d := RegistrableDomain(u.Host); d != RegistrableDomain(d) || !strings.HasSuffix(u.Name(), d) {
		t.Fatalf("registrable domain of %q is %q", text, d)
	}
}

// FuzzRules checks that what Resolve gives is an identity that further resolving leaves as it is, and that Admit judges
// alike twice and without fault.
func FuzzRules(f *testing.F) {
	for _, ref := range append(seedRefs, "/?utm_a=1&b&utm_c&&d=e&gclid", "/a?utm_x", "/..;jsessionid=1/x", "/%2e;jsessionid=1", "/;jsessionid;jsessionid=2;a?fbclid&", "/?C=N;O=D", "/?C=N&utm_a&O=D",
		"/a/b/a/b/a/b", "/login?next=%2Flogin%3Fnext%3D%252Flogin", "/?a=%25252F%",
		"/^@"+strings.Repeat("\x80", 300), strings.Repeat("^/", 400)) {
		f.Add(ref)
	}
	rules, err := New(Default(), nil)
	if err != nil {
		f.Fatal(err)
	}
	base := URL{Host: "http://example.org", Path: "/a/b?c"}
	f.Fuzz(func(t *testing.T, ref string) {
		u, reason := rules.Resolve(base, ref)
		if reason != Accepted {
			if u != (URL{}) {
				t.Fatalf("refused %q with a URL: %q", ref, u)
			}
			return
		}
		checkIdentity(t, u)
		if u.Len() > maxURLBytes {
			t.Fatalf("accepted %d bytes", u.Len())
		}
		if again, reason := rules.Resolve(URL{}, u.String()); again != u || reason != Accepted {
			t.Fatalf("%q becomes %q %s", u, again, reason)
		}
		if _, query, _ := strings.Cut(u.Path, "?"); strings.Contains("&"+query, "&utm_") {
			t.Fatalf("%q keeps a tracking parameter", u)
		}
		if first, second := rules.Admit(u, 1, 1, 0), rules.Admit(u, 1, 1, 0); first != second {
			t.Fatalf("%q is %s, then %s", u, first, second)
		}
	})
}

// FuzzReadSeeds checks that every line of a seeds file is accounted for, and that a list of identities reads back as it
// is.
func FuzzReadSeeds(f *testing.F) {
	f.Add([]byte("# list\nexample.org\nhttps://example.org/a#b # comment\r\n\nmailto:x\n//x\n/y\nexample.org:8080/?u=http://x"))
	f.Add([]byte("\xef\xbb\xbfexample.org\n" + strings.Repeat("x", 3*maxSeedLine) + "\nexample.com"))
	f.Fuzz(func(t *testing.T, data []byte) {
		seeds, err := ReadSeeds(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("the reader does not fail, and yet: %v", err)
		}
		if len(seeds.Errors) != min(seeds.bad, maxSeedErrors+1) {
			t.Fatalf("%d errors kept of %d", len(seeds.Errors), seeds.bad)
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		if got := len(seeds.URLs) + seeds.bad; got > lines {
			t.Fatalf("%d seeds and errors from %d lines", got, lines)
		}
		var list strings.Builder
		for _, u := range seeds.URLs {
			fmt.Fprintln(&list, u)
		}
		again, err := ReadSeeds(strings.NewReader(list.String()))
		if err != nil || fmt.Sprint(again.URLs) != fmt.Sprint(seeds.URLs) {
			t.Fatalf("%d seeds read back as %d, %d bad: %v", len(seeds.URLs), len(again.URLs), again.bad, again.Errors)
		}
	})
}
