package sites

import (
	"iter"
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Tally is what a Web was asked for in all.
type Tally struct {
	// Requests are all for its hosts, Misdirected those for hosts that are not at the address.
	Requests, Misdirected int64
	// Pages are those for pages of HTML, Seen how many different ones, Repeats how many requests were not the first of a page.
	Pages, Seen, Repeats int64
}

// Server is how one server address was treated, as it saw that itself: from when it had read a request to when the answer had left its
// hands.
type Server struct {
	Requests int64
	// MaxParallel is the most requests at once.
	MaxParallel int
	// MinGap is the shortest time between the end of a request and the beginning of the next, while no other was at work; 0 if
	// there was none.
	MinGap time.Duration
}

// asked is something that was asked for.
type asked struct {
	site   int
	target target
	uri    string // where the target is kindOther
}

type tally struct {
	misdirected atomic.Int64

	// mu guards what follows.
	mu      sync.Mutex
	asked   map[asked]int
	servers map[netip.Addr]*visits
}

// visits is a Server with what it takes to count on.
type visits struct {
	Server
	now  int       // requests at work
	last time.Time // when the latest ended
}

// begin counts a request and returns what ends it.
func (c *tally) begin(s *site, t target, uri string) (end func()) {
	a := asked{site: s.index, target: t}
	if t.kind == kindOther {
		a.uri = uri
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked[a]++
	v := c.servers[s.Addr]
	if v == nil {
		v = &visits{}
		c.servers[s.Addr] = v
	}
	v.Requests++
	if !v.last.IsZero() && v.now == 0 {
		if gap := time.Since(v.last); v.MinGap == 0 || gap < v.MinGap {
			v.MinGap = gap
		}
	}
	v.now++
	v.MaxParallel = max(v.MaxParallel, v.now)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		v.now--
		v.last = time.Now()
	}
}

// Requests are all URLs that were asked for, with how often.
func (w *Web) Requests() iter.Seq2[string, int] {
	w.tally.mu.Lock()
	all := maps.Clone(w.tally.asked)
	w.tally.mu.Unlock()
	return func(yield func(string, int) bool) {
		for a, n := range all {
			s := w.order[a.site]
			url := s.url(a.target)
			if a.target.kind == kindOther {
				url = s.root + a.uri
			}
			if !yield(url, n) {
				return
			}
		}
	}
}

// Tally is what was asked for in all.
func (w *Web) Tally() Tally {
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	t := Tally{Misdirected: w.tally.misdirected.Load()}
	for a, n := range w.tally.asked {
		t.Requests += int64(n)
		if a.target.kind == kindPage {
			t.Pages += int64(n)
			t.Seen++
			t.Repeats += int64(n) - 1
		}
	}
	return t
}

// Servers is how each server that was asked at all was treated.
func (w *Web) Servers() map[netip.Addr]Server {
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	out := map[netip.Addr]Server{}
	for addr, v := range w.tally.servers {
		out[addr] = v.Server
	}
	return out
}
