// Package sites is the web of the testbed: a server that generates pages, nginx with real documentation, the name server that knows
// their hosts, and the location database that places their addresses. It owns what the sites answer, and it logs the requests that the
// generated sites received. The caller decides where listeners are opened and processes started: in a network namespace or on the
// portable emulation. The package knows nothing of nodes and judges nobody.
package sites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/bell"
)

// Deps open listeners and start processes.
type Deps struct {
	Listen       func(network, address string) (net.Listener, error)
	ListenPacket func(network, address string) (net.PacketConn, error)
	Start        func(*exec.Cmd) error
}

// Config describes a Web.
type Config struct {
	// Seed determines sizes, links and think times: equal Configs give equal webs.
	Seed uint64
	// Listen holds the addresses to listen on. "0.0.0.0:80" serves all addresses of a namespace with one listener.
	Listen []string
	// Port appears in URLs unless it is 80.
	Port  uint16
	Sites []Site
}

// Site is one host of a Web. Several may share an address.
type Site struct {
	Host string
	// Addr is the server's address. Requests for Host at any other address get 421.
	Addr netip.Addr
	// Pages is the number of HTML pages, including the front page "/"; at least 1.
	Pages int
	// Think is the median time from a request to the first byte of the answer.
	Think time.Duration
	// Robots is the text of robots.txt. If it is empty, robots.txt answers 404.
	Robots string
	// RefuseEvery makes every n-th page request fail with 429 and a Retry-After of RetryAfter; 0 refuses none. Page requests that come
	// before that time has passed are refused as well.
	RefuseEvery int
	RetryAfter  time.Duration
	// MedianBytes is the median page size of the median host, in bytes. A page is never smaller than its links need, and never larger
	// than 2 MiB.
	MedianBytes float64
	// Links is the number of links from a page to its own site, at least 1. Some of them form a tree that reaches every page.
	Links int
	// Abroad is the mean number of links from a page to other sites. Unless it is 0, the front page also links to the front page of the
	// next site, so that no site is out of reach.
	Abroad float64
	// Errors is the share of pages with a link that answers 404, 500, 400 or 403. Redirects is the share of pages that the tree reaches
	// through a redirect.
	Errors, Redirects float64
}

// Standard deviations in the log domain: of the hosts' median page sizes, of the sizes of a host's pages around their median, and of the
// pages' think times around Site.Think. Each page keeps its own size and think time.
const hostSpread, pageSpread, thinkSpread = 0.6, 0.5, 0.3

// Web serves generated sites. It is safe for concurrent use.
type Web struct {
	cfg       Config
	hosts     map[string]*site
	sites     []*site
	servers   map[netip.Addr]*server
	text      string // fills the pages
	http      *http.Server
	listeners []net.Listener
	conns     sync.WaitGroup
}

// New generates the web and opens its listeners. Only Run closes them.
func New(cfg Config, deps Deps) (*Web, error) {
	w := &Web{cfg: cfg, hosts: map[string]*site{}, servers: map[netip.Addr]*server{}, text: filler(cfg.Seed)}
	for i, s := range cfg.Sites {
		if w.hosts[s.Host] != nil { // a drawn name can be that of another site
			return nil, fmt.Errorf("generate sites: the host %s is there twice", s.Host)
		}
		w.sites = append(w.sites, w.newSite(i, s))
		w.hosts[s.Host] = w.sites[i]
		if w.servers[s.Addr] == nil {
			w.servers[s.Addr] = &server{}
		}
	}
	for _, address := range cfg.Listen {
		l, err := deps.Listen("tcp", address)
		if err != nil {
			for _, l := range w.listeners {
				err = errors.Join(err, l.Close())
			}
			return nil, fmt.Errorf("listen for the sites: %w", err)
		}
		w.listeners = append(w.listeners, l)
	}
	w.http = &http.Server{Handler: http.HandlerFunc(w.serve), ConnState: w.connState, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	return w, nil
}

// Run serves until the context ends.
func (w *Web) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range w.listeners {
		g.Go(func() error {
			if err := w.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the sites at %v: %w", l.Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		return w.http.Close()
	})
	err := g.Wait()
	w.conns.Wait()
	return err
}

// connState counts open connections so that Run can wait for them.
func (w *Web) connState(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		w.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		w.conns.Done()
	}
}

// Slow adds by to the think time of a server until the next call for it; 0 restores the think time.
func (w *Web) Slow(addr netip.Addr, by time.Duration) error {
	s := w.servers[addr]
	if s == nil {
		return fmt.Errorf("slow server %v: no such server", addr)
	}
	s.slow.Store(int64(by))
	return nil
}

// Fronts returns the front pages of all sites, in the order of Config.Sites.
func (w *Web) Fronts() []string {
	var urls []string
	for _, s := range w.sites {
		urls = append(urls, s.url(target{kind: kindPage}))
	}
	return urls
}

// URL returns the URL of a page of a host. Page 0 is the front page.
func (w *Web) URL(host string, page int) string { return w.hosts[host].url(target{kindPage, page}) }

// Visits returns the first 10,000 requests of each server, in the order in which they ended.
func (w *Web) Visits() map[netip.Addr][]Visit {
	all := map[netip.Addr][]Visit{}
	for addr, s := range w.servers {
		s.mu.Lock()
		if len(s.visits) > 0 {
			all[addr] = slices.Clone(s.visits)
		}
		s.mu.Unlock()
	}
	return all
}

// authority returns a host as it appears in URLs.
func authority(host string, port uint16) string {
	if port == 80 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// Visit is one request as its server saw it.
type Visit struct {
	URL string
	// Begin is when the server had read the request, End when it had written the answer.
	Begin, End time.Time
	// RetryAfter is how long the server told the client to stay away; 0 if it served the request.
	RetryAfter time.Duration
}

// Robots reports whether the request was for robots.txt.
func (v Visit) Robots() bool { return strings.HasSuffix(v.URL, "/robots.txt") }

// mostVisits limits the log of one server: a polite crawl takes hours to fill it.
const mostVisits = 10_000

// server is the state that the sites of one address share.
type server struct {
	slow atomic.Int64 // extra think time in ns

	mu     sync.Mutex // guards the fields below
	pages  int        // page requests so far
	until  time.Time  // when the latest Retry-After has passed
	visits []Visit
}

// refusal counts a page request and returns the Retry-After to refuse it with; 0 means to serve it.
func (a *server) refusal(s *site, now time.Time) time.Duration {
	if s.RefuseEvery == 0 {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.pages++; a.pages%s.RefuseEvery == 0 {
		a.until = now.Add(s.RetryAfter)
	}
	return max(0, a.until.Sub(now)).Round(time.Second)
}

// done logs a request that has been answered.
func (a *server) done(v *Visit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v.End = time.Now()
	if len(a.visits) < mostVisits {
		a.visits = append(a.visits, *v)
	}
}

// serve answers one request. It ignores write errors: the client has gone.
func (w *Web) serve(rw http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	s := w.hosts[host]
	if s == nil || s.Addr != dialled(r) {
		http.Error(rw, "no such host at this address", http.StatusMisdirectedRequest)
		return
	}
	t, at := s.find(r.URL.Path), w.servers[s.Addr]
	visit := &Visit{URL: s.root + r.URL.RequestURI(), Begin: time.Now()}
	if t.kind == kindPage {
		visit.RetryAfter = at.refusal(s, visit.Begin)
	}
	defer at.done(visit)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	d := s.draw(t.page)
	if bell.Sleep(r.Context(), d.think+time.Duration(at.slow.Load())) != nil {
		return
	}
	if visit.RetryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.Itoa(int(visit.RetryAfter.Seconds())))
		http.Error(rw, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
		return
	}
	switch t.kind {
	case kindPage:
		body := w.body(s, t.page, d)
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = rw.Write(body)
	case kindRobots:
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(rw, s.Robots)
	case kindRedirect:
		rw.Header().Set("Location", path(target{kindPage, t.page}))
		rw.WriteHeader(http.StatusFound)
	case kindGone:
		http.Error(rw, http.StatusText(d.gone), d.gone)
	default:
		http.NotFound(rw, r)
	}
}

// dialled returns the address at which the client reached this server.
func dialled(r *http.Request) netip.Addr {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return at.AddrPort().Addr().Unmap()
}
