// Package lobby bounds what strangers cost: connections whose other end has not yet proved that it knows the secret, or
// asks nothing of a page. Each takes places, and places are few. Nobody is turned away at the door, because then a flood
// would keep everybody out. Instead, when no place is left, the host with most places loses its oldest connection, so a
// flood pushes out its own.
package lobby

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// Lobby holds the connections that have not proved themselves. It is safe for concurrent use.
type Lobby struct {
	places int
	right  int
	known  func(host string) bool

	// mu guards what follows, and the fields of guests marked so.
	mu     sync.Mutex
	closed bool
	taken  int
	hosts  map[string]int // places taken, by host
	guests []*Guest       // oldest first
}

// Guest is a connection in a lobby. Close makes it leave.
type Guest struct {
	net.Conn
	lobby *Lobby
	host  string
	known bool

	// places and out are guarded by the lobby's mu.
	places int
	out    bool
}

// New makes a lobby with a number of places. Hosts for which known is true have a right to some places before they
// compare with others. known may be nil, and must not block.
func New(places, right int, known func(host string) bool) *Lobby {
	if known == nil {
		known = func(string) bool { return false }
	}
	return &Lobby{places: places, right: right, known: known, hosts: map[string]int{}}
}

// Enter gives a connection one place. That may push out others now, and others may push it out later: it is closed
// then.
func (l *Lobby) Enter(c net.Conn) *Guest {
	host := Host(c.RemoteAddr())
	g := &Guest{Conn: c, lobby: l, host: block(host), known: l.known(host)}
	out := []*Guest{g}
	l.mu.Lock()
	if g.out = l.closed; !l.closed {
		l.guests = append(l.guests, g)
		out = l.takeLocked(g, 1)
	}
	l.mu.Unlock()
	closeAll(out)
	return g
}

// Take gives a guest more places, for memory that it needs. It reports whether the guest is still in.
func (g *Guest) Take(places int) bool {
	l := g.lobby
	var out []*Guest
	l.mu.Lock()
	if !g.out {
		out = l.takeLocked(g, places)
	}
	in := !g.out
	l.mu.Unlock()
	closeAll(out)
	return in
}

// Leave ends the stay of a guest that has proved itself, or has gone. It reports whether the guest was still in.
func (g *Guest) Leave() bool {
	l := g.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.out {
		return false
	}
	l.leaveLocked(g)
	return true
}

// Close leaves the lobby and closes the connection.
func (g *Guest) Close() error {
	g.Leave()
	return g.Conn.Close()
}

// Close pushes out all guests, and those who come later.
func (l *Lobby) Close() {
	l.mu.Lock()
	l.closed = true
	out := slices.Clone(l.guests)
	for _, g := range out {
		l.leaveLocked(g)
	}
	l.mu.Unlock()
	closeAll(out)
}

// Len returns the number of guests, and of the places they take.
func (l *Lobby) Len() (guests, taken int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.guests), l.taken
}

// takeLocked gives a guest places, and returns those pushed out by that, perhaps the guest itself.
func (l *Lobby) takeLocked(g *Guest, places int) (out []*Guest) {
	g.places += places
	l.taken += places
	l.hosts[g.host] += places
	for l.taken > l.places {
		worst := l.worstLocked()
		l.leaveLocked(worst)
		out = append(out, worst)
	}
	return out
}

// worstLocked returns the oldest guest of the host that takes most places beyond its right.
func (l *Lobby) worstLocked() (worst *Guest) {
	most := 0
	for _, g := range l.guests {
		taken := l.hosts[g.host]
		if g.known {
			taken -= l.right
		}
		if worst == nil || taken > most {
			worst, most = g, taken
		}
	}
	return worst
}

func (l *Lobby) leaveLocked(g *Guest) {
	g.out = true
	l.guests = slices.DeleteFunc(l.guests, func(o *Guest) bool { return o == g })
	l.taken -= g.places
	if l.hosts[g.host] -= g.places; l.hosts[g.host] == 0 {
		delete(l.hosts, g.host)
	}
}

func closeAll(guests []*Guest) {
	for _, g := range guests {
		_ = g.Conn.Close()
	}
}

// Host returns an address without its port.
func Host(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// block returns what a host counts as: a holder of one IPv6 address has the whole /64.
func block(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return Network(ip).String()
}

// Network returns what counts together: an address of IPv4, or a /64 of IPv6, which a customer usually has.
func Network(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, min(ip.BitLen(), 64)).Masked()
}
