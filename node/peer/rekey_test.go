package peer

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"

	"proxima/node/lobby"
)

// closing is a connection that tells whether its owner's lock was free when it was closed.
type closing struct {
	net.Conn
	mu           *sync.Mutex
	closed, free bool
}

func (c *closing) Close() error {
	c.closed = true
	if c.free = c.mu.TryLock(); c.free {
		c.mu.Unlock()
	}
	return c.Conn.Close()
}

// To close a connection that a relay carries may take seconds. Nobody waits for that: a new secret closes connections without the lock.
func TestRekeyClosesWithoutTheLock(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close() //nolint:errcheck // it has none
	first, next := NewSecret([32]byte{1}), NewSecret([32]byte{2})
	s, err := NewServer(Default(), ServerDeps{ID: "a", Secret: first, Handler: struct{ Handler }{}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(Default(), ClientDeps{ID: "a", Secret: first})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	accepted, dialled := &closing{Conn: here, mu: &s.mu}, &closing{Conn: here, mu: &c.mu}
	s.conns[&peerConn{Guest: lobby.New(1, 0, nil).Enter(accepted), server: s}] = struct{}{}
	c.links[&linkConn{Conn: tls.Client(dialled, &tls.Config{ServerName: "b"}), client: c}] = struct{}{}
	if err := s.Rekey(next); err != nil || !accepted.closed || !accepted.free || len(s.conns) > 0 {
		t.Errorf("server: closed %v, with the lock free %v, %v", accepted.closed, accepted.free, err)
	}
	if err := c.Rekey(next); err != nil || !dialled.closed || !dialled.free || len(c.links) > 0 {
		t.Errorf("client: closed %v, with the lock free %v, %v", dialled.closed, dialled.free, err)
	}
}
