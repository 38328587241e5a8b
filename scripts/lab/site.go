package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/node/bell"
)

// Each host of a site is a tree of pages. Only the parent links to a page, so that a lost link is not found again elsewhere. Every fourth
// page has its parent on another host, if there is one. Further links lead to ancestors, to top pages of other hosts and to a forbidden
// page. A crawler already knows or refuses all of these.
const (
	arity     = 8
	elsewhere = 4 // every fourth page has its parent on another host
	seedHosts = 3 // the first hosts are seeds; the others are found by links
	robotsTxt = "User-agent: *\nDisallow: /forbidden/\n"
)

// Layout says which pages a site has, and which links to which.
type Layout struct {
	Hosts []Host
	Port  int
	// Redirects says that links lead to every n-th page through a redirect. 0 means none.
	Redirects int
	// Hold, if there is one, holds back the answer of a page until it returns.
	Hold func(ctx context.Context, page int)
}

type Host struct {
	Name, Addr string // without port
	Pages      int
}

// NewLayout spreads pages over hosts of different sizes, and hosts over addresses of a /24 network such as "127.0.3.". A single host is
// named by its address.
func NewLayout(network string, pages, hosts, addresses int) Layout {
	var l Layout
	weights := 0
	for i := range hosts {
		weights += 1 + i%4
	}
	left := pages
	for i := range hosts {
		n := max(1, pages*(1+i%4)/weights)
		if i == hosts-1 {
			n = max(1, left)
		}
		left -= n
		h := Host{fmt.Sprintf("h%02d.test", i), network + strconv.Itoa(11+i%addresses), n}
		if hosts == 1 {
			h.Name = h.Addr
		}
		l.Hosts = append(l.Hosts, h)
	}
	return l
}

// Authority returns name and port of a host.
func (l *Layout) Authority(h int) string { return fmt.Sprintf("%s:%d", l.Hosts[h].Name, l.Port) }

// URL returns the URL of a page.
func (l *Layout) URL(h, page int) string { return "http://" + l.Authority(h) + target(page) }

// Seeds returns the pages from which all others can be reached.
func (l *Layout) Seeds() []string {
	var seeds []string
	for h := range min(seedHosts, len(l.Hosts)) {
		seeds = append(seeds, l.URL(h, 0))
	}
	return seeds
}

// target is the request target of a page.
func target(page int) string {
	if page == 0 {
		return "/"
	}
	return fmt.Sprintf("/p%d/%d.html", page/200, page)
}

// redirected reports whether a page is linked through a redirect.
func (l *Layout) redirected(page int) bool {
	return l.Redirects > 0 && page > 0 && page%l.Redirects == 0
}

// link is the target of links to a page.
func (l *Layout) link(page int) string {
	if l.redirected(page) {
		return fmt.Sprintf("/r/%d", page)
	}
	return target(page)
}

// parent returns the page that links to another; ok is false for seeds.
func (l *Layout) parent(h, page int) (ph, pp int, ok bool) {
	if page == 0 {
		if h < seedHosts {
			return 0, 0, false
		}
		return (h - seedHosts) / 2, 0, true
	}
	up := (page - 1) / arity
	if page%elsewhere == elsewhere-1 {
		if other := (h + 1 + page) % len(l.Hosts); up < l.Hosts[other].Pages {
			return other, up, true
		}
	}
	return h, up, true
}

// Pages lists all pages and redirects, as authority and target.
func (l *Layout) Pages() (list []string) {
	for h := range l.Hosts {
		for p := range l.Hosts[h].Pages {
			list = append(list, l.Authority(h)+target(p))
			if l.redirected(p) {
				list = append(list, l.Authority(h)+l.link(p))
			}
		}
	}
	return list
}

// Request is a request that a site received.
type Request struct {
	Node, Life int    // from the User-Agent "Proxima/NODE.LIFE"; -1 for any other
	Server     string // the address
	Host, Path string
	Status     int // 0 while it is in progress, or if the client closed the connection
	Start, End time.Time
}

// Page is the requested authority and target.
func (r Request) Page() string { return r.Host + r.Path }

// Whole reports whether it was answered in full.
func (r Request) Whole() bool { return r.Status != 0 }

// at is a page of a host, or the redirect to it.
type at struct {
	host, page int
	redirect   bool
}

// Site is a running site. Safe for concurrent use.
type Site struct {
	Layout
	// Slower is added to the time of each request, in nanoseconds.
	Slower   atomic.Int64
	think    time.Duration
	children map[at][]at
	targets  map[string]at // by authority and path
	server   *http.Server

	mu       sync.Mutex
	requests []*Request
	active   int
	seen     map[string]bool // pages answered in full
}

// Serve serves a layout at its addresses on a free port. think is the mean time that an answer takes, at most twice as long. Half of it passes
// before the first byte and half in the middle of a page, so that kills hit downloads at every stage and requests at the same time are noticed.
func Serve(l Layout, think time.Duration) (*Site, error) {
	s := &Site{Layout: l, think: think, children: map[at][]at{}, targets: map[string]at{}, seen: map[string]bool{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	var addrs []string
	for _, h := range l.Hosts {
		if !slices.Contains(addrs, h.Addr) {
			addrs = append(addrs, h.Addr)
		}
	}
	for _, addr := range addrs {
		listener, err := net.Listen("tcp4", net.JoinHostPort(addr, strconv.Itoa(s.Port)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serve site: %w", err), s.server.Close())
		}
		s.Port = listener.Addr().(*net.TCPAddr).Port // most likely free at the other addresses, too
		go s.server.Serve(listener)                  //nolint:errcheck // it ends with Close
	}
	for h := range s.Hosts {
		for p := range s.Hosts[h].Pages {
			s.targets[s.Authority(h)+s.link(p)] = at{host: h, page: p, redirect: true}
			s.targets[s.Authority(h)+target(p)] = at{host: h, page: p}
			if ph, pp, ok := s.parent(h, p); ok {
				up := at{host: ph, page: pp}
				s.children[up] = append(s.children[up], at{host: h, page: p})
			}
		}
	}
	return s, nil
}

func (s *Site) Close() error { return s.server.Close() }

// Requests returns all requests so far, by start.
func (s *Site) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Request, len(s.requests))
	for i, r := range s.requests {
		list[i] = *r
	}
	slices.SortStableFunc(list, func(a, b Request) int { return a.Start.Compare(b.Start) })
	return list
}

// Asked returns the number of requests so far.
func (s *Site) Asked() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.requests) }

// Finished returns the number of pages that were answered in full.
func (s *Site) Finished() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.seen) }

// Active returns the number of requests in progress.
func (s *Site) Active() int { s.mu.Lock(); defer s.mu.Unlock(); return s.active }

func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	req := &Request{Node: -1, Life: -1, Host: r.Host, Path: r.URL.RequestURI(), Start: time.Now()}
	if _, err := fmt.Sscanf(r.UserAgent(), "Proxima/%d.%d", &req.Node, &req.Life); err != nil {
		req.Node, req.Life = -1, -1
	}
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		req.Server = at.IP.String()
	}
	s.mu.Lock()
	s.requests = append(s.requests, req)
	s.active++
	s.mu.Unlock()
	// A request ends when its last bytes are written: the client may send the next before this goroutine runs again.
	var end time.Time
	status := s.answer(w, r, func() { end = time.Now() })
	if status == 0 {
		end = time.Now()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	req.End, req.Status = end, status
	s.active--
	if status != 0 {
		s.seen[req.Page()] = true
	}
}

// answer returns the status, or 0 if the client went away. It calls ending before it writes the last bytes.
func (s *Site) answer(w http.ResponseWriter, r *http.Request, ending func()) (status int) {
	random := xxhash.Sum64String(r.URL.Path)
	pause := time.Duration(random%1000)*s.think/1000 + time.Duration(s.Slower.Load())/2
	wait := func() bool { return bell.Sleep(r.Context(), pause) == nil }
	if !wait() {
		return 0
	}
	ending()
	_, known := s.targets[r.Host+"/"]
	of, ok := s.targets[r.Host+r.URL.Path]
	switch {
	case known && r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "text/plain")
		if _, err := w.Write([]byte(robotsTxt)); err != nil {
			return 0
		}
		return http.StatusOK
	case !ok || r.URL.RawQuery != "":
		http.NotFound(w, r)
		return http.StatusNotFound
	case of.redirect:
		http.Redirect(w, r, target(of.page), http.StatusMovedPermanently)
		return http.StatusMovedPermanently
	}
	if s.Hold != nil {
		s.Hold(r.Context(), of.page)
	}
	body := s.page(of.host, of.page, random)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body[:len(body)/2]); err != nil {
		return 0
	}
	if err := http.NewResponseController(w).Flush(); err != nil || !wait() {
		return 0
	}
	ending()
	if _, err := w.Write(body[len(body)/2:]); err != nil {
		return 0
	}
	return http.StatusOK
}

func (s *Site) page(h, page int, random uint64) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>%s %d</title><a href=\"%s\">itself</a> <a href=\"/forbidden/%d\">no</a>\n", s.Hosts[h].Name, page,
		target(page), page%7)
	for up := page; up > 0; {
		up = (up - 1) / arity
		fmt.Fprintf(&b, "<a href=\"%s\">up</a>\n", target(up))
	}
	for i := range 3 {
		other := (h + page + i) % len(s.Hosts)
		if other != h {
			fmt.Fprintf(&b, "<a href=\"%s\">first pages elsewhere</a>\n", s.URL(other, page%min(10, s.Hosts[other].Pages)))
		}
	}
	for _, c := range s.children[at{host: h, page: page}] {
		link := s.link(c.page)
		if c.host != h {
			link = "http://" + s.Authority(c.host) + link
		}
		fmt.Fprintf(&b, "<a href=\"%s\">child</a>\n", link)
	}
	for range random % 100 {
		b.WriteString("<p>Some words that make pages of different lengths, up to some kilobytes.</p>\n")
	}
	return []byte(b.String())
}
