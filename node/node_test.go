package node_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node"
)

// public is an address that the guard takes for public; nothing of it is reached here.
const public = "93.184.215.14"

// world is a web of one server, which answers at every address.
type world struct {
	server *httptest.Server
	dials  atomic.Int64

	// mu guards what follows.
	mu    sync.Mutex
	asked []string // hosts and paths of the pages that were requested
}

const pagesPerHost = 12

// newWorld makes a world in which every host has pagesPerHost pages that link to each other.
func newWorld(t *testing.T) *world {
	return newWorldOf(t, func(string) (html string) {
		for i := range pagesPerHost - 1 {
			html += fmt.Sprintf("<a href=/%d>%d</a>", i, i)
		}
		return html
	})
}

// newWorldOf makes a world whose pages a function returns, by their paths. No host has a robots.txt.
func newWorldOf(t *testing.T, page func(path string) (html string)) *world {
	w := &world{}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		w.mu.Lock()
		w.asked = append(w.asked, r.Host+r.URL.Path)
		w.mu.Unlock()
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprint(rw, page(r.URL.Path))
	}))
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.dials.Add(1)
	var d net.Dialer
	c, err := d.DialContext(ctx, network, w.server.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return conn{c, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}, nil
}

// conn claims to lead to the address that was dialled. The guard checks that address, too.
type conn struct {
	net.Conn
	remote net.Addr
}

func (c conn) RemoteAddr() net.Addr { return c.remote }

// pages returns how many pages were requested, and how many requests were repeated.
func (w *world) pages() (pages, again int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pages = len(slices.Compact(slices.Sorted(slices.Values(w.asked))))
	return pages, len(w.asked) - pages
}

// deps reach the world's server and no name server.
func (w *world) deps() node.Deps {
	return node.Deps{Dial: w.dial, DialDNS: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("there is no DNS in this test")
	}}
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
	c.Fetch.DNS.Hosts = map[string][]string{"a.test": {public}, "b.test": {public}}
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
func run(ctx context.Context, t *testing.T, c node.Config, w *world, seed string) (node.End, error) {
	t.Helper()
	n, err := node.New(c, seeds(t, seed), w.deps())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return n.Run(ctx)
}

func TestRunLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	c := config(t)
	c.Sink.URL = "file://" + t.TempDir()
	before := goleak.IgnoreCurrent()
	end, err := run(t.Context(), t, c, w, "http://a.test/")
	if err != nil || end.Reason != "idle" || end.Pages != pagesPerHost || end.Rows["200"] != pagesPerHost {
		t.Errorf("%+v, %v", end, err)
	}
	w.server.Close() // its goroutines are not the node's
	goleak.VerifyNone(t, before)
	if _, err := os.Stat(filepath.Join(c.Node.Data, "status.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

func TestStoppedRunLeavesNothingBehind(t *testing.T) {
	w := newWorld(t)
	c := config(t)
	c.Crawl.End = "never"
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for pages := 0; pages < pagesPerHost && ctx.Err() == nil; pages, _ = w.pages() {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	end, err := run(ctx, t, c, w, "http://a.test/")
	if err != nil || end.Reason != "stopped" {
		t.Errorf("%+v, %v", end, err)
	}
	w.server.Close()
	goleak.VerifyNone(t, before)
}

// TestTwoNodes run in one process at the same time, each in its directory, and know nothing of each other.
func TestTwoNodes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	names := []string{"a.test", "b.test"}
	worlds := make([]*world, len(names))
	ids := make([]string, len(names))
	for i, name := range names {
		worlds[i] = newWorld(t)
		n, err := node.New(config(t), seeds(t, "http://"+name+"/"), worlds[i].deps())
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = n.ID().Node
		wg.Go(func() {
			end, err := n.Run(ctx)
			if err != nil || end.Pages != pagesPerHost {
				t.Errorf("%s: %+v, %v", name, end, err)
			}
		})
	}
	wg.Wait()
	for i, name := range names {
		if pages, again := worlds[i].pages(); pages != pagesPerHost || again != 0 {
			t.Errorf("%s: %d pages, %d again", name, pages, again)
		}
	}
	if ids[0] == ids[1] {
		t.Errorf("both are %s", ids[0])
	}
}

func TestOneDirectoryOneNode(t *testing.T) {
	w := newWorld(t)
	c := config(t)
	n, err := node.New(c, seeds(t, "http://a.test/"), w.deps())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.New(c, nil, w.deps()); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("second node: %v, want ErrLocked", err)
	}
	if _, err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := node.New(c, nil, w.deps())
	if err != nil {
		t.Fatal(err)
	}
	if id := again.ID(); id.Node != n.ID().Node || id.Boot != 2 {
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
			good := config(t)
			bad := good
			spoil(&bad)
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Fatalf("panic: %v", p)
					}
				}()
				n, err := node.New(bad, nil, newWorld(t).deps())
				if err == nil || n != nil {
					t.Fatalf("%v, %v: want an error", n, err)
				}
			}()
			os.Remove(filepath.Join(good.Node.Data, "node.json"))
			w := newWorld(t)
			if end, err := run(t.Context(), t, good, w, "http://a.test/"); err != nil || end.Pages != pagesPerHost {
				t.Errorf("the directory is of no use any more: %+v, %v", end, err)
			}
			w.server.Close()
			goleak.VerifyNone(t, append([]goleak.Option{before}, servers()...)...)
		})
	}
}

// servers ignores the goroutines of test servers.
func servers() []goleak.Option {
	return []goleak.Option{goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"),
		goleak.IgnoreAnyFunction("net/http.(*Server).Serve")}
}

// TestNoContactNoDial: without an operator's name nothing public is dialled; with one, the same command crawls.
func TestNoContactNoDial(t *testing.T) {
	w := newWorld(t)
	c := config(t)
	named := c
	c.Fetch.Contact = ""
	end, err := run(t.Context(), t, c, w, "http://a.test/")
	if err != nil || !end.NoIdentity || end.Pages != 0 || w.dials.Load() != 0 {
		t.Fatalf("%d dials, %+v, %v", w.dials.Load(), end, err)
	}
	end, err = run(t.Context(), t, named, w, "http://a.test/")
	if err != nil || end.Pages != pagesPerHost {
		t.Errorf("with a contact: %+v, %v", end, err)
	}
}

// TestForbiddenAddressNoDial: private addresses and those of the machine are not dialled, contact or not.
func TestForbiddenAddressNoDial(t *testing.T) {
	for _, address := range []string{"127.0.0.1", "10.1.2.3", "169.254.169.254", "192.0.2.1", "::1"} {
		w := newWorld(t)
		c := config(t)
		c.Fetch.DNS.Hosts["a.test"] = []string{address}
		end, err := run(t.Context(), t, c, w, "http://a.test/")
		if err != nil || end.NoIdentity || end.Pages != 0 || w.dials.Load() != 0 {
			t.Errorf("%s: %d dials, %+v, %v", address, w.dials.Load(), end, err)
		}
	}
}
