package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"proxima/scripts/bench/origin/client"
)

// Counts counts the requests of crawlers since the last reset. Safe for concurrent use.
type Counts struct {
	world *World
	epoch time.Time // the times below are nanoseconds since it, on the monotonic clock
	sites []siteCounts

	disallowed  atomic.Int64
	early       atomic.Int64
	other       atomic.Int64
	bytes       atomic.Int64
	connections atomic.Int64
	open        atomic.Int64
	peakOpen    atomic.Int64
	first, last atomic.Int64
	cpu         atomic.Int64 // ns of processor time at the last reset
	agents      sync.Map     // *agent by User-Agent
}

type agent struct {
	pages atomic.Int64
	first time.Time
}

type siteCounts struct {
	pages  []atomic.Uint32 // complete answers to GET, by page
	robots atomic.Int64
}

func NewCounts(w *World) *Counts {
	c := &Counts{world: w, epoch: time.Now(), sites: make([]siteCounts, len(w.Sites))}
	for i := range c.sites {
		c.sites[i].pages = make([]atomic.Uint32, w.Config.Pages)
	}
	return c
}

func (c *Counts) Site(i int) http.Handler {
	site, counts := &c.world.Sites[i], &c.sites[i]
	keep := []string{"keep-alive"}
	html, plain := []string{"text/html; charset=utf-8"}, []string{"text/plain; charset=utf-8"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.first.CompareAndSwap(0, int64(time.Since(c.epoch)))
		// Common servers send this. Without it, wget2 1.99 keeps no connection open.
		w.Header()["Connection"] = keep
		if r.Method != http.MethodGet {
			c.other.Add(1)
			http.Error(w, "only GET", http.StatusMethodNotAllowed)
			return
		}
		path := r.URL.Path
		switch {
		case path == "/robots.txt":
			w.Header()["Content-Type"] = plain
			w.Write([]byte(robots))
			counts.robots.Add(1)
			return
		case strings.HasPrefix(path, disallowedPath):
			c.disallowed.Add(1)
			w.Header()["Content-Type"] = html
			w.Write([]byte("<!DOCTYPE html><title>Private</title><p>robots.txt forbids this page."))
			return
		}
		page, ok := site.Index[path]
		if !ok || r.URL.RawQuery != "" {
			c.other.Add(1)
			http.NotFound(w, r)
			return
		}
		if counts.robots.Load() == 0 {
			c.early.Add(1)
		}
		if c.world.Config.Think > 0 {
			time.Sleep(c.world.Config.Think)
		}
		body := site.Bodies[page]
		h := w.Header()
		h["Content-Type"] = html
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		if _, err := w.Write(body); err != nil {
			c.other.Add(1)
			return
		}
		counts.pages[page].Add(1)
		c.agent(r.UserAgent()).pages.Add(1)
		c.bytes.Add(int64(len(body)))
		raise(&c.last, int64(time.Since(c.epoch)))
	})
}

// agent returns the counts of a User-Agent. They begin with its first page.
func (c *Counts) agent(name string) *agent {
	if a, ok := c.agents.Load(name); ok {
		return a.(*agent)
	}
	a, _ := c.agents.LoadOrStore(name, &agent{first: time.Now()})
	return a.(*agent)
}

// Connection counts connections. It is the ConnState hook of every site's server.
func (c *Counts) Connection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		c.connections.Add(1)
		raise(&c.peakOpen, c.open.Add(1))
	case http.StateClosed, http.StateHijacked:
		c.open.Add(-1)
	}
}

func raise(a *atomic.Int64, to int64) {
	for {
		now := a.Load()
		if now >= to || a.CompareAndSwap(now, to) {
			return
		}
	}
}

func (c *Counts) Stats() client.Stats {
	s := client.Stats{
		Agents:      map[string]client.Agent{},
		Total:       len(c.world.Sites) * c.world.Config.Pages,
		Disallowed:  c.disallowed.Load(),
		Early:       c.early.Load(),
		Other:       c.other.Load(),
		Bytes:       c.bytes.Load(),
		Connections: c.connections.Load(),
		PeakOpen:    c.peakOpen.Load(),
		CPU:         time.Duration(cpuTime() - c.cpu.Load()),
	}
	for i := range c.sites {
		s.Robots += c.sites[i].robots.Load()
		for p := range c.sites[i].pages {
			if n := int64(c.sites[i].pages[p].Load()); n > 0 {
				s.Pages += n
				s.Distinct++
			}
		}
	}
	c.agents.Range(func(name, a any) bool {
		if n := a.(*agent).pages.Load(); n > 0 {
			s.Agents[name.(string)] = client.Agent{Pages: n, First: a.(*agent).first}
		}
		return true
	})
	s.Repeats = s.Pages - s.Distinct
	if s.Pages > 0 {
		s.Seconds = time.Duration(c.last.Load() - c.first.Load()).Seconds()
	}
	return s
}

// Reset zeroes the counts between two crawlers. Connections that are still open remain counted as open.
func (c *Counts) Reset() {
	for i := range c.sites {
		c.sites[i].robots.Store(0)
		for p := range c.sites[i].pages {
			c.sites[i].pages[p].Store(0)
		}
	}
	for _, a := range []*atomic.Int64{&c.disallowed, &c.early, &c.other, &c.bytes, &c.connections, &c.first, &c.last} {
		a.Store(0)
	}
	c.cpu.Store(cpuTime())
	c.agents.Clear()
	c.peakOpen.Store(c.open.Load())
}

// cpuTime returns the processor time of this process in ns.
func cpuTime() int64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used) // it does not fail
	return used.Utime.Nano() + used.Stime.Nano()
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
