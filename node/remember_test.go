package node_test

import (
	"strings"
	"testing"

	"proxima/frontier/identity"
	"proxima/node"
)

// TestSeedsAreRemembered: a node that starts again without seeds goes on with those that it had, in their scope, and says so; seeds that are new are
// added aloud.
func TestSeedsAreRemembered(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(9).Page("/0", "http://b.test/")
		b := w.Site("b.test", server2).Page("/")
		c := w.Site("c.test", server3).Page("/")
		w.cfg.Scope.SeedScope, w.cfg.Crawl.MaxPages = identity.ScopeHost, 5
		var notes []string
		w.opened = func(n *node.Node) { notes = n.Notes() }
		w.crawl(w.t.Context(), "http://a.test/")
		if len(notes) > 0 {
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
	})
}
