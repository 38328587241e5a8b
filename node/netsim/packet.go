package netsim

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// maxPacket is the longest datagram, in bytes (IPv4).
const maxPacket = 65_507

// datagram is one received packet.
type datagram struct {
	data []byte
	from netip.AddrPort
}

// socket sends and receives datagrams; a connected one, with one other address only.
type socket struct {
	owner  *Endpoint
	hosts  []*host
	at     netip.AddrPort
	remote netip.AddrPort      // if it is connected
	taken  func(datagram) bool // takes a datagram with mu held; false if it cannot; nil: enqueue

	// net.mu guards what follows.
	queue   []datagram
	closed  bool
	read    time.Time // deadline
	changed sync.Cond
}

// ListenPacket receives datagrams over network "udp"; addresses are as in Listen.
func (e *Endpoint) ListenPacket(network, address string) (net.PacketConn, error) {
	if network != "udp" && network != "udp4" {
		return nil, &net.OpError{Op: "listen", Net: network, Err: net.UnknownNetworkError(network)}
	}
	s := &socket{}
	if err := e.bindSocket(s, address); err != nil {
		return nil, err
	}
	return s, nil
}

func (e *Endpoint) connect(to netip.AddrPort) (net.Conn, error) {
	s := &socket{remote: to}
	if err := e.bindSocket(s, netip.AddrPortFrom(e.Addr(), 0).String()); err != nil {
		return nil, err
	}
	return s, nil
}

func (e *Endpoint) bindSocket(s *socket, address string) error {
	e.net.lock()
	defer e.net.unlock()
	at, hosts, err := e.bind(address, func(h *host, port uint16) bool { return h.sockets[port] != nil })
	if err != nil {
		return &net.OpError{Op: "listen", Net: "udp", Err: fmt.Errorf("%s: %w", address, err)}
	}
	s.owner, s.hosts, s.at, s.changed.L = e, hosts, at, &e.net.mu
	if s.taken == nil {
		s.taken = s.enqueue
	}
	for _, h := range hosts {
		h.sockets[at.Port()] = s
	}
	return nil
}

func (s *socket) enqueue(d datagram) bool {
	if len(s.queue) >= backlog {
		return false
	}
	s.queue = append(s.queue, d)
	s.changed.Broadcast()
	return true
}

// sendTo sends a datagram. As with UDP, nothing tells what becomes of it.
func (s *socket) sendTo(b []byte, to netip.AddrPort) error {
	n := s.owner.net
	n.lock()
	defer n.unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case len(b) > maxPacket:
		return syscall.EMSGSIZE
	}
	s.hosts[0].packets++
	s.hosts[0].bytes += int64(len(b))
	far := n.hosts[to.Addr()]
	if far == nil || far.noPackets {
		n.counts.Cut++
		return nil
	}
	d := datagram{bytes.Clone(b), netip.AddrPortFrom(s.hosts[0].addr, s.at.Port())}
	n.send(parcel{from: s.hosts[0], to: far, bytes: len(b), arrive: func() {
		switch r := far.sockets[to.Port()]; {
		case r == nil || r.remote.IsValid() && r.remote != d.from:
			n.counts.Cut++
		case !r.taken(d):
			n.counts.Overflowed++
		}
	}})
	return nil
}

// ReadFrom truncates a datagram longer than b.
func (s *socket) ReadFrom(b []byte) (int, net.Addr, error) {
	n := s.owner.net
	n.lock()
	defer n.unlock()
	for {
		switch {
		case s.closed:
			return 0, nil, s.failed("read", net.ErrClosed)
		case passed(s.read):
			return 0, nil, s.failed("read", os.ErrDeadlineExceeded)
		case len(s.queue) > 0:
			d := s.queue[0]
			s.queue = s.queue[1:]
			return copy(b, d.data), net.UDPAddrFromAddrPort(d.from), nil
		}
		n.wait(&s.changed, s.read)
	}
}

func (s *socket) WriteTo(b []byte, to net.Addr) (int, error) {
	at, err := netip.ParseAddrPort(to.String())
	if err == nil {
		err = s.sendTo(b, at)
	}
	if err != nil {
		return 0, s.failed("write", err)
	}
	return len(b), nil
}

// Read and Write are for connected sockets.
func (s *socket) Read(b []byte) (int, error) {
	k, _, err := s.ReadFrom(b)
	return k, err
}

func (s *socket) Write(b []byte) (int, error) {
	if !s.remote.IsValid() {
		return 0, s.failed("write", syscall.ENOTCONN)
	}
	if err := s.sendTo(b, s.remote); err != nil {
		return 0, s.failed("write", err)
	}
	return len(b), nil
}

func (s *socket) Close() error {
	s.owner.net.lock()
	defer s.owner.net.unlock()
	if s.closed {
		return s.failed("close", net.ErrClosed)
	}
	s.close()
	return nil
}

func (s *socket) close() {
	if s.closed {
		return
	}
	s.closed, s.queue = true, nil
	for _, h := range s.hosts {
		delete(h.sockets, s.at.Port())
	}
	s.changed.Broadcast()
}

func (s *socket) failed(what string, err error) error {
	return &net.OpError{Op: what, Net: "udp", Source: s.LocalAddr(), Err: err}
}

func (s *socket) LocalAddr() net.Addr { return net.UDPAddrFromAddrPort(s.at) }

// RemoteAddr is nil if the socket is not connected.
func (s *socket) RemoteAddr() net.Addr {
	if !s.remote.IsValid() {
		return nil
	}
	return net.UDPAddrFromAddrPort(s.remote)
}

func (s *socket) SetDeadline(t time.Time) error { return s.SetReadDeadline(t) }

func (s *socket) SetReadDeadline(t time.Time) error {
	s.owner.net.lock()
	defer s.owner.net.unlock()
	s.read = t
	s.changed.Broadcast()
	return nil
}

// SetWriteDeadline does nothing: a datagram never waits.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
