package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"proxima/scripts/bench/origin/client"
)

// Counts counts the requests of crawlers since the last reset. Safe for concurrent use.
type Counts struct {
	world *World

	mu          sync.Mutex // guards what follows
	sites       []siteCounts
	stats       client.Stats // what is not made of the others when somebody asks
	open        int64        // connections
	first, last time.Time
	cpu         time.Duration // at the last reset
}

type siteCounts struct {
	pages  []int64 // complete answers to GET, by page
	robots int64
}

func NewCounts(w *World) *Counts {
	c := &Counts{world: w}
	c.Reset()
	return c
}

// count counts under the lock.
func (c *Counts) count(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

func (c *Counts) Site(i int) http.Handler {
	site := &c.world.Sites[i]
	keep := []string{"keep-alive"}
	html, plain := []string{"text/html; charset=utf-8"}, []string{"text/plain; charset=utf-8"}
	other := func() { c.stats.Other++ }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(func() {
			if c.first.IsZero() {
				c.first = time.Now()
			}
		})
		// Common servers send this. Without it, wget2 1.99 keeps no connection open.
		w.Header()["Connection"] = keep
		if r.Method != http.MethodGet {
			c.count(other)
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		path := r.URL.Path
		switch {
		case path == "/robots.txt":
			w.Header()["Content-Type"] = plain
			w.Write([]byte(robots))
			c.count(func() { c.sites[i].robots++ })
			return
		case strings.HasPrefix(path, disallowedPath):
			c.count(func() { c.stats.Disallowed++ })
			w.Header()["Content-Type"] = html
			w.Write([]byte("<!DOCTYPE html><title>Private</title><p>robots.txt forbids this page."))
			return
		}
		page, ok := site.Index[path]
		if !ok || r.URL.RawQuery != "" {
			c.count(other)
			http.NotFound(w, r)
			return
		}
		c.count(func() {
			if c.sites[i].robots == 0 {
				c.stats.Early++
			}
		})
		if c.world.Config.Think > 0 {
			time.Sleep(c.world.Config.Think)
		}
		body := site.Bodies[page]
		h := w.Header()
		h["Content-Type"] = html
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		if _, err := w.Write(body); err != nil {
			c.count(other)
			return
		}
		c.count(func() {
			c.last = time.Now()
			c.sites[i].pages[page]++
			c.stats.Bytes += int64(len(body))
			a := c.stats.Agents[r.UserAgent()]
			if a.Pages++; a.Pages == 1 {
				a.First = c.last
			}
			c.stats.Agents[r.UserAgent()] = a
		})
	})
}

// Connection counts connections. It is the ConnState hook of every site's server.
func (c *Counts) Connection(_ net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.stats.Connections++
		c.open++
		c.stats.PeakOpen = max(c.stats.PeakOpen, c.open)
	case http.StateClosed, http.StateHijacked:
		c.open--
	}
}

func (c *Counts) Stats() client.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Agents, s.CPU = maps.Clone(s.Agents), cpuTime()-c.cpu
	for _, site := range c.sites {
		s.Robots += site.robots
		for _, n := range site.pages {
			if s.Pages += n; n > 0 {
				s.Distinct++
			}
		}
	}
	s.Repeats = s.Pages - s.Distinct
	if s.Pages > 0 {
		s.Seconds = c.last.Sub(c.first).Seconds()
	}
	return s
}

// Reset zeroes the counts between two crawlers. Connections that are still open remain counted as open.
func (c *Counts) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sites = make([]siteCounts, len(c.world.Sites))
	for i := range c.sites {
		c.sites[i].pages = make([]int64, c.world.Config.Pages)
	}
	c.stats = client.Stats{Agents: map[string]client.Agent{}, Total: len(c.sites) * c.world.Config.Pages, PeakOpen: c.open}
	c.first, c.last, c.cpu = time.Time{}, time.Time{}, cpuTime()
}

func cpuTime() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it does not fail
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func (c *Counts) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /_stats", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(c.Stats())
	})
	mux.HandleFunc("POST /_reset", func(http.ResponseWriter, *http.Request) { c.Reset() })
	// All pages, one of each site in turn, like a crawl.
	mux.HandleFunc("GET /_urls", func(w http.ResponseWriter, _ *http.Request) {
		for p := range c.world.Config.Pages {
			for i := range c.world.Sites {
				fmt.Fprintf(w, "http://%s%s\n", c.world.Sites[i].Host, c.world.Sites[i].Paths[p])
			}
		}
	})
	return mux
}
