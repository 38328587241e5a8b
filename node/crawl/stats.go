package crawl

import (
	"maps"
	"strconv"
	"strings"
	"sync"

	"proxima/fetch"
)

// Stats count what a node has downloaded since it started.
type Stats struct {
	// Pages counts requests for pages, including those that failed. Requests counts all requests, including robots.txt and sitemaps.
	Pages    int64 `json:"pages"`
	Requests int64 `json:"requests"`
	// Bytes counts bytes of bodies as received.
	Bytes int64 `json:"bytes"`
	// Links counts links on pages, New those that were not known before.
	Links int64 `json:"links"`
	New   int64 `json:"new"`
	// Rows counts pages by HTTP status, RowFailure and RowDNS, as in the table at the end of a crawl.
	Rows map[string]int64 `json:"rows"`
	// Drops counts links that were not offered to the frontier, by reason. If there are too many reasons, later ones are cut at their
	// colon.
	Drops map[string]int64 `json:"drops"`
	// ArchiveFailures counts exchanges that could not be archived.
	ArchiveFailures int64 `json:"archive_failures"`
	// NoIdentity is true if a host was refused because the operator has set no contact.
	NoIdentity bool `json:"no_identity"`
}

// Rows that are no status.
const (
	RowFailure = "communication failure"
	RowDNS     = "DNS error"
)

// statistics is a Stats that fetchers share.
type statistics struct {
	// mu guards what follows.
	mu sync.Mutex
	s  Stats
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

// row counts a page in the table by statuses.
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

// maxDropReasons bounds how many reasons are counted: the rules of a blocklist and the words of peers are unbounded.
const maxDropReasons = 1000

// drop counts links that are not offered to the frontier, by reason.
func (s *statistics) drop(drops ...drop) {
	if len(drops) == 0 {
		return
	}
	s.update(func(s *Stats) {
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
