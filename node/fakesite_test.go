package node_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
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
