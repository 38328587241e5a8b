//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Shape of the site: hosts with a tree of pages each, whose front pages name one another in a ring. The late hosts are named
// nowhere: only seeds lead there.
const (
	subnet    = "198.18.1"
	ringHosts = 24
	lateHosts = 6
	pages     = 20
	arity     = 4
)

// web is the site, and how often each page was asked for.
type web struct {
	loopback bool
	port     int
	server   *http.Server

	mu    sync.Mutex
	asked map[string]int // URL -> requests; guarded by mu
}

func newWeb(loopback bool) (*web, error) {
	w := &web{loopback: loopback, port: 80, asked: map[string]int{}}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: 10 * time.Second}
	if loopback {
		var err error
		if w.port, err = freePort(w.address(0)); err != nil {
			return nil, err
		}
	}
	for i := range ringHosts + lateHosts {
		l, err := net.Listen("tcp4", net.JoinHostPort(w.address(i), strconv.Itoa(w.port)))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("serve site: %w", err), w.close())
		}
		go func() { _ = w.server.Serve(l) }() // it ends when it is closed
	}
	return w, nil
}

func (w *web) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return w.server.Close()
}

func (w *web) prefix() string {
	if w.loopback {
		return "127.0.4"
	}
	return subnet
}

// address is that of a host.
func (w *web) address(i int) string { return fmt.Sprintf("%s.%d", w.prefix(), i+1) }

// host is the authority of a host.
func (w *web) host(i int) string {
	name := fmt.Sprintf("s%02d.test", i)
	if w.port != 80 {
		name += ":" + strconv.Itoa(w.port)
	}
	return name
}

func (w *web) seed(i int) string { return "http://" + w.host(i) + "/" }

func (w *web) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	var host int
	if _, err := fmt.Sscanf(r.Host, "s%d.test", &host); err != nil {
		http.NotFound(out, r)
		return
	}
	page := 0
	if r.URL.Path != "/" {
		n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/p"), ".html"))
		if err != nil || n < 1 || n >= pages {
			http.NotFound(out, r)
			return
		}
		page = n
	}
	w.mu.Lock()
	w.asked[r.Host+r.URL.Path]++
	w.mu.Unlock()
	out.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(out, "<!doctype html><title>Page %d of host %d</title><p>%s\n", page, host, strings.Repeat("Some words. ", 50))
	for child := page*arity + 1; child <= page*arity+arity && child < pages; child++ {
		fmt.Fprintf(out, "<a href=\"/p%d.html\">%d</a>\n", child, child)
	}
	if page == 0 && host < ringHosts {
		fmt.Fprintf(out, "<a href=%q>the next host</a>\n", w.seed((host+1)%ringHosts))
	}
}

// crawled is how many pages were asked for, and how often those were that were asked for more than once.
func (w *web) crawled() (distinct, again int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.asked {
		distinct++
		again += n - 1
	}
	return distinct, again
}

// config is the common configuration: for this site, with the times of the overlay shortened. It has keys that each node
// gets its own of, in forms that a merge must get right.
func (w *web) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The nodes of the check.
[node]
data = "elsewhere" # each node's own wins
memory_mib = 256

[crawl]
seeds = [
  "not-there.txt", # ]
  "nor-there.txt",
]
end = "never"
fetchers = 8

[politeness]
own = ["%[1]s.0/24"]
own_gap = "0s"

[fetch]
allow_prefixes = ["%[1]s.0/24"]

[frontier]
min_free_mib = 64

[peer]
listen = "127.0.0.1:1"

[member]
preset = "lan"
faster = 7.5
"settle_after" = "2s"

[batch]
mode = "crawl"

[output]
log_file_bytes = 65536

[fetch.dns.hosts]
`, w.prefix())
	for i := range ringHosts + lateHosts {
		fmt.Fprintf(&b, "\"s%02d.test\" = [%q]\n", i, w.address(i))
	}
	return b.String()
}
