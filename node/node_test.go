package node_test

import (
	"context"
	"errors"
	"io/fs"
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
	"proxima/node/peer"
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
	if err != nil || len(s.Errors) > 0 {
		t.Fatalf("%v %v", err, s.Errors)
	}
	return s.URLs
}

// run opens a node and runs it to its end. What ends by itself has time for it on a machine that does much else.
func run(ctx context.Context, t *testing.T, c node.Config, deps node.Deps, seed string) (node.End, error) {
	t.Helper()
	n, err := node.New(c, seeds(t, seed), deps)
	must(t, err)
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
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

// A node that cannot do what its configuration says does not start, on a full disk neither. It says which file or key is the reason, takes no
// file that it cannot write for damaged, and holds nothing: the same directory serves the configuration without the fault.
func TestStartFails(t *testing.T) {
	used, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer used.Close()
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	readOnly := filepath.Join(tmp, "read-only")
	if err := errors.Join(os.WriteFile(file, []byte("{"), 0o600), os.MkdirAll(filepath.Join(readOnly, "frontier"), 0o700),
		os.Chmod(filepath.Join(readOnly, "frontier"), 0o500), os.Chmod(readOnly, 0o500)); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(readOnly, 0o700)
	damage := func(c *node.Config, name string, head ...string) {
		must(t, os.WriteFile(filepath.Join(c.Node.Data, name), []byte(strings.Join(append(head, "{"), "\n")), 0o600))
	}
	secret := filepath.Join(tmp, "secret")
	must(t, peer.Keygen(secret))
	overlay := func(c *node.Config) {
		c.Peer.Secret, c.Peer.Listen, c.Member.Bind, c.Crawl.MaxPages = secret, "127.0.0.1:0", "127.0.0.1:0", 100
	}
	for _, c := range []struct {
		names string // what the error names
		is    error  // nil: any
		spoil func(c *node.Config)
	}{
		{"metrics.listen", nil, func(c *node.Config) { c.Metrics.Listen = used.Addr().String() }},
		{"console.listen", nil, func(c *node.Config) { c.Console.Listen = used.Addr().String() }},
		{"webmaster.listen", nil, func(c *node.Config) { c.WebMaster.Listen = used.Addr().String() }},
		{"geo.database", nil, func(c *node.Config) { c.Geo.Database = filepath.Join(c.Node.Data, "none") }},
		{"geo.database", node.ErrConfig, func(c *node.Config) { c.Geo.Database = file }},
		{"read tokens: " + file, node.ErrConfig, func(c *node.Config) { c.Console.TokenFile = file }},
		{"read certificate", node.ErrConfig, func(c *node.Config) { c.Console.TLSCert, c.Console.TLSKey = file, file }},
		{"node.json", frontier.ErrDamaged, func(c *node.Config) { damage(c, "node.json") }},
		{"crawl.json", frontier.ErrDamaged, func(c *node.Config) { damage(c, "crawl.json") }},
		{"voters", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "voters", c.Node.Run) }},
		{"quota-*: the data directory is damaged: read quota: book:", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "quota-book") }},
		{"quota-*: the data directory is damaged: read quota: mine:", frontier.ErrDamaged, func(c *node.Config) { overlay(c); damage(c, "quota-mine") }},
		{file, nil, func(c *node.Config) { c.Output.Logs = file }},
		{file, nil, func(c *node.Config) { c.Sink.URL = "file://" + file }},
		{file, nil, func(c *node.Config) { c.Node.Data = file }},
		{file, nil, func(c *node.Config) { c.Node.Data = filepath.Join(file, "data") }},
		{"/proc/proxima-data", fs.ErrNotExist, func(c *node.Config) { c.Node.Data = "/proc/proxima-data" }},
		{"read-only", fs.ErrPermission, func(c *node.Config) { c.Node.Data = readOnly }},
		{"read-only", fs.ErrPermission, func(c *node.Config) { c.Node.Data = filepath.Join(readOnly, "data") }},
	} {
		if os.Getuid() == 0 && errors.Is(c.is, fs.ErrPermission) {
			continue // root may write to directories that are read-only
		}
		before := goleak.IgnoreCurrent()
		web := newWeb(t)
		good := config(t)
		good.Metrics.Listen, good.Console.Listen = "127.0.0.1:0", "127.0.0.1:0"
		bad := good
		bad.Frontier.MinFreeMiB = 1
		c.spoil(&bad)
		deps := depsOf(web)
		deps.FreeBytes = func() (uint64, error) { return 0, nil }
		n, err := node.New(bad, seeds(t, "http://a.test/"), deps)
		switch {
		case n != nil || err == nil || !strings.Contains(err.Error(), c.names):
			t.Errorf("%s: %v, %v", c.names, n, err)
		case c.is != nil && !errors.Is(err, c.is):
			t.Errorf("%s: %v, want %v", c.names, err, c.is)
		case errors.Is(err, frontier.ErrLocked) || errors.Is(err, frontier.ErrDamaged) && c.is != frontier.ErrDamaged: //nolint:errorlint // itself
			t.Errorf("%s: %v: the data are not to blame", c.names, err)
		}
		for _, name := range []string{"node.json", "crawl.json", "voters", "quota-book", "quota-mine"} {
			os.Remove(filepath.Join(good.Node.Data, name))
		}
		if end, err := run(t.Context(), t, good, depsOf(web), "http://a.test/"); err != nil || end.Pages != pagesPerHost {
			t.Errorf("%s: the directory is of no use any more: %+v, %v", c.names, end, err)
		}
		web.Close()
		goleak.VerifyNone(t, before)
	}
}
