package sites

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
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

// Visit is a request as the server saw it.
type Visit struct {
	Begin, End time.Time
	Robots     bool
	// RetryAfter is how long the client was told to stay away; 0 where it was served.
	RetryAfter time.Duration
}

// mostVisits bounds what is remembered of a server: hours of a polite crawl.
const mostVisits = 10_000

// visits is a Server with what it takes to count on.
type visits struct {
	Server
	now   int       // requests at work
	last  time.Time // when the latest ended
	pages int
	until time.Time // nobody is served before
	all   []Visit
}

// visit is a request at work.
type visit struct {
	Visit
	tally *tally
	at    *visits
}

// begin counts a request, and says whether it is refused.
func (c *tally) begin(s *site, t target, uri string) *visit {
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
	now := time.Now()
	v.Requests++
	if !v.last.IsZero() && v.now == 0 {
		if gap := now.Sub(v.last); v.MinGap == 0 || gap < v.MinGap {
			v.MinGap = gap
		}
	}
	v.now++
	v.MaxParallel = max(v.MaxParallel, v.now)
	out := &visit{Visit: Visit{Begin: now, Robots: t.kind == kindRobots || uri == "/robots.txt"}, tally: c, at: v}
	if t.kind != kindPage || s.RefuseEvery == 0 {
		return out
	}
	if v.pages++; v.pages%s.RefuseEvery == 0 {
		v.until = now.Add(s.RetryAfter)
	}
	out.RetryAfter = max(0, v.until.Sub(now)).Round(time.Second)
	return out
}

func (v *visit) done() {
	v.tally.mu.Lock()
	defer v.tally.mu.Unlock()
	v.at.now--
	v.End = time.Now()
	v.at.last = v.End
	if len(v.at.all) < mostVisits {
		v.at.all = append(v.at.all, v.Visit)
	}
}

// Visits are the requests of each server in the order in which they ended, the first ten thousand.
func (w *Web) Visits() map[netip.Addr][]Visit {
	w.tally.mu.Lock()
	defer w.tally.mu.Unlock()
	out := map[netip.Addr][]Visit{}
	for addr, v := range w.tally.servers {
		out[addr] = slices.Clone(v.all)
	}
	return out
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
