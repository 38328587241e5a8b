package assign

import (
	"net/netip"
	"time"
)

const (
	// For how long the least connect time of a server is believed: for one to two of these spans.
	tripSpan = 10 * time.Minute
	// How many servers are remembered in each span.
	maxTrips = 10_000
)

// trips remembers how fast a node connected to each server at best, in this span of time and the one before. A processor that
// is taken away delays connecting and answering alike: told by one download alone it looks like distance.
type trips struct {
	since          time.Time
	recent, before map[netip.Addr]trip
}

// trip is the least of some connect times, and the node's load at that time, as far as it was known; in ms.
type trip struct {
	least, load float64
	times       int
}

func (t trip) join(u trip) trip {
	if t.times == 0 || u.times > 0 && u.least < t.least {
		t.least, t.load = u.least, u.load
	}
	t.times += u.times
	return t
}

// leastExcess is by how much the least of so many connect times is longer than the round trip: half-normal noise, at the median.
func leastExcess(times int) float64 { return 1 + (connectExcess-1)/float64(max(times, 1)) }

// rtt is the round trip that they stand for.
func (t trip) rtt() float64 {
	return cleanConnect(t.least, leastExcess(t.times), t.load)
}

// take adds a connect time and the load of now in ms, unless it is 0, and returns what is known of the server.
func (t *trips) take(server netip.Addr, connect, load float64, now time.Time) trip {
	if t.recent == nil || now.Sub(t.since) > tripSpan || len(t.recent) >= maxTrips {
		t.recent, t.before, t.since = make(map[netip.Addr]trip), t.recent, now
	}
	if connect > 0 {
		t.recent[server] = t.recent[server].join(trip{connect, load, 1})
	}
	return t.recent[server].join(t.before[server])
}
