// Package peertest is what tests of peers need: a network in memory on the fake clock of a testing/synctest bubble, with
// latencies and cuts, a shelf that survives its user, and a handler that refuses what a test does not expect. It judges
// nothing.
package peertest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Network connects places by name. A place is the host of an address: "a" listens on "a:7947". Connections carry bytes in
// order, each after the latency of its pair; what is sent over a cut waits until it heals, as TCP would send it again.
// Safe for concurrent use.
type Network struct {
	// mu guards what follows, and all connections: tests are small.
	mu        sync.Mutex
	listeners map[string]*listener
	latency   map[[2]string]time.Duration
	every     time.Duration
	cut       map[[2]string]bool
	conns     map[*conn]bool
	bytes     uint64
	next      int
	healed    signal
}

// signal wakes those who wait for something to change. The lock of the network guards it.
type signal struct{ changed chan struct{} }

// wait is closed by the next tell.
func (s *signal) wait() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *signal) tell() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// NewNetwork makes a network without latency.
func NewNetwork() *Network {
	return &Network{listeners: map[string]*listener{}, latency: map[[2]string]time.Duration{},
		cut: map[[2]string]bool{}, conns: map[*conn]bool{}}
}

// pair names the link between two places, whichever comes first.
func pair(a, b string) [2]string {
	if a > b {
		a, b = b, a
	}
	return [2]string{a, b}
}

func place(addr string) string {
	host, _, _ := strings.Cut(addr, ":")
	return host
}

// SetLatency is how long a byte travels between two places, one way.
func (n *Network) SetLatency(a, b string, d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency[pair(a, b)] = d
}

// SetEveryLatency is that of pairs without their own.
func (n *Network) SetEveryLatency(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.every = d
}

// Cut holds back everything between two places, and Heal lets it through.
func (n *Network) Cut(a, b string) { n.setCut(a, b, true) }

// Heal ends a Cut.
func (n *Network) Heal(a, b string) { n.setCut(a, b, false) }

func (n *Network) setCut(a, b string, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if cut {
		n.cut[pair(a, b)] = true
	} else {
		delete(n.cut, pair(a, b))
	}
	n.healed.tell()
	for c := range n.conns {
		c.in.changed.tell()
	}
}

// Reset breaks all connections between two places that stand, as a lost route table would.
func (n *Network) Reset(a, b string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if pair(c.local.place(), c.remote.place()) == pair(a, b) {
			c.reset()
		}
	}
}

// Kill breaks all connections of a place and closes its listeners, as the death of its process would.
func (n *Network) Kill(a string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.local.place() == a || c.remote.place() == a {
			c.reset()
		}
	}
	for addr, l := range n.listeners {
		if place(addr) == a {
			l.shut()
		}
	}
}

// Ends is how many ends of connections are open.
func (n *Network) Ends() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.conns)
}

// Bytes is how many bytes were sent.
func (n *Network) Bytes() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.bytes
}

// Listen accepts connections to an address, "place:port".
func (n *Network) Listen(address string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[address] != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, syscall.EADDRINUSE)
	}
	l := &listener{network: n, addr: addr(address)}
	n.listeners[address] = l
	return l, nil
}

// Dialer returns the dial function of a place.
func (n *Network) Dialer(from string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, _, address string) (net.Conn, error) { return n.dial(ctx, from, address) }
}

// dial takes one round trip, as TCP does.
func (n *Network) dial(ctx context.Context, from, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) { return nil, fmt.Errorf("dial %s from %s: %w", address, from, err) }
	n.mu.Lock()
	trip := 2 * n.delay(from, place(address))
	n.mu.Unlock()
	if trip > 0 {
		t := time.NewTimer(trip)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return fail(ctx.Err())
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.cut[pair(from, place(address))] {
		healed := n.healed.wait()
		n.mu.Unlock()
		select {
		case <-healed:
		case <-ctx.Done():
		}
		n.mu.Lock()
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
	}
	l := n.listeners[address]
	if l == nil {
		return fail(syscall.ECONNREFUSED)
	}
	n.next++
	there, back := &stream{}, &stream{}
	local, remote := addr(fmt.Sprintf("%s:%d", place(from), 40_000+n.next)), l.addr
	a := &conn{network: n, in: back, out: there, local: local, remote: remote}
	b := &conn{network: n, in: there, out: back, local: remote, remote: local}
	n.conns[a], n.conns[b] = true, true
	l.waiting = append(l.waiting, b)
	l.called.tell()
	return a, nil
}

func (n *Network) delay(a, b string) time.Duration {
	if d, ok := n.latency[pair(a, b)]; ok {
		return d
	}
	return n.every
}

// addr is an address of the network.
type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }
func (a addr) place() string   { return place(string(a)) }

type listener struct {
	network *Network
	addr    addr
	waiting []*conn
	called  signal
	closed  bool
}

func (l *listener) Addr() net.Addr { return l.addr }

func (l *listener) Accept() (net.Conn, error) {
	n := l.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if l.closed {
			return nil, fmt.Errorf("accept on %s: %w", l.addr, net.ErrClosed)
		}
		if len(l.waiting) > 0 {
			c := l.waiting[0]
			l.waiting = l.waiting[1:]
			return c, nil
		}
		called := l.called.wait()
		n.mu.Unlock()
		<-called
		n.mu.Lock()
	}
}

func (l *listener) Close() error {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	l.shut()
	return nil
}

// shut refuses those who were not accepted. It is called under the lock.
func (l *listener) shut() {
	if !l.closed {
		l.closed = true
		l.called.tell()
		delete(l.network.listeners, string(l.addr))
		for _, c := range l.waiting {
			c.reset()
		}
	}
}
