package crawl

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"proxima/fetch"
	"proxima/fetch/blocklist"
	"proxima/fetch/page"
	"proxima/fetch/resolve"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/runlog"
	"proxima/node/site"
)

func mustParse(t *testing.T, raw string) identity.URL {
	t.Helper()
	u, err := identity.Parse(raw)
	must(t, err)
	return u
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// policy admits all links.
func policy(t *testing.T) *Policy {
	t.Helper()
	rules, err := identity.New(identity.Default(), nil)
	must(t, err)
	sites, err := site.New(nil, site.Settings{})
	must(t, err)
	list, err := blocklist.New(blocklist.Default(), blocklist.Deps{})
	must(t, err)
	return &Policy{Rules: rules, Sites: sites, Blocklist: list, Agent: "proxima"}
}

// newReading is a loop that can do no more than read answers.
func newReading(t *testing.T) *Loop {
	t.Helper()
	return New(Config{}, Deps{Policy: policy(t), Page: page.Default()})
}

// reading is a page, and what was read of it.
type reading struct {
	task   *frontier.Task
	res    *fetch.Result
	out    frontier.Outcome
	gather *gather
	found  int
}

// readPage reads a page with a header "Name: value" at a URL.
func (l *Loop) readPage(t *testing.T, url, header, body string) reading {
	t.Helper()
	r := reading{task: &frontier.Task{Kind: frontier.Page, Host: "http://a.test", URL: mustParse(t, url)}, gather: l.reader.gather(),
		res: &fetch.Result{Status: 200, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(body),
			Timing: fetch.Timing{Start: time.Unix(1, 0)}}}
	name, value, _ := strings.Cut(header, ": ")
	r.res.Header.Set(name, value)
	r.found = l.reader.read(r.task, r.res, &r.out, r.gather)
	return r
}

// urls joins the URLs of links.
func urls(links []frontier.Link) string {
	var all []string
	for _, l := range links {
		all = append(all, l.URL.String())
	}
	return strings.Join(all, " ")
}

// web is a server that notes what it is asked.
type web struct {
	mu    sync.Mutex
	asked []string
	html  string                   // of its pages; "" where it has none
	line  string                   // of the heads of its answers, with its end
	busy  func()                   // if set, its pages answer 429 after this call
	fails bool                     // its pages answer 500
	wall  func(*http.Request) bool // if set and true, a request is redirected to itself with a cookie, its number
	check string                   // if set, it is redirected to this page, which redirects to /page
	bound string                   // attributes of the cookie
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
			n := len(w.asked)
			w.mu.Unlock()
			status := "404 Not Found"
			switch {
			case w.wall != nil && w.wall(req):
				status = fmt.Sprintf("302 Found\r\nSet-Cookie: a=%d; Path=/%s\r\nLocation: %s", n, w.bound, cmp.Or(w.check, req.URL.Path))
			case req.URL.Path == w.check:
				status = "302 Found\r\nLocation: /page"
			case req.URL.Path == "/robots.txt":
			case w.busy != nil:
				w.busy()
				status = "429 Too Many Requests\r\nRetry-After: 600"
			case w.fails:
				status = "500 Internal Server Error"
			case w.html != "":
				status = "200 OK"
			}
			fmt.Fprintf(far, "HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: %d\r\n%s\r\n%s", status, len(w.html), w.line, w.html)
		}
	}()
	return near, nil
}

// requests are the paths that were asked for.
func (w *web) requests() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.asked, " ")
}

// overlay notes what the loop gives it.
type overlay struct {
	Alone
	mu     sync.Mutex
	broken error                       // of Route
	mayAsk func(addr netip.Addr) error // for pages of this node; nil: it always may
	right  error                       // of MayAsk, for remote fetches
	routed []string                    // URLs
	passed []string                    // URLs, to PassOn
	ending []frontier.Link             // pages, to Ending
	ended  []frontier.Outcome          // of remote fetches
}

func (o *overlay) Route(ctx context.Context, links []frontier.Link) ([]frontier.Link, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(links) > 0 {
		o.routed = append(o.routed, urls(links))
	}
	if o.broken != nil {
		return nil, o.broken
	}
	return o.Alone.Route(ctx, links)
}

func (o *overlay) PassOn(_ context.Context, links []frontier.Link) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.passed = append(o.passed, urls(links))
	return nil
}

func (o *overlay) Ending(_ context.Context, page frontier.Link) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ending = append(o.ending, page)
	return o.broken
}

func (o *overlay) Begin(task *frontier.Task) (Visit, bool) {
	if !task.IsRemoteFetch() && o.mayAsk == nil {
		return o.Alone.Begin(task)
	}
	if !task.IsRemoteFetch() {
		return Visit{MayAsk: func() error { return o.mayAsk(task.Server) }}, true
	}
	return Visit{MayAsk: func() error {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.right
	}}, true
}

func (o *overlay) Ended(task *frontier.Task, d Download) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if task.IsRemoteFetch() {
		o.ended = append(o.ended, d.Outcome)
	}
}

// take returns what was routed since it was called last.
func (o *overlay) take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer func() { o.routed = nil }()
	return strings.Join(o.routed, " ")
}

// bed is a loop that crawls the web from http://a.example/page until it is stopped.
type bed struct {
	*Loop
	t    *testing.T
	over *overlay
	log  string // the file of fetches
}

func newBed(t *testing.T, w *web) *bed {
	t.Helper()
	dir := t.TempDir()
	front, err := frontier.Open(filepath.Join(dir, "frontier"), frontier.Default(), frontier.DefaultPoliteness(), frontier.Deps{})
	must(t, err)
	logCfg := runlog.Default()
	logCfg.Logs = filepath.Join(dir, "logs")
	log, err := runlog.Open(logCfg, runlog.Meta{Run: "test", Node: "n", Boot: 1}, runlog.Deps{Now: time.Now})
	must(t, err)
	fetchCfg := fetch.Default()
	fetchCfg.AllowPrefixes = []string{"10.0.0.0/8"}
	client, err := fetch.New(fetchCfg, fetch.Deps{Dial: w.dial})
	must(t, err)
	names := resolve.Default()
	names.Servers, names.Hosts = []string{"192.0.2.53"}, map[string][]string{"a.example": {"10.0.0.1"}, "b.example": {"10.0.0.2"}}
	resolver, err := resolve.New(names, resolve.Deps{})
	must(t, err)
	seed := []identity.URL{mustParse(t, "http://a.example/page")}
	p := policy(t)
	p.Rules, err = identity.New(identity.Default(), seed)
	must(t, err)
	cfg := Default()
	cfg.End = EndNever
	b := &bed{t: t, over: new(overlay), log: filepath.Join(logCfg.Logs, "fetch.jsonl")}
	b.Loop = New(cfg, Deps{Frontier: front, Client: client, Resolver: resolver, RunLog: log, Page: page.Default(), Policy: p, Overlay: b.over})
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
	_, err = b.Seed(ctx, seed)
	must(t, err)
	b.over.take()
	return b
}

// keepCookies says of all sites whether their cookies are kept; nil says nothing.
func (b *bed) keepCookies(keep *bool) {
	b.t.Helper()
	var err error
	b.deps.Policy.Sites, err = site.New([]site.Entry{{Host: site.Names{"*"}, Cookies: keep}}, site.Settings{})
	must(b.t, err)
}

// block blocks a host or an address.
func (b *bed) block(rule string) {
	b.t.Helper()
	list := blocklist.Default()
	list.Sources = []string{filepath.Join(b.t.TempDir(), "list")}
	must(b.t, os.WriteFile(list.Sources[0], []byte(rule+"\n"), 0o600))
	var err error
	b.deps.Policy.Blocklist, err = blocklist.New(list, blocklist.Deps{})
	must(b.t, err)
	must(b.t, b.deps.Policy.Blocklist.Follow(b.t.Context(), list.Sources))
}

// enqueue has a page downloaded for another node.
func (b *bed) enqueue(host, path, addr string) {
	b.t.Helper()
	page := frontier.RemoteFetch{URL: identity.URL{Host: host, Path: path}, Server: netip.MustParseAddr(addr), Origin: frontier.Estimate}
	if !b.deps.Frontier.Enqueue(page) {
		b.t.Fatalf("%s was not taken", path)
	}
}

// crawl runs the loop until during has returned.
func (b *bed) crawl(during func()) {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	var g sync.WaitGroup
	g.Go(func() {
		if err := b.Run(ctx); err != nil {
			b.t.Error(err)
		}
	})
	defer g.Wait()
	defer stop()
	during()
}

// place finds the server of the next host, as the loop would if it ran.
func (b *bed) place() {
	go func() {
		if u, err := b.deps.Frontier.Resolve(b.t.Context()); err == nil {
			if err := b.Loop.place(b.t.Context(), u); err != nil {
				b.t.Error(err)
			}
		}
	}()
}

// next takes the next task, and reports why another node must not carry it out.
func (b *bed) next() (task *frontier.Task, refused string) {
	b.t.Helper()
	task, err := b.deps.Frontier.Take(b.t.Context())
	must(b.t, err)
	refused, err = b.Refuse(b.t.Context(), task)
	must(b.t, err)
	return task, refused
}

// finish ends a task that another node carried out.
func (b *bed) finish(task *frontier.Task, out frontier.Outcome) {
	b.t.Helper()
	must(b.t, b.Finish(b.t.Context(), task, out))
}

// firstPage returns the task for the first page, when the robots.txt of its host is known.
func (b *bed) firstPage() *frontier.Task {
	b.place()
	task, _ := b.next()
	b.finish(task, frontier.Outcome{Ending: frontier.Done, Asked: true, Robots: &frontier.RobotsOutcome{Lifetime: time.Hour}})
	task, _ = b.next()
	return task
}
