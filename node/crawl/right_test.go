package crawl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/fetch/page"
	"proxima/fetch/resolve"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
)

// web is a server that notes what it is asked.
type web struct {
	mu    sync.Mutex
	asked []string
	html  string // of its pages; "" where it has none
	busy  func() // if set, its pages answer 429 after this call
	wall  bool   // its pages set a cookie, and redirect to themselves without it
}

func (w *web) dial(context.Context, string, string) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		br := bufio.NewReader(far)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			w.mu.Lock()
			w.asked = append(w.asked, req.URL.Path)
			w.mu.Unlock()
			status := "404 Not Found"
			if w.html != "" && req.URL.Path != "/robots.txt" {
				status = "200 OK"
			}
			if w.busy != nil && req.URL.Path != "/robots.txt" {
				w.busy()
				status = "429 Too Many Requests\r\nRetry-After: 600"
			}
			if w.wall && req.URL.Path != "/robots.txt" && req.Header.Get("Cookie") == "" {
				status = "302 Found\r\nSet-Cookie: a=b; Path=/\r\nLocation: " + req.URL.Path
			}
			fmt.Fprintf(far, "HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", status, len(w.html), w.html)
		}
	}()
	return near, nil
}

func (w *web) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.asked...)
}

// testLoop is a loop over a frontier with one seed on the web.
func testLoop(t *testing.T, w *web, mayAsk func(netip.Addr) error) (*Loop, string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	seed, err := identity.Parse("http://a.example/page")
	must(err)
	rules, err := identity.New(identity.Default(), []identity.URL{seed})
	must(err)
	block, err := blocklist.New(blocklist.Default(), blocklist.Deps{})
	must(err)
	front, err := frontier.Open(filepath.Join(dir, "frontier"), frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	must(err)
	logCfg := runlog.Default()
	logCfg.Logs = filepath.Join(dir, "logs")
	log, err := runlog.Open(logCfg, runlog.Meta{Run: "test", Node: "n", Boot: 1}, runlog.Deps{Now: time.Now})
	must(err)
	fetchCfg := fetch.Default()
	fetchCfg.AllowPrefixes = []string{"10.0.0.0/8"}
	client, err := fetch.New(fetchCfg, fetch.Deps{Dial: w.dial})
	must(err)
	names := resolve.Default()
	names.Servers, names.Hosts = []string{"192.0.2.53"}, map[string][]string{"a.example": {"10.0.0.1"}}
	resolver, err := resolve.New(names, resolve.Deps{})
	must(err)
	l := New(Default(), Deps{Frontier: front, Client: client, Resolver: resolver, RunLog: log,
		Page: page.New(page.Default()), MayAsk: mayAsk, Policy: &Policy{Rules: rules, Sites: noSites(t), Blocklist: block, Agent: "proxima"}})
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	g.Go(func() { _ = front.Run(ctx) })
	t.Cleanup(func() {
		stop()
		g.Wait()
		client.Close()
		resolver.Close()
		_ = log.Close()
	})
	if _, err := l.Seed(ctx, []identity.URL{seed}); err != nil {
		t.Fatal(err)
	}
	return l, filepath.Join(logCfg.Logs, "fetch.jsonl")
}

// TestNoRight: what there is no right to ask for goes back as it was, without a line in the log or a failure of the host,
// and not in a tight circle. As soon as there is a right, it is asked for: robots.txt and the page.
func TestNoRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		denied, looks := errors.New("the lease is over"), 0
		w := new(web)
		l, log := testLoop(t, w, func(addr netip.Addr) error {
			mu.Lock()
			defer mu.Unlock()
			if addr != netip.MustParseAddr("10.0.0.1") {
				t.Errorf("asked about %v", addr)
			}
			looks++
			return denied
		})
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(10 * time.Second)
		mu.Lock()
		if asked, s := w.requests(), l.Stats(); len(asked) != 0 || s.Requests != 0 || s.Pages != 0 || looks < 2 || looks > 101 {
			t.Errorf("without a right: %q asked, %+v, %d looks", asked, s, looks)
		}
		denied = nil
		mu.Unlock()
		time.Sleep(time.Minute)
		if got := strings.Join(w.requests(), " "); got != "/robots.txt /page" {
			t.Errorf("with a right: %q asked", got)
		}
		stop()
		g.Wait()
		if text, err := os.ReadFile(log); err != nil || strings.Count(string(text), "\n") != 2 || strings.Contains(string(text), "no_right") {
			t.Errorf("log: %s, %v", text, err)
		}
	})
}

// under is an overlay that has pages asked for under another node's right.
type under struct {
	alone
	mu    sync.Mutex
	right error
	ended []frontier.Outcome
}

func (u *under) Begin(task *frontier.Task) (Visit, bool) {
	if !task.IsRemoteFetch() {
		return Visit{}, true
	}
	return Visit{MayAsk: func() error {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.right
	}}, true
}

func (u *under) Ended(task *frontier.Task, d Download) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if task.IsRemoteFetch() {
		u.ended = append(u.ended, d.Outcome)
	}
}

// TestNoRightOfAnother: a page for another node is asked for under that node's right, whatever this node may ask.
func TestNoRightOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := new(web)
		l, _ := testLoop(t, w, func(netip.Addr) error { return errors.New("none of its own") })
		o := &under{right: errors.New("it slept")}
		l.deps.Overlay = o
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		for _, path := range []string{"/late", "/now"} {
			u, err := identity.Parse("http://b.example" + path)
			if err != nil || !l.deps.Frontier.Enqueue(frontier.RemoteFetch{URL: u, Server: netip.MustParseAddr("10.0.0.2"), Origin: frontier.Estimate}) {
				t.Fatalf("%s was not taken: %v", path, err)
			}
			time.Sleep(10 * time.Second)
			o.mu.Lock()
			o.right = nil
			o.mu.Unlock()
		}
		stop()
		g.Wait()
		if got := strings.Join(w.requests(), " "); got != "/now" {
			t.Errorf("%q asked", got)
		}
		if len(o.ended) != 2 || o.ended[0].Asked || o.ended[0].Ending != frontier.Again || !o.ended[1].Asked {
			t.Errorf("ended %+v", o.ended)
		}
	})
}
