package crawl

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

// Refs that lead to one URL share a reference, and refs that lead to different URLs must not.
func TestReferencesMeetWhereTheirURLsDo(t *testing.T) {
	rules, err := identity.New(identity.Default(), nil)
	must(t, err)
	k := new(known)
	pages := []string{"http://a.test/", "http://a.test/dir/page.html", "http://a.test/dir/other?x=/y/", "https://a.test/dir/", "http://b.test:8080/dir/",
		"http://a.test/dir/deep/page", "http://a.test//", "http://a.test//dir/", "http://a.test/dir//"}
	refs := []string{"/x", "x", "/dir/x", "http://a.test/x", "http://a.test/dir/x", "https://a.test/x", "//a.test/x", "x#part", "/x#part",
		"?x", "", "#part", "x?y", "./x", "../x", "http://b.test:8080/x", "http://a.test", "https://a.test/dir/x",
		"../../x", "../dir/x", ".././x", "./../x", "..//x", ".//x", "./", "../", "..", ".", "dir/../x", "/dir/../x", "%2e%2e/x", "../?x", "./x?../y",
		"http:x", "/http:x", "/dir/http:x", "\\x", "..\\x", "/dir/..\\x", "/\\x", "//x", "/x ", " x", "/ x", "x y", "/dir/x y", "/dir/deep/x",
		"http://", "https://", "http://#part", "http:///", "http:///x/y", "http://x",
		"http:", "http:?x", "http:#part", " ", "\t?x", "http://a.test//x", "http://a.test/\\x", "/\t/x", "http://a.test/\t/x", "https://a.test//x"}
	urls := map[reference]identity.URL{}
	met := 0
	for _, p := range pages {
		base := mustParse(t, p)
		for _, ref := range refs {
			r := k.origin(base).reference([]byte(ref))
			if r.shelf == nil {
				continue
			}
			u, reason := rules.Resolve(base, ref)
			if reason != identity.Accepted {
				continue // never remembered
			}
			if other, ok := urls[r]; ok {
				met++
				if other != u {
					t.Errorf("%q on %s is %s, and %s has the same reference", ref, p, u, other)
				}
			}
			urls[r] = u
		}
	}
	if met < 200 {
		t.Errorf("only %d refs met another", met)
	}
}

// A reference is known from all pages, however they spell it, until its host is forgotten; what was read before is not remembered after that.
func TestKnownRemembersAndForgets(t *testing.T) {
	k := new(known)
	of := func(page, ref string) *reference {
		r := k.origin(mustParse(t, page)).reference([]byte(ref))
		return &r
	}
	all := func(when string, known bool) {
		t.Helper()
		for _, c := range [][2]string{{"http://a.test/", "/x"}, {"http://a.test/deep/page", "http://a.test/x"}, {"http://a.test/deep/page", "../x"},
			{"http://a.test/deep/page", "./../x#part"}, {"http://b.test/", "http://a.test/x"}} {
			if of(c[0], c[1]).isKnown() != known {
				t.Errorf("%s on %s, %s: known is %v", c[1], c[0], when, !known)
			}
		}
	}
	r := of("http://a.test/", "/x")
	all("not remembered", false)
	r.remember()
	all("remembered", true)
	k.forget("http://b.test")
	all("after another host was forgotten", true)
	k.forget("http://a.test")
	all("after its host was forgotten", false)
	r.remember() // of a page that was read before
	all("offered before its host was forgotten", false)
}

// A relative ref that is joined to its directory must lead where the path that it is remembered by leads.
func FuzzJoined(f *testing.F) {
	for _, seed := range [][2]string{{"/", "x"}, {"/dir/page", "../x"}, {"/a/b/c?q=/", "./../..//x"}, {"//", "x"}, {"/a//", "../../x"}, {"/a/", "b:c"},
		{"/a/", "..?x"}, {"/a/", " x"}, {"/a/", "%2e%2E/x"}, {"/a/", "x\ty"}, {"/a/", "\\\\x"}, {"/\xff/", "\u00a0x\u2028"}, {"/a/", ".../x"}, {"/a/", "x;utm_source=1?utm_source=2"}} {
		f.Add(seed[0], seed[1])
	}
	rules, err := identity.New(identity.Default(), nil)
	if err != nil {
		f.Fatal(err)
	}
	k := new(known)
	f.Fuzz(func(t *testing.T, path, ref string) {
		base, err := identity.Parse("http://a.test/" + path)
		ref, _, _ = strings.Cut(ref, "#")
		if err != nil || ref == "" || ref[0] == '/' || ref[0] == '?' || base.Host != "http://a.test" {
			return
		}
		var buf [maxJoined]byte
		joined, ok := k.origin(base).joined(&buf, []byte(ref))
		if !ok {
			return
		}
		u, reason := rules.Resolve(base, ref)
		if reason != identity.Accepted {
			return
		}
		if other, reason := rules.Resolve(base, string(joined)); other != u || reason != identity.Accepted {
			t.Errorf("%q on %s is %s, but %q is %s (%v)", ref, base, u, joined, other, reason)
		}
	})
}

// References that meet in a row do not push each other out before it is full, and then only one of them.
func TestKnownKeepsSeveralOfARow(t *testing.T) {
	shelf := new(shelf)
	var all []*reference
	keeps := func(n int) {
		t.Helper()
		for _, r := range all {
			if r.isKnown() {
				n--
			}
		}
		if n != 0 {
			t.Errorf("of %d that are remembered %d more should be known", len(all), n)
		}
	}
	for i := range len(row{}) + 1 {
		keeps(i)
		r := &reference{shelf: shelf, key: 7 + uint64(i)*shelfRows}
		all = append(all, r)
		r.remember()
		r.remember()
	}
	keeps(len(row{}))
	if !all[len(row{})].isKnown() {
		t.Error("what was remembered last is not known")
	}
	if other := (reference{shelf: shelf, key: 8}); other.isKnown() {
		t.Error("known in another row")
	}
}

// Of the links of a page, those to a host that was given up are offered again with the next page, and only those.
func TestLinksToHostsThatRefuseAreOfferedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, &web{html: `<a href="/x">x</a> <a href="/y">y</a> <a href="http://b.example/z">z</a>`})
		b.block("10.0.0.2") // of b.example
		b.crawl(func() {
			time.Sleep(20 * time.Second)
			for _, host := range []string{"http://a.example", "http://b.example"} {
				b.Forget(host) // as if their links were met for the first time
			}
			for _, want := range []string{"http://a.example/x http://a.example/y http://b.example/z", "http://b.example/z"} {
				page := mustParse(t, "http://a.example/"+fmt.Sprint(len(want)))
				b.over.take()
				_, err := b.Seed(t.Context(), []identity.URL{page})
				must(t, err)
				time.Sleep(20 * time.Second)
				if got, want := b.over.take(), page.String()+" "+want; got != want { // the page itself is offered by Seed
					t.Errorf("offered: %q, want %q", got, want)
				}
			}
		})
	})
}
