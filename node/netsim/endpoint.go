package netsim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

const (
	// firstRetry is when an unanswered connection request is repeated; each further wait is twice as long (RFC 6298).
	firstRetry = time.Second
	// lastRetry is the wait after which dialling fails, about two minutes in all.
	lastRetry = 64 * time.Second
)

// Endpoint is the network as one process sees it in one life. It is safe for concurrent use.
type Endpoint struct {
	net    *Network
	hosts  []*host
	closed chan struct{}                        // closed under net.mu
	hold   func(at time.Duration) time.Duration // nil if the process never stops
}

// Hold lets the process stop now and then. wait returns how long it stays stopped at a time since the start of the network. Connections, what comes
// by them, and gossip packets are seen when it goes on. Call it before anything is dialled or opened.
func (e *Endpoint) Hold(wait func(at time.Duration) time.Duration) { e.hold = wait }

// pass waits until the process goes on.
func (e *Endpoint) pass() {
	if e.hold != nil {
		time.Sleep(e.hold(time.Since(e.net.start)))
	}
}

// Addr returns the address from which it dials.
func (e *Endpoint) Addr() netip.Addr { return e.hosts[0].addr }

// Close ends the life at once, as killing the process would: listeners close, connections are reset, later dials fail
// with net.ErrClosed. The hosts stay on the network and refuse connections until another endpoint listens there.
func (e *Endpoint) Close() error {
	e.net.lock()
	defer e.net.unlock()
	e.close()
	return nil
}

func (e *Endpoint) close() {
	if e.over() {
		return
	}
	close(e.closed)
	delete(e.net.ends, e)
	for _, h := range e.hosts {
		for _, l := range h.listeners {
			if l.owner == e {
				l.close()
			}
		}
		for _, s := range h.sockets {
			if s.owner == e {
				s.close()
			}
		}
	}
	for c := range e.net.conns {
		if c.owner == e {
			c.abort(net.ErrClosed)
		}
	}
}

func (e *Endpoint) over() bool { return isClosed(e.closed) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// DialContext connects over network "tcp" or "udp" to an address and port; it resolves no names. A TCP connection takes
// a round trip. An unreachable host does not answer: requests are repeated until the context ends, or for two minutes.
// A UDP connection is also a net.PacketConn.
func (e *Endpoint) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	var c net.Conn
	switch network {
	case "tcp", "tcp4":
		c, err = e.dial(ctx, to)
	case "udp", "udp4":
		c, err = e.connect(to)
	default:
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(to), Err: err}
	}
	return c, nil
}

// attempt is a connection in the making.
type attempt struct {
	from     *Endpoint
	to       netip.AddrPort
	local    netip.AddrPort
	finished bool // guarded by net.mu
	conn     *conn
	err      error
	done     chan struct{}
}

func (e *Endpoint) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	n := e.net
	n.lock()
	if e.over() {
		n.unlock()
		return nil, net.ErrClosed
	}
	a := &attempt{from: e, to: to, local: netip.AddrPortFrom(e.Addr(), e.hosts[0].port()), done: make(chan struct{})}
	a.request(firstRetry)
	n.unlock()
	var err error
	select {
	case <-a.done:
		if a.err != nil {
			return nil, a.err
		}
		e.pass()
		return a.conn, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-e.closed:
		err = net.ErrClosed
	}
	n.lock()
	defer n.unlock()
	if !a.finished {
		a.finish(nil, err)
	} else if a.conn != nil {
		a.conn.abort(err)
	}
	return nil, err
}

// finish ends the attempt. It needs mu held.
func (a *attempt) finish(c *conn, err error) {
	a.finished, a.conn, a.err = true, c, err
	close(a.done)
}

// request asks for the connection, and again after a wait without an answer. It needs mu held.
func (a *attempt) request(wait time.Duration) {
	n, near, far := a.from.net, a.from.hosts[0], a.from.net.hosts[a.to.Addr()]
	n.at(n.plan.now+wait, func() {
		switch {
		case a.finished:
		case wait == lastRetry:
			a.finish(nil, syscall.ETIMEDOUT)
		default:
			a.request(2 * wait)
		}
	})
	if far == nil || far.noConns {
		n.counts.Cut++
		return
	}
	n.send(parcel{from: near, to: far, arrive: func() {
		l := far.listeners[a.to.Port()]
		n.send(parcel{from: far, to: near, arrive: func() {
			switch {
			case a.finished: // given up, or answered before
			case l == nil:
				a.finish(nil, syscall.ECONNREFUSED)
			default:
				c := a.establish(l, far)
				a.finish(c, nil)
				c.send(0, &c.order, func() { l.offer(c.peer) })
			}
		}})
	}})
}

// establish makes both ends of the connection. It needs mu held.
func (a *attempt) establish(l *listener, far *host) *conn {
	n, near := a.from.net, a.from.hosts[0]
	c := newConn(n, a.from, near, far, a.local, a.to)
	c.peer = newConn(n, l.owner, far, near, a.to, a.local)
	c.peer.peer = c
	return c
}

// Listen accepts connections over network "tcp" at a port and an address of the endpoint. An unspecified address ("",
// "0.0.0.0", "::") stands for all its addresses, port 0 for a free port.
func (e *Endpoint) Listen(network, address string) (net.Listener, error) {
	if network != "tcp" && network != "tcp4" {
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	return e.listen(address)
}

func (e *Endpoint) listen(address string) (*listener, error) {
	e.net.lock()
	defer e.net.unlock()
	at, hosts, err := e.bind(address, func(h *host, port uint16) bool { return h.listeners[port] != nil })
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Err: fmt.Errorf("%s: %w", address, err)}
	}
	l := &listener{owner: e, hosts: hosts, at: at, queue: make(chan net.Conn, backlog), closed: make(chan struct{})}
	for _, h := range hosts {
		h.listeners[at.Port()] = l
	}
	return l, nil
}

// bind returns the hosts that a listening address means, and chooses a port if there is none. taken reports whether a port is in use at a host.
// bind needs mu held.
func (e *Endpoint) bind(address string, taken func(h *host, port uint16) bool) (at netip.AddrPort, hosts []*host, err error) {
	if e.over() {
		return at, nil, net.ErrClosed
	}
	if strings.HasPrefix(address, ":") {
		address = "0.0.0.0" + address
	}
	if at, err = netip.ParseAddrPort(address); err != nil {
		return at, nil, err
	}
	for _, h := range e.hosts {
		if at.Addr().IsUnspecified() || at.Addr() == h.addr {
			if taken(h, at.Port()) {
				return at, nil, syscall.EADDRINUSE
			}
			hosts = append(hosts, h)
		}
	}
	if len(hosts) == 0 {
		return at, nil, syscall.EADDRNOTAVAIL
	}
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), hosts[0].port())
	}
	return at, hosts, nil
}

// port returns the port unused for longest. It needs mu held.
func (h *host) port() uint16 {
	for {
		if h.lastPort++; h.lastPort == 0 {
			h.lastPort = 32_768
		}
		if h.listeners[h.lastPort] == nil && h.sockets[h.lastPort] == nil {
			return h.lastPort
		}
	}
}
