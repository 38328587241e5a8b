package sites

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

const (
	// dripTime is how long a page that drips takes, in dripParts parts.
	dripTime  = 5 * time.Second
	dripParts = 20
)

// serve answers one request.
func (w *Web) serve(rw http.ResponseWriter, r *http.Request) {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr := server(r)
	s := w.sites[host]
	if s == nil || s.Addr != addr {
		w.tally.misdirected.Add(1)
		http.Error(rw, "no such host at this address", http.StatusMisdirectedRequest)
		return
	}
	t := s.find(r.URL.Path)
	visit := w.tally.begin(s, t, r.URL.RequestURI())
	defer visit.done()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		rw.Header().Set("Allow", "GET, HEAD")
		http.Error(rw, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	d := s.draw(t.page)
	if !pause(r.Context(), d.think+time.Duration(w.slow[addr].Load())) {
		return
	}
	if visit.RetryAfter > 0 {
		rw.Header().Set("Retry-After", strconv.Itoa(int(visit.RetryAfter.Seconds())))
		http.Error(rw, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
		return
	}
	switch t.kind {
	case kindPage:
		w.page(rw, r, s, t.page, d)
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

// page writes a page; errors of writing are the client's, who has gone.
func (w *Web) page(rw http.ResponseWriter, r *http.Request, s *site, page int, d drawn) {
	body := w.body(s, page, d)
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if !d.drips || r.Method == http.MethodHead {
		_, _ = rw.Write(body)
		return
	}
	flush := http.NewResponseController(rw)
	for i := range dripParts {
		if _, err := rw.Write(body[i*len(body)/dripParts : (i+1)*len(body)/dripParts]); err != nil {
			return
		}
		if i == dripParts-1 || flush.Flush() != nil || !pause(r.Context(), dripTime/(dripParts-1)) {
			return
		}
	}
}

// server is the address that the client dialled.
func server(r *http.Request) netip.Addr {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return at.AddrPort().Addr().Unmap()
}

// pause waits, and says whether the client is still there.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
