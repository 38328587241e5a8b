// Package sites is the web of the testbed: servers that make pages, or serve real documentation by nginx, the name server that knows
// their hosts, and the database that says where their addresses are. It owns what the sites answer and counts what they were asked,
// for the other side of what nodes log. Where listeners are opened and processes started is given by the caller: in a network
// namespace, or on the portable emulation. It knows nothing of nodes and judges nobody.
package sites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Deps are how listeners and processes are made; nil is the machine's own way.
type Deps struct {
	Listen       func(network, address string) (net.Listener, error)
	ListenPacket func(network, address string) (net.PacketConn, error)
	Start        func(*exec.Cmd) error
}

// Config is what a Web is made of.
type Config struct {
	// Seed decides sizes, links and think times: the same Config makes the same web.
	Seed uint64
	// Listen are the addresses to listen at, "0.0.0.0:80" by default: one listener serves all addresses of its namespace.
	Listen []string
	// Port is the one in URLs, 80 by default.
	Port  uint16
	Sites []Site
}

// Site is one host of a Web. Many may share an address.
type Site struct {
	Host string
	// Addr is its server's address; asked for at another one, the server answers 421.
	Addr netip.Addr
	// Pages is how many pages of HTML it has, the front page "/" included; at least 1.
	Pages int
	// Think is the median time from a request to the first byte of the answer.
	Think time.Duration
	// Robots is the text of robots.txt; without one it answers 404.
	Robots string
	// RefuseEvery is which page is refused with 429 where it is not 0: each so many-th, with a Retry-After of RetryAfter. What comes
	// before that is over is refused, too.
	RefuseEvery int
	RetryAfter  time.Duration
	Content
}

// Content is how the pages of a site are.
type Content struct {
	// MedianBytes is the median size of the pages of the median host, in bytes. A host's own median is log-normal around it with
	// HostSpread, its pages' sizes around that with PageSpread: standard deviations of the natural logarithm. Pages are as long as
	// their links need at least, and 2 MB at most.
	MedianBytes, HostSpread, PageSpread float64
	// ThinkSpread is the same for the think times of the pages around Site.Think. Each page keeps its own.
	ThinkSpread float64
	// Links is how many links a page has within its site, at least 1. Some of them make a tree of all pages of the site.
	Links int
	// Abroad is how many links a page has to other sites, on average. If it is not 0 the front page links to the front page of the
	// next site, too; if it is 0 nowhere, the sites are islands.
	Abroad float64
	// Errors is the share of pages with a link to something that answers 404, 500, 400 or 403, Drips of those that come in
	// pieces over five seconds, Redirects of those that the tree reaches by a redirect.
	Errors, Drips, Redirects float64
}

// DefaultContent is that of well-behaved sites of documentation.
func DefaultContent() Content {
	return Content{MedianBytes: 20_000, HostSpread: 0.6, PageSpread: 0.5, ThinkSpread: 0.3, Links: 12, Abroad: 1}
}

// validate reports every value that cannot be.
func (c Config) validate() error {
	var errs []error
	hosts := map[string]bool{}
	for i, s := range c.Sites {
		fault := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("site %d (%s): %s", i, s.Host, fmt.Sprintf(format, args...)))
		}
		if s.Host == "" || s.Host != strings.ToLower(s.Host) || hosts[s.Host] {
			fault("the host is empty, not in lower case, or there twice")
		}
		hosts[s.Host] = true
		if !s.Addr.IsValid() {
			fault("no address")
		}
		if s.Pages < 1 || s.Links < 1 || !(s.MedianBytes > 0) {
			fault("pages %d, links %d and median size %v must be above 0", s.Pages, s.Links, s.MedianBytes)
		}
		for _, v := range []float64{s.HostSpread, s.PageSpread, s.ThinkSpread, s.Abroad, s.Think.Seconds()} {
			if !(v >= 0) {
				fault("spreads, links abroad and think time must not be negative")
				break
			}
		}
		for _, v := range []float64{s.Errors, s.Drips, s.Redirects} {
			if !(v >= 0 && v <= 1) {
				fault("shares must be between 0 and 1")
				break
			}
		}
	}
	return errors.Join(errs...)
}

// Web serves sites made of seeds. Safe for concurrent use.
type Web struct {
	cfg       Config
	sites     map[string]*site // by host
	order     []*site
	text      string // what fills the pages
	slow      map[netip.Addr]*atomic.Int64
	tally     tally
	server    *http.Server
	listeners []net.Listener
	conns     sync.WaitGroup
}

// New makes the web and listens. Run must be called even to close it.
func New(cfg Config, deps Deps) (*Web, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"0.0.0.0:80"}
	}
	if cfg.Port == 0 {
		cfg.Port = 80
	}
	if deps.Listen == nil {
		deps.Listen = net.Listen
	}
	w := &Web{cfg: cfg, sites: map[string]*site{}, text: filler(cfg.Seed), slow: map[netip.Addr]*atomic.Int64{},
		tally: tally{asked: map[asked]int{}, servers: map[netip.Addr]*visits{}}}
	for i, s := range cfg.Sites {
		w.order = append(w.order, w.newSite(i, s))
		w.sites[s.Host] = w.order[i]
		if w.slow[s.Addr] == nil {
			w.slow[s.Addr] = &atomic.Int64{}
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
	w.server = &http.Server{Handler: http.HandlerFunc(w.serve), ConnState: w.connState, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	return w, nil
}

// Run serves until the context ends.
func (w *Web) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, l := range w.listeners {
		g.Go(func() error {
			if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the sites at %v: %w", l.Addr(), err)
			}
			return nil
		})
	}
	g.Go(func() error {
		<-ctx.Done()
		return w.server.Close()
	})
	err := g.Wait()
	w.conns.Wait()
	return err
}

// connState keeps count of connections, so that Run can wait for them.
func (w *Web) connState(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		w.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		w.conns.Done()
	}
}

// Slow makes a server think that much longer, until it is told otherwise; 0 restores it.
func (w *Web) Slow(addr netip.Addr, by time.Duration) error {
	slow := w.slow[addr]
	if slow == nil {
		return fmt.Errorf("slow server %v: no such server", addr)
	}
	slow.Store(int64(by))
	return nil
}

// Fronts are the front pages of all sites, in their order.
func (w *Web) Fronts() []string {
	var urls []string
	for _, s := range w.order {
		urls = append(urls, s.url(target{kind: kindPage}))
	}
	return urls
}

// Count is how many pages of HTML there are: what answers 200, robots.txt left out.
func (w *Web) Count() int {
	n := 0
	for _, s := range w.order {
		n += s.Pages
	}
	return n
}

// URLs are those pages, site by site.
func (w *Web) URLs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range w.order {
			for i := range s.Pages {
				if !yield(s.url(target{kindPage, i})) {
					return
				}
			}
		}
	}
}

// authority is a host as it stands in URLs.
func authority(host string, port uint16) string {
	if port == 80 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
