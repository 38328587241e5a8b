package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node"
)

// public is an address that the guard takes for public; nothing of it is reached here.
const public = "93.184.215.14"

const pagesPerHost = 12

// newWeb makes a web whose only site has pagesPerHost pages. It is closed at the end of the test.
func newWeb(t *testing.T) *Web {
	t.Helper()
	web, err := NewWeb()
	must(t, err)
	t.Cleanup(web.Close)
	web.Site("a.test", public).Pages(pagesPerHost - 1)
	return web
}

// depsOf are the dependencies of a node that reaches a web, and no name server.
func depsOf(web *Web) node.Deps { return node.Deps{Dial: web.Dial, DialDNS: noDNS} }

func noDNS(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no DNS in this test")
}

// config crawls without gaps, and names an operator.
func config(t *testing.T) node.Config {
	c := node.Default()
	c.Node.Data = t.TempDir()
	c.Crawl.Fetchers, c.Crawl.Resolvers, c.Crawl.Patience = 4, 2, time.Second
	c.Politeness.Own, c.Politeness.OwnParallel = []string{public + "/32", "127.0.0.0/8"}, 4
	c.Frontier.MinFreeMiB, c.Frontier.Compactors = 0, 0
	c.Fetch.Contact, c.Fetch.From = "https://example.org/bot", "bot@example.org"
	c.Fetch.DNS.Servers, c.Fetch.DNS.Attempts = []string{"127.0.0.1"}, 1
	c.Fetch.DNS.Hosts = map[string][]string{"a.test": {public}}
	return c
}

// must ends a test whose set-up has failed.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func seeds(t *testing.T, text string) []identity.URL {
	t.Helper()
	s, err := identity.ReadSeeds(strings.NewReader(text))
	if err != nil || s.Bad > 0 {
		t.Fatalf("%v %v", err, s.Errors)
	}
	return s.URLs
}

// run opens a node and runs it to its end.
func run(ctx context.Context, t *testing.T, c node.Config, deps node.Deps, seed string) (node.End, error) {
	t.Helper()
	n, err := node.New(c, seeds(t, seed), deps)
	must(t, err)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.Run(ctx)
}

func TestRunLeavesNothingBehind(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		before := goleak.IgnoreCurrent()
		web := newWeb(t)
		c := config(t)
		c.Sink.URL = "file://" + t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		want := "idle"
		if stopped {
			want, c.Crawl.End = "stopped", "never"
			go func() {
				for len(pages(web.Visits(nil))) < pagesPerHost && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		end, err := run(ctx, t, c, depsOf(web), "http://a.test/")
		if err != nil || end.Reason != want || !stopped && (end.Pages != pagesPerHost || end.Rows["200"] != pagesPerHost) {
			t.Errorf("%+v, %v; want %s", end, err, want)
		}
		web.Close() // its goroutines are not the node's
		goleak.VerifyNone(t, before)
		if _, err := os.Stat(filepath.Join(c.Node.Data, "status.sock")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket is still there: %v", err)
		}
	}
}

func TestOneDirectoryOneNode(t *testing.T) {
	deps, c := depsOf(newWeb(t)), config(t)
	var last node.ID
	for life := range 2 {
		n, err := node.New(c, seeds(t, "http://a.test/"), deps)
		must(t, err)
		if _, err := node.New(c, nil, deps); !errors.Is(err, frontier.ErrLocked) {
			t.Errorf("second node: %v, want ErrLocked", err)
		}
		if id := n.ID(); life > 0 && (id.Node != last.Node || id.Boot <= last.Boot) {
			t.Errorf("%+v after %+v: want the same id, the next life", id, last)
		}
		last = n.ID()
		if _, err := n.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoContactNoDial: without an operator's name nothing public is dialled; with one, the same command crawls.
func TestNoContactNoDial(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", public).Pages(3)
		w.Down(public, true)
		if end, _ := w.crawl(w.t.Context(), "http://a.test/"); !end.NoIdentity || end.Pages != 0 || len(w.Refused()) > 0 {
			t.Errorf("%d dials, %+v", len(w.Refused()), end)
		}
		w.Down(public, false)
		w.cfg.Fetch.Contact, w.cfg.Fetch.From = "https://example.org/bot", "bot@example.org"
		if end, _ := w.run(); end.Pages != 4 {
			t.Errorf("with a contact: %+v", end)
		}
	})
}

// TestAllowedLater: a host at an address that is not public is crawled by the same command as soon as that is allowed.
func TestAllowedLater(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", "10.9.8.7").Pages(3)
		if end, _ := w.crawl(w.t.Context(), "http://a.test/"); end.Pages != 0 {
			t.Errorf("before: %+v", end)
		}
		w.cfg.Fetch.AllowPrefixes = append(w.cfg.Fetch.AllowPrefixes, "10.9.0.0/16")
		if end, _ := w.run(); end.Pages != 4 {
			t.Errorf("afterwards: %+v", end)
		}
	})
}
