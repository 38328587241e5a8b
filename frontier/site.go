package frontier

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/frontier/identity"
)

// Site is what an operator has set for one host; nil is nothing.
type Site struct {
	// Gap stands in place of Politeness.MinGap and OwnGap, Budget in place of Config.MaxHostURLs; nil leaves them.
	Gap    *time.Duration
	Budget *int
	// Hours are when the host may be asked; nil is at any time.
	Hours Hours
	// Rank says which of the host's URLs come first: of those in memory the ones with the highest. Nil keeps their order.
	Rank func(u identity.URL, depth uint8) int
	// RecrawlMin and RecrawlMax bound the time to the next visit of a page, in place of Recrawl.Min and Max; 0 leaves them.
	RecrawlMin, RecrawlMax time.Duration
	// Stays says that the host is not for other nodes: Ready leaves it out.
	Stays bool
}

// Hours are times at which a host may be asked.
type Hours interface {
	Open(now time.Time) bool
	// Next is the first time from now on that is open; false: none is.
	Next(now time.Time) (time.Time, bool)
	String() string
}

// nextVisit puts the time of a page's next visit within the bounds. The shorter bound gives way to the longer.
func (s *Site) nextVisit(due, now time.Time) time.Time {
	if s == nil {
		return due
	}
	if s.RecrawlMax > 0 {
		due = earlier(due, now.Add(s.RecrawlMax))
	}
	if s.RecrawlMin > 0 {
		due = later(due, now.Add(s.RecrawlMin))
	}
	return due
}

// neverOpens is how long a host waits whose hours name no time at all.
const neverOpens = 7 * 24 * time.Hour

// opens is when the host may be asked again, zero where that is now.
func (s *Site) opens(now time.Time) time.Time {
	if s == nil || s.Hours == nil || s.Hours.Open(now) {
		return time.Time{}
	}
	if next, ok := s.Hours.Next(now); ok {
		return next
	}
	return now.Add(neverOpens)
}

// closed says that the host is outside its hours.
func (s *Site) closed(now time.Time) bool { return s != nil && s.Hours != nil && !s.Hours.Open(now) }

// next takes the URL out of a window that comes next: the first of those with the highest rank.
func (s *Site) next(q *fifo[pending]) pending {
	if s == nil || s.Rank == nil {
		return q.pop()
	}
	best := q.head
	for i := q.head + 1; i < len(q.items); i++ {
		if q.items[i].rank > q.items[best].rank {
			best = i
		}
	}
	p := q.items[best]
	copy(q.items[q.head+1:best+1], q.items[q.head:best])
	q.pop()
	return p
}

// FileServer stands for the server of a host that this node reads from its own disk: an address of the discard prefix (RFC
// 6666), which nobody dials. It needs no lease and no gaps.
func FileServer(host string) netip.Addr {
	var b [16]byte
	b[0] = 1
	binary.BigEndian.PutUint64(b[8:], xxhash.Sum64String(host))
	return netip.AddrFrom16(b)
}

// isFileServer says that an address is none of a server, but stands for one.
func isFileServer(addr netip.Addr) bool {
	b := addr.As16()
	return binary.BigEndian.Uint64(b[:8]) == 1<<56
}
