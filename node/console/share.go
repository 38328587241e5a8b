package console

import (
	"net"
	"net/netip"
	"sync"
)

// mostOfOne is how many connections one network may have at once. A browser has six.
const mostOfOne = 32

// shared is a listener that closes the connections that a network has beyond its share, so that one stranger cannot take all there are. This
// machine may have all: its users ask through proxies and tunnels.
type shared struct {
	net.Listener

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
		network := networkOf(addr)
		if s.enter(network) {
			return &sharing{c, sync.OnceFunc(func() { s.leave(network) })}, nil
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

// sharing is a connection that counts until it is closed.
type sharing struct {
	net.Conn
	leave func()
}

func (s *sharing) Close() error {
	defer s.leave()
	return s.Conn.Close()
}
