package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/peer"
)

// TestSeedsAreRemembered: a node that starts again without seeds goes on with those that it had, in their scope, and says so; seeds that are new are
// added aloud.
func TestSeedsAreRemembered(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(9).Page("/0", "http://b.test/", "http://www.a.test/", "http://a.test:8080/")
		b := w.Site("b.test", server2).Page("/")
		c := w.Site("c.test", server3).Page("/")
		w.cfg.Scope.SeedScope, w.cfg.Crawl.MaxPages = identity.ScopeHost, 5
		var notes []string
		w.opened = func(n *node.Node) { notes = n.Notes() }
		end, _ := w.crawl(w.t.Context(), "http://a.test/")
		if w.dropped(end, string(identity.OutOfScope), 3); len(notes) > 0 {
			t.Errorf("at the first start: %q", notes)
		}
		w.crawl(w.t.Context())
		if n := len(pages(a.Visits())); n != 10 || len(notes) != 1 || !strings.Contains(notes[0], `going on with http://a.test/, scope "host"`) {
			t.Errorf("%d pages; %q", n, notes)
		}
		w.crawl(w.t.Context(), "http://c.test/")
		if c.Count("/") != 1 || len(b.Visits()) > 0 || len(notes) != 2 || notes[1] != "added to this crawl: http://c.test/" {
			t.Errorf("requests %q and %q; %q", c.Paths(), b.Paths(), notes)
		}
		w.cfg.Scope.SeedScope = identity.ScopeDomain
		w.crawl(w.t.Context())
		if len(notes) != 2 || !strings.Contains(notes[1], `the scope was "host" and is "domain"`) {
			t.Errorf("%q", notes)
		}
		for _, include := range [][]string{nil, {"a.test"}} {
			w.cfg.Scope.SeedScope, w.cfg.Scope.Include.Hosts = identity.ScopeAny, include
			w.crawl(w.t.Context())
			if whole := strings.Contains(notes[len(notes)-1], "the crawl leads over the whole web"); whole != (include == nil) {
				t.Errorf("included %q: %q", include, notes)
			}
		}
	})
}

// TestWhoCrawlsIsNotForgotten: a start without the contact of an earlier one would give up all public sites, so it fails. Prefixes that are
// allowed no longer are given up aloud.
func TestWhoCrawlsIsNotForgotten(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(9)
		w.cfg.Fetch.Contact, w.cfg.Fetch.From = "https://example.org/bot", "bot@example.org"
		allowed := w.cfg.Fetch.AllowPrefixes
		w.cfg.Scope.SeedScope = identity.ScopeHost
		w.cfg.Crawl.MaxPages, w.cfg.Fetch.AllowPrefixes = 5, append([]string{"10.0.0.0/8"}, allowed...)
		var notes []string
		w.opened = func(n *node.Node) { notes = n.Notes() }
		w.crawl(w.t.Context(), "http://a.test/")
		for _, forget := range []func(c *node.Config){func(c *node.Config) { c.Fetch.Contact = "" }, func(c *node.Config) { c.Fetch.From = "" }} {
			cfg := w.cfg
			forget(&cfg)
			if _, err := node.New(cfg, nil, w.deps); !errors.Is(err, node.ErrConfig) || !strings.Contains(err.Error(), w.cfg.Fetch.Contact) {
				t.Errorf("without it: %v", err)
			}
		}
		w.cfg.Fetch.AllowPrefixes = allowed
		w.crawl(w.t.Context())
		if n := len(pages(a.Visits())); n != 10 || len(notes) != 2 || !strings.Contains(notes[0], ", allowed "+allowed[0]) ||
			!strings.HasPrefix(notes[1], "no longer allowed: 10.0.0.0/8;") {
			t.Errorf("%d pages; %q", n, notes)
		}
	})
}

// TestSeedThatRedirectsToWWW: who names example.org means the site behind it, though that is www.example.org. The next start knows it. Nothing
// but the redirect of a seed widens the scope, and to no other name.
func TestSeedThatRedirectsToWWW(t *testing.T) {
	for scope, prefix := range map[string]string{identity.ScopeHost: "/", identity.ScopePrefix: "/docs/"} {
		inBubble(t, func(w *trial) {
			w.Site("a.test", server1).Redirect(prefix, "http://www.a.test"+prefix)
			a := w.Site("www.a.test", server1).Page(prefix, prefix+"x", "http://b.test/link", "http://www.b.test/", "http://www.c.test/").Page(prefix+"x", prefix+"y").Page(prefix + "y")
			w.Site("b.test", server2).Redirect(prefix, "http://a.b.test/").Redirect("/link", "http://www.b.test/")
			w.Site("www.c.test", server2).Redirect(prefix, "http://c.test"+prefix)
			c := w.Site("c.test", server2).Page(prefix)
			others := []*Site{w.Site("www.b.test", server3).Page("/"), w.Site("a.b.test", server3).Page("/")}
			w.cfg.Scope.SeedScope = scope
			seeds := []string{"http://a.test" + prefix, "http://b.test" + prefix, "http://www.c.test" + prefix}
			w.run(seeds...)
			var notes []string
			w.opened = func(n *node.Node) { notes = n.Notes() }
			w.run()
			if n := len(pages(a.Visits())); n != 3 || c.Count(prefix) != 1 || !strings.Contains(notes[0], " and 4 more seeds") {
				t.Errorf("%s: %q of www.a.test, %q of c.test; %q", scope, a.Paths(), c.Paths(), notes)
			}
			for _, o := range others {
				if len(o.Visits()) > 0 {
					t.Errorf("%s: out of scope is %q", scope, o.Paths())
				}
			}
		})
	}
}

// TestNotesSayWhatTheLimitsCount: a node that crawls alone counts from its start, an overlay all starts together.
func TestNotesSayWhatTheLimitsCount(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for secret, want := range map[string]string{"": "count from this start", filepath.Join(t.TempDir(), "secret"): "hold for all nodes and all their starts together"} {
		cfg := config(t)
		cfg.Scope.SeedScope = identity.ScopeHost
		cfg.Peer.Secret, cfg.Peer.Listen, cfg.Member.Bind = secret, "127.0.0.1:0", "127.0.0.1:0"
		if secret != "" {
			must(t, peer.Keygen(secret))
		}
		var notes []string
		for range 2 {
			n, err := node.New(cfg, seeds(t, "http://a.test/"), node.Deps{})
			must(t, err)
			notes = n.Notes()
			_, err = n.Run(over)
			must(t, err)
		}
		if len(notes) != 1 || !strings.HasSuffix(notes[0], want) {
			t.Errorf("%q, want %q", notes, want)
		}
	}
}

// TestStaleSeedsAreNotKept: while a node reads crawl.json, no other one can change it, so that it never writes old content back.
func TestStaleSeedsAreNotKept(t *testing.T) {
	cfg := config(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	run := func(n *node.Node, err error) error {
		if err == nil {
			_, err = n.Run(over)
		}
		return err
	}
	must(t, run(node.New(cfg, seeds(t, "http://a.test/"), node.Deps{})))
	file := filepath.Join(cfg.Node.Data, "crawl.json")
	text, err := os.ReadFile(file)
	must(t, errors.Join(err, os.Remove(file), unix.Mkfifo(file, 0o600)))
	ended := make(chan error)
	go func() { ended <- run(node.New(cfg, nil, node.Deps{})) }()
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until the node reads
	must(t, err)
	if _, err := node.New(cfg, seeds(t, "http://b.test/"), node.Deps{}); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("another node starts meanwhile: %v", err)
	}
	_, err = pipe.Write(text)
	if err := errors.Join(err, pipe.Close(), <-ended); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != string(text) {
		t.Errorf("the file is now %s, %v", now, err)
	}
}

// TestFailedStartsAreForgotten: a start that fails, as where its sink is a file or its port is taken, leaves nothing for the next one to go on with.
func TestFailedStartsAreForgotten(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	must(t, errors.Join(os.WriteFile(file, nil, 0o600), peer.Keygen(file+".secret")))
	for what, spoil := range map[string]func(*node.Config){
		"sink":    func(c *node.Config) { c.Sink.URL = "file://" + file },
		"console": func(c *node.Config) { c.Console.Listen = taken.Addr().String() },
		"peers": func(c *node.Config) {
			c.Peer.Secret, c.Peer.Listen, c.Member.Bind = file+".secret", taken.Addr().String(), "127.0.0.1:0"
		},
	} {
		cfg := config(t)
		wrong := cfg
		spoil(&wrong)
		if _, err := node.New(wrong, seeds(t, "http://typo.test/"), node.Deps{}); err == nil {
			t.Fatalf("%s: no error", what)
		}
		n, err := node.New(cfg, seeds(t, "http://a.test/"), node.Deps{})
		must(t, err)
		if notes := n.Notes(); slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, "typo") }) {
			t.Errorf("%s: %q", what, notes)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = n.Run(over)
		must(t, err)
	}
}

// TestDiscardingIsTold: a start that forgets the sink of the last one says, once, that pages are no longer kept.
func TestDiscardingIsTold(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Pages(2)
		var notes []string
		w.opened = func(n *node.Node) { notes = n.Notes() }
		const start = "pages are discarded from now on: the last start kept them in file:///"
		for life, told := range []bool{false, true, false} {
			w.cfg.Sink.URL = ""
			if life == 0 {
				w.cfg.Sink.URL = "file://" + w.t.TempDir()
			}
			w.run("http://a.test/")
			if slices.ContainsFunc(notes, func(note string) bool { return strings.HasPrefix(note, start) }) != told {
				t.Errorf("life %d: %q", life, notes)
			}
		}
	})
}
