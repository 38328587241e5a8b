package frontier

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/identity"
)

// Site holds what an operator has set for one host. A nil Site sets nothing.
type Site struct {
	// Gap replaces Politeness.MinGap and OwnGap, Budget replaces Config.MaxHostURLs. Nil replaces nothing.
	Gap    *time.Duration
	Budget *int
	// Hours are the times at which the host may be asked. Nil means at any time.
	Hours Hours
	// Rank orders the host's URLs in memory: the highest rank comes first. Nil keeps their order.
	Rank func(u identity.URL, depth uint8) int
	// RecrawlMin and RecrawlMax replace Recrawl.Min and Max. 0 replaces nothing.
	RecrawlMin, RecrawlMax time.Duration
	// Stays says that the host must not go to other nodes. Ready leaves it out.
	Stays bool
}

// Hours are times at which a host may be asked.
type Hours interface {
	Open(now time.Time) bool
	// Next returns the first open time from now on; false if there is none.
	Next(now time.Time) (time.Time, bool)
	String() string
}

// recrawl returns what holds for the pages of the host. If bounds contradict each other, those of the site count, and of these RecrawlMin.
func (s *Site) recrawl(r Recrawl) Recrawl {
	if s != nil && s.RecrawlMax > 0 {
		r.Max = s.RecrawlMax
		r.Min = min(r.Min, r.Max)
	}
	if s != nil && s.RecrawlMin > 0 {
		r.Min = s.RecrawlMin
		r.Max = max(r.Min, r.Max)
	}
	return r
}

// fills says whether the host is full with that many URLs. most is Config.MaxHostURLs.
func (s *Site) fills(urls int, most int64) bool {
	if s != nil && s.Budget != nil {
		most = int64(*s.Budget)
	}
	return most > 0 && int64(urls) >= most
}

// neverOpens is how long a host waits whose hours hold no time at all.
const neverOpens = 7 * 24 * time.Hour

// opens returns when the host may be asked again; zero if it may be asked now.
func (s *Site) opens(now time.Time) time.Time {
	if s == nil || s.Hours == nil || s.Hours.Open(now) {
		return time.Time{}
	}
	if next, ok := s.Hours.Next(now); ok {
		return next
	}
	return now.Add(neverOpens)
}

// closed says whether the host is outside its hours.
func (s *Site) closed(now time.Time) bool { return s != nil && s.Hours != nil && !s.Hours.Open(now) }

// next removes the next URL from a window: the first of those with the highest rank.
func (s *Site) next(q *fifo[pending]) pending {
	if s == nil || s.Rank == nil {
		return q.pop()
	}
	best := 0
	for i, p := range *q {
		if p.rank > (*q)[best].rank {
			best = i
		}
	}
	p := (*q)[best]
	copy((*q)[1:], (*q)[:best])
	q.pop()
	return p
}

// FileServer returns an address that stands for the server of a host which this node reads from its own disk. It is in the discard prefix
// (RFC 6666) and is never dialled. It needs no lease and no gaps.
func FileServer(host string) netip.Addr {
	var b [16]byte
	b[0] = 1
	binary.BigEndian.PutUint64(b[8:], xxhash.Sum64String(host))
	return netip.AddrFrom16(b)
}

// isFileServer says whether FileServer made an address.
func isFileServer(addr netip.Addr) bool {
	b := addr.As16()
	return binary.BigEndian.Uint64(b[:8]) == 1<<56
}
