package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"proxima/frontier"
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

// TestStaleSeedsAreNotKept: a node that has read crawl.json while another process was about to change it does not write the old content back.
func TestStaleSeedsAreNotKept(t *testing.T) {
	cfg := config(t)
	n, err := node.New(cfg, seeds(t, "http://a.test/"), node.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Run(over); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(cfg.Node.Data, "crawl.json")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(old), "http://a.test/", "http://b.test/", 1)
	if err := errors.Join(os.WriteFile(file+".changed", []byte(changed), 0o600), os.Remove(file), unix.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		_, err := node.New(cfg, nil, node.Deps{})
		opened <- err
	}()
	pipe, err := os.OpenFile(file, os.O_WRONLY, 0) // waits until the node reads
	if err == nil {
		_, err = pipe.Write(old)
	}
	if err = errors.Join(err, os.Rename(file+".changed", file), pipe.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("a node with old seeds starts: %v", err)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != changed {
		t.Errorf("the file is now %s, %v", now, err)
	}
}
