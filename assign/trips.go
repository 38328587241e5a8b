package assign

import (
	"net/netip"
	"time"
)

const (
	// tripSpan is the time after which the shortest connect time of a server is forgotten; it may be twice as long.
	tripSpan = 10 * time.Minute
	// maxTrips is the number of servers remembered in each span.
	maxTrips = 10_000
)

// trips remembers a node's shortest connect time to each server, in the current span of time and the one before. A single download is
// not enough: a stalled processor looks like distance, since it delays both the connection and the answer.
type trips struct {
	since          time.Time
	recent, before map[netip.Addr]trip
}

// trip has the shortest of some connect times, and the node's load at that time, in ms.
type trip struct {
	least, load float64
	times       int
}

// join returns the trip of the connect times of both.
func (t trip) join(u trip) trip {
	if t.times == 0 || u.times > 0 && u.least < t.least {
		t.least, t.load = u.least, u.load
	}
	t.times += u.times
	return t
}

// leastExcess returns the factor by which the shortest of some connect times exceeds the round trip: the median of half-normal noise.
func leastExcess(times int) float64 { return 1 + (connectExcess-1)/float64(max(times, 1)) }

// add adds a connect time (0 for none) and the present load, both in ms. It returns what is known about the server.
func (t *trips) add(server netip.Addr, connect, load float64, now time.Time) trip {
	passed := now.Sub(t.since)
	if passed > 2*tripSpan {
		t.recent = nil // from before a pause
	}
	if t.recent == nil || passed > tripSpan || len(t.recent) >= maxTrips {
		t.recent, t.before, t.since = make(map[netip.Addr]trip), t.recent, now
	}
	if connect > 0 {
		t.recent[server] = t.recent[server].join(trip{connect, load, 1})
	}
	return t.recent[server].join(t.before[server])
}
