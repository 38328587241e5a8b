package console

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"proxima/node/lobby"
)

const (
	// mostOfOne is how many connections one network may have at once. A browser has six.
	mostOfOne = 32
	// mostSilent is how many connections from elsewhere may be open without a request. The rest is left for those that ask.
	mostSilent = mostConns / 2
)

// shared is a listener that closes the connections that a network has beyond its share, so that one stranger cannot take all there are. Many
// strangers push out each other's, for as long as they ask nothing. This machine may have all: its users ask through proxies and tunnels.
type shared struct {
	net.Listener
	silent *lobby.Lobby

	// mu guards taken, the connections of each network.
	mu    sync.Mutex
	taken map[netip.Prefix]int
}

func (s *shared) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := addressOf(c.RemoteAddr().String())
		if addr.IsLoopback() || addr.IsUnspecified() {
			return c, nil
		}
		network := lobby.Network(addr)
		if s.enter(network) {
			return &sharing{Conn: c, leave: sync.OnceFunc(func() { s.leave(network) })}, nil
		}
		_ = c.Close() // nothing was written to it
	}
}

func (s *shared) enter(network netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[network] >= mostOfOne {
		return false
	}
	s.taken[network]++
	return true
}

func (s *shared) leave(network netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[network]--; s.taken[network] == 0 {
		delete(s.taken, network)
	}
}

// changed has a connection wait in the lobby before and after its requests.
func (s *shared) changed(c net.Conn, state http.ConnState) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn() // it closes without a farewell, for which the lobby would have to wait
	}
	far, ok := c.(*sharing)
	if !ok {
		return
	}
	if far.guest != nil {
		far.guest.Leave()
		far.guest = nil
	}
	if state == http.StateNew || state == http.StateIdle {
		far.guest = s.silent.Enter(far)
	}
}

// sharing is a connection that counts until it is closed.
type sharing struct {
	net.Conn
	leave func()
	guest *lobby.Guest // nil during a request
}

func (s *sharing) Close() error {
	defer s.leave()
	return s.Conn.Close()
}
