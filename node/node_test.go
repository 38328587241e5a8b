package node_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node"
	"proxima/node/netsim"
)

// public is an address that the guard takes for public; nothing of it is reached here.
const public = "93.184.215.14"

const pagesPerHost = 12

// newWeb makes a web whose only site has pagesPerHost pages. It is closed at the end of the test.
func newWeb(t *testing.T) *netsim.Web {
	t.Helper()
	web, err := netsim.NewWeb()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Close)
	web.Site("a.test", public).Pages(pagesPerHost - 1)
	return web
}

// depsOf are the dependencies of a node that reaches a web, and no name server.
func depsOf(web *netsim.Web) node.Deps { return node.Deps{Dial: web.Dial, DialDNS: noDNS} }

func noDNS(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("there is no DNS in this test")
}

// requested returns how many pages of a web were requested, and how many requests were repeated.
func requested(web *netsim.Web) (once, again int) {
	all := pages(web.Visits(nil))
	urls := map[string]bool{}
	for _, v := range all {
		urls[v.URL()] = true
	}
	return len(urls), len(all) - len(urls)
}

// config crawls without gaps, and names an operator.
func config(t *testing.T) node.Config {
	c := node.Default()
	c.Node.Data = t.TempDir()
	c.Crawl.Fetchers, c.Crawl.Resolvers, c.Crawl.Patience = 4, 2, time.Second
	c.Politeness.Own, c.Politeness.OwnParallel = []string{public + "/32", "127.0.0.0/8"}, 4
	c.Frontier.MinFreeMiB = 0
	c.Fetch.Contact, c.Fetch.From = "https://example.org/bot", "bot@example.org"
	c.Fetch.DNS.Servers, c.Fetch.DNS.Attempts = []string{"127.0.0.1"}, 1
	c.Fetch.DNS.Hosts = map[string][]string{"a.test": {public}}
	return c
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
func run(ctx context.Context, t *testing.T, c node.Config, deps node.Deps) (node.End, error) {
	t.Helper()
	n, err := node.New(c, seeds(t, "http://a.test/"), deps)
	if err != nil {
		t.Fatal(err)
	}
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
				for n := 0; n < pagesPerHost && ctx.Err() == nil; n, _ = requested(web) {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		end, err := run(ctx, t, c, depsOf(web))
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
	deps := depsOf(newWeb(t))
	c := config(t)
	n, err := node.New(c, seeds(t, "http://a.test/"), deps)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.New(c, nil, deps); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("second node: %v, want ErrLocked", err)
	}
	if _, err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := node.New(c, nil, deps)
	if err != nil {
		t.Fatal(err)
	}
	if id := again.ID(); id.Node != n.ID().Node || id.Boot <= n.ID().Boot {
		t.Errorf("%+v after %+v: want the same id, the next life", id, n.ID())
	}
	if _, err := again.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestNewUndoesWhatItOpened: a node that cannot be opened is an error, not a panic, and holds nothing.
func TestNewUndoesWhatItOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(c *node.Config){
		"node id": func(c *node.Config) {
			if err := os.WriteFile(filepath.Join(c.Node.Data, "node.json"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"data directory": func(c *node.Config) { c.Node.Data = file },
		"logs":           func(c *node.Config) { c.Output.Logs = file },
		"archive":        func(c *node.Config) { c.Sink.URL = "file://" + file },
	} {
		t.Run(name, func(t *testing.T) {
			before := goleak.IgnoreCurrent()
			web := newWeb(t)
			good := config(t)
			bad := good
			spoil(&bad)
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Fatalf("panic: %v", p)
					}
				}()
				n, err := node.New(bad, nil, depsOf(web))
				if err == nil || n != nil {
					t.Fatalf("%v, %v: want an error", n, err)
				}
			}()
			os.Remove(filepath.Join(good.Node.Data, "node.json"))
			if end, err := run(t.Context(), t, good, depsOf(web)); err != nil || end.Pages != pagesPerHost {
				t.Errorf("the directory is of no use any more: %+v, %v", end, err)
			}
			web.Close()
			goleak.VerifyNone(t, before)
		})
	}
}

// TestNoContactNoDial: without an operator's name nothing public is dialled; with one, the same command crawls.
func TestNoContactNoDial(t *testing.T) {
	web, dials := newWeb(t), atomic.Int64{}
	deps := depsOf(web)
	deps.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials.Add(1)
		return web.Dial(ctx, network, address)
	}
	c := config(t)
	named := c
	c.Fetch.Contact = ""
	end, err := run(t.Context(), t, c, deps)
	if err != nil || !end.NoIdentity || end.Pages != 0 || dials.Load() != 0 {
		t.Fatalf("%d dials, %+v, %v", dials.Load(), end, err)
	}
	end, err = run(t.Context(), t, named, deps)
	if err != nil || end.Pages != pagesPerHost {
		t.Errorf("with a contact: %+v, %v", end, err)
	}
}
