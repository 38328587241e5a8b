package main

import (
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Shape of the site: a tree in which each page is named by its parent alone, so that nothing that a crash loses is found
// again by another way. Links to ancestors, to the page itself and to a forbidden page are known or refused already.
const (
	arity         = 8
	redirectEvery = 25 // one child in so many is linked through a redirect
	robotsBody    = "User-agent: *\nDisallow: /forbidden\n"
)

// request is one request as the site saw it.
type request struct {
	path       string
	life       int // from the User-Agent
	start, end time.Time
	whole      bool // the answer was written to its end
}

// origin serves the site and remembers requests.
type origin struct {
	pages int
	think time.Duration
	url   string
	srv   *http.Server

	mu       sync.Mutex
	requests []*request
	active   int
	finished int // whole answers of paths not answered before
	seen     map[string]bool
}

func newOrigin(pages int, think time.Duration) (*origin, error) {
	l, err := net.Listen("tcp", "127.0.3.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve site: %w", err)
	}
	o := &origin{pages: pages, think: think, url: "http://" + l.Addr().String() + "/", seen: map[string]bool{}}
	o.srv = &http.Server{Handler: o, ReadHeaderTimeout: 10 * time.Second}
	go o.srv.Serve(l) // ends with close
	return o, nil
}

func (o *origin) close() error { return o.srv.Close() }

func pagePath(i int) string {
	if i == 0 {
		return "/"
	}
	return "/p/" + strconv.Itoa(i)
}

func redirected(i int) bool { return i > 0 && i%redirectEvery == 0 }

// expected lists every path that a crawl must ask for.
func (o *origin) expected() []string {
	list := []string{"/robots.txt"}
	for i := range o.pages {
		if redirected(i) {
			list = append(list, "/r/"+strconv.Itoa(i))
		}
		list = append(list, pagePath(i))
	}
	return list
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, version, _ := strings.Cut(r.UserAgent(), "/")
	version, _, _ = strings.Cut(version, " ")
	life, err := strconv.Atoi(version)
	if err != nil {
		life = -1
	}
	req := &request{path: r.URL.Path, life: life, start: time.Now()}
	o.mu.Lock()
	o.requests = append(o.requests, req)
	o.active++
	o.mu.Unlock()
	whole := o.answer(w, r)
	o.mu.Lock()
	defer o.mu.Unlock()
	req.end, req.whole = time.Now(), whole
	o.active--
	if whole && !o.seen[req.path] {
		o.seen[req.path] = true
		o.finished++
	}
}

// answer writes an answer: half of it after half of the think time, the rest after the other half, so that a kill
// meets downloads at every stage. It says whether it could write all.
func (o *origin) answer(w http.ResponseWriter, r *http.Request) bool {
	h := fnv.New64a()
	h.Write([]byte(r.URL.Path))
	random := h.Sum64()
	pause := time.Duration(random%1000) * o.think / 1000 // half of 0 to 2 × think
	wait := func() bool {
		t := time.NewTimer(pause)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-r.Context().Done(): // the node is gone
			return false
		}
	}
	if !wait() {
		return false
	}
	kind, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	i, err := strconv.Atoi(rest)
	switch {
	case r.URL.Path == "/":
		i = 0
	case r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "text/plain")
		_, err := w.Write([]byte(robotsBody))
		return err == nil
	case err != nil || i < 1 || i >= o.pages || kind != "p" && kind != "r":
		http.NotFound(w, r)
		return true
	case kind == "r":
		http.Redirect(w, r, pagePath(i), http.StatusMovedPermanently)
		return true
	}
	body := o.page(i, random)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if _, err := w.Write(body[:len(body)/2]); err != nil {
		return false
	}
	if err := http.NewResponseController(w).Flush(); err != nil || !wait() {
		return false
	}
	_, err = w.Write(body[len(body)/2:])
	return err == nil
}

func (o *origin) page(i int, random uint64) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>%d</title><a href=\"%s\">itself</a> <a href=\"/forbidden/%d\">no</a>\n", i, pagePath(i), i)
	for up := i; up > 0; {
		up = (up - 1) / arity
		fmt.Fprintf(&b, "<a href=\"%s\">up</a>\n", pagePath(up))
	}
	for c := i*arity + 1; c <= i*arity+arity && c < o.pages; c++ {
		if redirected(c) {
			fmt.Fprintf(&b, "<a href=\"/r/%d\">moved</a>\n", c)
		} else {
			fmt.Fprintf(&b, "<a href=\"%s\">child</a>\n", pagePath(c))
		}
	}
	for range random % 200 {
		b.WriteString("<p>Some words that make pages of different lengths, up to some ten kilobytes.</p>\n")
	}
	return []byte(b.String())
}

// progress is the number of paths answered whole.
func (o *origin) progress() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.finished
}

// drained says whether no request is being answered.
func (o *origin) drained() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.active == 0
}
