package crawl

import (
	"maps"
	"strconv"
	"strings"
	"sync"

	"proxima/fetch"
)

// Stats count what a node has downloaded since it started. Rows are what the table at the end shows: HTTP statuses,
// and "communication failure" and "DNS error" beside them.
type Stats struct {
	// Pages are pages asked for, in whatever way that ended; Requests are all requests, robots.txt and sitemaps too.
	Pages    int64 `json:"pages"`
	Requests int64 `json:"requests"`
	// Bytes are bytes of bodies as received.
	Bytes int64 `json:"bytes"`
	// Links are links found on pages, New those that no one had seen.
	Links int64 `json:"links"`
	New   int64 `json:"new"`
	// Rows count pages by status.
	Rows map[string]int64 `json:"rows"`
	// Drops count links that did not reach the frontier, by reason; where there are too many reasons, by what stands before
	// their colons.
	Drops map[string]int64 `json:"drops"`
	// ArchiveFailures count exchanges that could not be archived.
	ArchiveFailures int64 `json:"archive_failures"`
	// NoIdentity is true when a host was refused because the operator set no contact.
	NoIdentity bool `json:"no_identity"`
}

// Rows that are no status.
const (
	RowFailure = "communication failure"
	RowDNS     = "DNS error"
)

// statistics is a Stats that fetchers share.
type statistics struct {
	mu sync.Mutex
	// guarded by mu
	s Stats
}

func (s *statistics) update(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.s)
}

func (s *statistics) snapshot() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.s
	c.Rows, c.Drops = maps.Clone(c.Rows), maps.Clone(c.Drops)
	return c
}

func (s *Stats) row(name string) {
	if s.Rows == nil {
		s.Rows = make(map[string]int64)
	}
	s.Rows[name]++
}

func rowOf(res *fetch.Result) string {
	if res.Status == 0 {
		return RowFailure
	}
	return strconv.Itoa(res.Status)
}

// DropLinks counts links that are not offered to the frontier, by reason.
func (l *Loop) DropLinks(drops map[string]int) {
	list := make([]drop, 0, len(drops))
	for reason, n := range drops {
		list = append(list, drop{reason, n})
	}
	l.dropLinks(list)
}

// maxDropReasons bounds the reasons that are counted apart: rules of a blocklist and words of peers are without number.
const maxDropReasons = 1000

func (l *Loop) dropLinks(drops []drop) {
	if len(drops) == 0 {
		return
	}
	l.stats.update(func(s *Stats) {
		if s.Drops == nil {
			s.Drops = make(map[string]int64)
		}
		for _, d := range drops {
			if d.n <= 0 {
				continue
			}
			if _, ok := s.Drops[d.reason]; !ok && len(s.Drops) >= maxDropReasons {
				d.reason, _, _ = strings.Cut(d.reason, ":")
			}
			s.Drops[d.reason] += int64(d.n)
		}
	})
}
