package crawl

import (
	"strings"
	"testing"

	"proxima/frontier/identity"
)

func mustParse(t *testing.T, raw string) identity.URL {
	t.Helper()
	u, err := identity.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Refs that lead to one URL share a reference, and refs that lead to different URLs must not.
func TestReferencesMeetWhereTheirURLsDo(t *testing.T) {
	rules, err := identity.New(identity.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
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
	for _, ref := range []string{"", "?x", "#part"} {
		if r := k.origin(mustParse(t, pages[1])).reference([]byte(ref)); r.shelf != nil {
			t.Errorf("%q depends on the whole page and has a reference", ref)
		}
	}
}

func TestKnownRemembersAndForgets(t *testing.T) {
	k := new(known)
	r := k.origin(mustParse(t, "http://a.test/")).reference([]byte("/x"))
	if r.look() {
		t.Error("known before it was remembered")
	}
	r.remember()
	deep := k.origin(mustParse(t, "http://a.test/deep/page"))
	for _, ref := range []string{"http://a.test/x", "../x", "./../x#part"} {
		if again := deep.reference([]byte(ref)); !again.look() {
			t.Errorf("%s is not known from another page", ref)
		}
	}
	k.forget("http://b.test")
	if again := k.origin(mustParse(t, "http://a.test/")).reference([]byte("/x")); !again.look() {
		t.Error("forgotten with another host")
	}
	k.forget("http://a.test")
	again := k.origin(mustParse(t, "http://a.test/")).reference([]byte("/x"))
	if again.look() {
		t.Error("known after the host was forgotten")
	}
	if again := k.origin(mustParse(t, "http://b.test/")).reference([]byte("http://a.test/x")); again.look() {
		t.Error("known from another host after the host was forgotten")
	}
	r.remember() // of a page that was read before
	if again.look() {
		t.Error("known by what was offered before the host was forgotten")
	}
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
	s := new(shelf)
	rowful := make([]reference, len(row{}))
	for i := range rowful {
		rowful[i] = reference{shelf: s, key: 7 + uint64(i)*shelfRows}
		rowful[i].remember()
		rowful[i].remember()
	}
	kept := func() (n int) {
		for i := range rowful {
			if rowful[i].look() {
				n++
			}
		}
		return n
	}
	if n := kept(); n != len(rowful) {
		t.Errorf("%d of %d are known", n, len(rowful))
	}
	more := reference{shelf: s, key: 7 + 1000*shelfRows}
	if more.remember(); !more.look() {
		t.Error("what was remembered last is not known")
	}
	if n := kept(); n != len(rowful)-1 {
		t.Errorf("%d of %d are known behind one more", n, len(rowful))
	}
	if other := (reference{shelf: s, key: 8}); other.look() {
		t.Error("known in another row")
	}
}
