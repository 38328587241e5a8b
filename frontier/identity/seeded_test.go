package identity

import (
	"errors"
	"slices"
	"testing"
)

// Nodes that tell each other what their seeds bring into scope end with the same scope, in whatever order, and whatever their own seeds are.
func TestWiden(t *testing.T) {
	seeds := []string{"http://a.org/x", "https://b.org:8443/y/z?q", "http://192.0.2.7:8080/", "http://[2001:db8::1]/d/", "http://c.d.co.uk/",
		"http://f.org:443/", "https://g.org:80/d/"} // the last two have the port of the other scheme
	var all []*Rules
	for _, scope := range []string{ScopeHost, ScopeDomain, ScopePrefix} {
		for _, seed := range seeds {
			cfg := Default()
			cfg.SeedScope = scope
			all = append(all, mustRules(t, cfg, seed))
		}
	}
	for range 2 {
		for i, from := range all {
			entries, _ := from.Seeded()
			if err := all[(i+1)%len(all)].Widen(entries, func([]string) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, digest := all[0].Seeded()
	for i, r := range all {
		if got, d := r.Seeded(); !slices.Equal(got, want) || d != digest || d == 0 || d != r.SeededDigest() {
			t.Errorf("%d has %v, %x; 0 has %v, %x", i, got, d, want, digest)
		}
		for url, in := range map[string]bool{
			"http://a.org/": true, "https://a.org/": true, "http://www.a.org/": true, "http://b.org:8443/": true, "http://b.org/": true,
			"http://x.d.co.uk/": true, "http://d.co.uk/": true, "http://e.co.uk/": false, "http://c.org/": false, "http://192.0.2.7:8080/q": true,
			"http://[2001:db8::1]/": true, "http://[2001:db8::2]/": false,
			"http://f.org:443/x": true, "https://g.org:80/": true,
		} {
			if reason := r.Admit(mustParse(t, url), 1, 0, 0); (reason == Accepted) != in {
				t.Errorf("%d: %s is %v", i, url, reason)
			}
		}
	}
}

func TestWidenBeginsWithNothing(t *testing.T) {
	cfg := Default()
	cfg.SeedScope = ScopeHost
	u := mustParse(t, "http://a.org/")
	none := mustRules(t, cfg)
	if none.Admit(u, 0, 0, 0) != OutOfScope {
		t.Error("a host is in scope before any seed is known")
	}
	open := mustRules(t, Default())
	if open.Admit(u, 0, 0, 0) != Accepted {
		t.Error("any scope is not all before any seed is known")
	}
	keep := func([]string) error { return nil }
	for _, r := range []*Rules{none, open} {
		if err := r.Widen([]string{"host b.org"}, keep); err != nil {
			t.Fatal(err)
		}
		if r.Admit(u, 0, 0, 0) != OutOfScope || r.Admit(mustParse(t, "http://b.org/"), 0, 0, 0) != Accepted {
			t.Error("the seeds of others do not make the scope of a node without its own")
		}
		if err := r.Widen([]string{"any"}, keep); err != nil || r.Admit(u, 0, 0, 0) != Accepted {
			t.Errorf("a seed that limits nothing does: %v", err)
		}
	}
}

// The twin of a seed is the same site by its other name, and out of scope.
func TestTwin(t *testing.T) {
	for _, c := range []struct {
		scope, seed, to string
		want            bool
	}{
		{ScopeHost, "http://a.org/", "https://www.a.org/x", true},
		{ScopeHost, "https://www.a.org/x", "http://a.org/", true},
		{ScopeHost, "http://a.org:8080/", "http://www.a.org:8080/", true},
		{ScopeHost, "http://a.org/", "http://www.a.org:8080/", false},
		{ScopeHost, "http://a.org/", "https://a.org/", false}, // in scope
		{ScopeHost, "http://a.org/", "http://m.a.org/", false},
		{ScopeHost, "http://gov.uk/", "http://www.gov.uk/", true},
		{ScopePrefix, "http://a.org/d/?x", "http://www.a.org/d/y", true},
		{ScopePrefix, "http://a.org/d/", "http://www.a.org/", false},
		{ScopePrefix, "http://a.org/d/", "http://a.org/", false},
		{ScopeDomain, "http://gov.uk/", "http://www.gov.uk/", false},
		{ScopeAny, "http://a.org/", "http://www.a.org/", false},
	} {
		cfg := Default()
		cfg.SeedScope = c.scope
		r := mustRules(t, cfg, c.seed)
		if got := r.Twin(mustParse(t, c.seed), mustParse(t, c.to)); got != c.want {
			t.Errorf("%s: %s is the twin of %s: %v", c.scope, c.to, c.seed, got)
		}
	}
}

// What has not its form, or cannot be kept, changes nothing.
func TestWidenRefuses(t *testing.T) {
	cfg := Default()
	cfg.SeedScope = ScopeHost
	r := mustRules(t, cfg, "http://a.org/")
	_, before := r.Seeded()
	for _, entry := range []string{"", "host", "host ", "host *.org", "host a b", "host A.org", "host a.org/", "host a.org/b", "host a.org:0", "prefix a.org", "prefix a.org/?q", "prefix a.org/d", "prefix A.org/", "domain a.org:80", "prefix ", "any thing", "path /x", "host\x00a.org"} {
		if err := r.Widen([]string{"host b.org", entry}, func([]string) error { t.Errorf("%q is kept", entry); return nil }); err == nil {
			t.Errorf("%q is an entry", entry)
		}
	}
	full := errors.New("disk is full")
	if err := r.Widen([]string{"host b.org"}, func([]string) error { return full }); !errors.Is(err, full) {
		t.Errorf("what cannot be kept: %v", err)
	}
	if _, after := r.Seeded(); after != before || r.Admit(mustParse(t, "http://b.org/"), 0, 0, 0) != OutOfScope {
		t.Error("the scope has changed")
	}
	var kept []string
	if err := r.Widen([]string{"host a.org", "host b.org"}, func(added []string) error { kept = added; return nil }); err != nil || !slices.Equal(kept, []string{"host b.org"}) {
		t.Errorf("kept %v: %v", kept, err)
	}
}
