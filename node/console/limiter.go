package console

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"proxima/node/lobby"
)

// Limiter bounds what each network may do in a minute. It is safe for concurrent use.
type Limiter struct {
	most, networks int

	// mu guards the fields below.
	mu    sync.Mutex
	began time.Time // start of the minute
	taken map[netip.Prefix]int
}

// NewLimiter allows each network most units a minute. It counts so many networks separately; the others share a count.
func NewLimiter(most, networks int) *Limiter {
	return &Limiter{most: most, networks: networks, taken: map[netip.Prefix]int{}}
}

// Take takes n units for the sender of a request, and reports whether that many were left. If not, it takes none.
func (l *Limiter) Take(r *http.Request, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.networkLocked(r)
	if l.taken[from]+n > l.most {
		return false
	}
	l.taken[from] += n
	return true
}

// Exhausted reports whether nothing is left for the sender of a request.
func (l *Limiter) Exhausted(r *http.Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken[l.networkLocked(r)] >= l.most
}

// networkLocked returns the network that a request counts against.
func (l *Limiter) networkLocked(r *http.Request) netip.Prefix {
	if now := time.Now(); now.Sub(l.began) >= time.Minute {
		l.began = now
		clear(l.taken)
	}
	network := lobby.Network(addressOf(r.RemoteAddr))
	if _, known := l.taken[network]; !known && len(l.taken) >= l.networks {
		return netip.Prefix{}
	}
	return network
}

// addressOf returns the address of the far end of a connection. It is unspecified for what has none, like a socket in a directory.
func addressOf(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	return at.Addr().Unmap().WithZone("")
}
