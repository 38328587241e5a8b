package netsim

import (
	"net"
	"net/netip"
)

// backlog is how many connections or packets may wait to be accepted. More are reset or dropped.
const backlog = 1024

// listener accepts connections at one or more hosts.
type listener struct {
	owner  *Endpoint
	hosts  []*host
	at     netip.AddrPort
	queue  chan net.Conn // of *conn
	closed chan struct{} // closed under net.mu
}

// offer is called when the last packet of the handshake arrives. It needs mu held.
func (l *listener) offer(c *conn) {
	if c.err != nil {
		return // it was reset
	}
	if !l.over() {
		select {
		case l.queue <- c:
			return
		default:
			l.owner.net.counts.Overflowed++
		}
	}
	c.abort(errReset)
}

func (l *listener) over() bool { return isClosed(l.closed) }

func (l *listener) Accept() (net.Conn, error) {
	if !l.over() { // select would pick at random between two ready channels
		select {
		case c := <-l.queue:
			l.owner.pass()
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Close resets the connections that nobody accepted.
func (l *listener) Close() error {
	l.owner.net.lock()
	defer l.owner.net.unlock()
	if l.over() {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
	}
	l.close()
	return nil
}

func (l *listener) close() {
	if l.over() {
		return
	}
	close(l.closed)
	for _, h := range l.hosts {
		delete(h.listeners, l.at.Port())
	}
	for {
		select {
		case c := <-l.queue:
			c.(*conn).abort(errReset)
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
