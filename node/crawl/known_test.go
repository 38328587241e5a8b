package crawl

import (
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
	pages := []string{"http://a.test/", "http://a.test/dir/page.html", "http://a.test/dir/other?x=/y/", "https://a.test/dir/", "http://b.test:8080/dir/"}
	refs := []string{"/x", "x", "/dir/x", "http://a.test/x", "http://a.test/dir/x", "https://a.test/x", "//a.test/x", "x#part", "/x#part",
		"?x", "", "#part", "x?y", "./x", "../x", "http://b.test:8080/x", "http://a.test", "https://a.test/dir/x"}
	urls := map[reference]identity.URL{}
	met := 0
	for _, p := range pages {
		base := mustParse(t, p)
		for _, ref := range refs {
			r := k.origin(base).reference(ref)
			if r.shelf == nil {
				continue
			}
			u, reason := rules.Resolve(base, ref)
			if reason != identity.Accepted {
				t.Fatalf("%s on %s: %v", ref, p, reason)
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
	if met < 20 {
		t.Errorf("only %d refs met another", met)
	}
	for _, ref := range []string{"", "?x", "#part"} {
		if r := k.origin(mustParse(t, pages[1])).reference(ref); r.shelf != nil {
			t.Errorf("%q depends on the whole page and has a reference", ref)
		}
	}
}

func TestKnownRemembersAndForgets(t *testing.T) {
	k := new(known)
	r := k.origin(mustParse(t, "http://a.test/")).reference("/x")
	if r.look() {
		t.Error("known before it was remembered")
	}
	r.remember()
	if again := k.origin(mustParse(t, "http://a.test/deep/page")).reference("http://a.test/x"); !again.look() {
		t.Error("not known from another page")
	}
	k.forget()
	if r.look() {
		t.Error("known after all was forgotten")
	}
}
