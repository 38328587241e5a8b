package sites

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"proxima/node/bell"
)

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
