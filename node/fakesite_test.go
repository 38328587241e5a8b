package node_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// Site is what answers at one authority. Paths without a handler are not found. It is safe for concurrent use.
type Site struct {
	web   *Web
	name  string
	addrs []string

	// mu guards what follows.
	mu       sync.Mutex
	took     time.Duration
	weight   int
	handlers map[string]http.HandlerFunc // by path
}

// set makes a change.
func (s *Site) set(change func()) *Site {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	return s
}

// Took delays every answer except robots.txt.
func (s *Site) Took(d time.Duration) *Site { return s.set(func() { s.took = d }) }

// Handle sets the handler of a path, for any query.
func (s *Site) Handle(path string, h http.HandlerFunc) *Site {
	return s.set(func() { s.handlers[path] = h })
}

// Robots sets the robots.txt.
func (s *Site) Robots(lines ...string) *Site {
	return s.Handle("/robots.txt", Text("text/plain", strings.Join(lines, "\n")))
}

// Weight makes pages added later that many bytes longer.
func (s *Site) Weight(bytes int) *Site { return s.set(func() { s.weight = bytes }) }

// Page adds a page with links.
func (s *Site) Page(path string, refs ...string) *Site {
	var b strings.Builder
	b.WriteString("<!doctype html><title>" + path + "</title>")
	for _, ref := range refs {
		fmt.Fprintf(&b, "<a href=\"%s\">%s</a>\n", ref, ref)
	}
	s.mu.Lock()
	b.WriteString(strings.Repeat("word ", s.weight/5))
	s.mu.Unlock()
	return s.Handle(path, Text("text/html", b.String()))
}

// Pages adds a front page "/" with links to n pages "/0", "/1", ….
func (s *Site) Pages(n int) *Site {
	refs := make([]string, n)
	for i := range refs {
		refs[i] = fmt.Sprintf("/%d", i)
		s.Page(refs[i])
	}
	return s.Page("/", refs...)
}

// Redirect answers 302.
func (s *Site) Redirect(path, to string) *Site {
	return s.Handle(path, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", to)
		w.WriteHeader(http.StatusFound)
	})
}

// Visits returns the requests to the site, in order.
func (s *Site) Visits() []Visit { return s.web.Visits(At(s.name)) }

// Paths returns the paths of the visits.
func (s *Site) Paths() []string {
	var paths []string
	for _, v := range s.Visits() {
		paths = append(paths, v.Path)
	}
	return paths
}

// Count returns how often a path was requested.
func (s *Site) Count(path string) int {
	n := 0
	for _, p := range s.Paths() {
		if p == path {
			n++
		}
	}
	return n
}

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	h, took := s.handlers[r.URL.Path], s.took
	s.mu.Unlock()
	if h == nil {
		h = http.NotFound
	}
	if r.URL.Path != "/robots.txt" {
		pause(r.Context(), took)
	}
	h(w, r)
}

// pause waits, and aborts the request if its client goes away meanwhile.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// Text answers 200 with a body.
func Text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		fmt.Fprint(w, body)
	}
}

// Status answers with a status and headers, given as alternating names and values.
func Status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// Turns answers the first request with the first handler, and so on; the last handler answers the rest.
func Turns(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[min(n, len(handlers)-1)]
		n++
		mu.Unlock()
		h(w, r)
	}
}

// Broken answers with a page that breaks off after its first bytes.
func Broken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	w.Header().Set("Content-Length", "100000")
	fmt.Fprint(w, "<a href=/torn>")
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	panic(http.ErrAbortHandler)
}

// nameServer answers for some names in a bubble, and that the others do not exist.
type nameServer struct {
	mu     sync.Mutex
	names  map[string]string // address by name, with the dot at the end
	mute   string            // the name, with the dot at the end, about which no question is answered
	silent atomic.Bool
	portal atomic.Bool // every name leads to a private address
	local  bool        // it runs on the machine of the node, so its silence is SERVFAIL
	wakes  time.Time   // when a question for the root ends the silence, if that is set
	asked  atomic.Int64
}

func (s *nameServer) dial(_ context.Context, network, _ string) (net.Conn, error) {
	if network == "tcp" {
		return nil, syscall.ECONNREFUSED
	}
	near, far := net.Pipe()
	go s.serve(far)
	return near, nil
}

// set makes it answer with an address for a name.
func (s *nameServer) set(name, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = map[string]string{}
	}
	s.names[name+"."] = addr
}

func (s *nameServer) address(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

func (s *nameServer) serve(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		var q dns.Msg
		if err != nil || q.Unpack(buf[:n]) != nil {
			return
		}
		s.asked.Add(1)
		if s.silent.Load() && !s.wakes.IsZero() && time.Now().After(s.wakes) && q.Question[0].Name == "." {
			s.silent.Store(false)
		}
		silent := s.silent.Load() || q.Question[0].Name == s.mute
		if silent && !s.local {
			continue
		}
		time.Sleep(5 * time.Millisecond) // an answer takes time
		var m dns.Msg
		m.SetReply(&q)
		name := q.Question[0].Name
		switch addr := s.address(name); {
		case silent:
			m.Rcode = dns.RcodeServerFailure
		case name == ".":
		case s.portal.Load() && q.Question[0].Qtype == dns.TypeA:
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(10, 0, 0, 1)})
		case addr != "" && q.Question[0].Qtype == dns.TypeA:
			rr, err := dns.NewRR(name + " 60 IN A " + addr)
			if err != nil {
				panic(err)
			}
			m.Answer = append(m.Answer, rr)
		case addr == "":
			m.Rcode = dns.RcodeNameError
		}
		out, err := m.Pack()
		if err != nil {
			panic(err)
		}
		if _, err := c.Write(out); err != nil && err != io.ErrClosedPipe {
			return
		}
	}
}
