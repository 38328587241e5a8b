// Package portable is an Internet inside one process, for machines that let nobody build one of network namespaces: a network of
// hosts whose dialers, listeners, packet sockets and gossip transports stand in for those of the machine. It owns what lies between
// them: one-way delays, bandwidths shared by all that a host sends or receives, the handshake and the slow start of TCP, partitions.
// Nothing is ever lost but by partitions and deaths. It knows nothing of what is sent.
//
// Everything happens at planned times: what is due is carried out at the next occasion, but as of its own time, so that a late
// processor delays what an application sees and never the plan. It runs in real time, or on the fake clock of a testing/synctest
// bubble.
package portable

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Network carries what endpoints send. Safe for concurrent use.
type Network struct {
	delay func(from, to netip.Addr) time.Duration
	start time.Time

	// mu guards what follows, and the state of all that is on the network. It is taken by lock and unlock.
	mu     sync.Mutex
	plan   plan
	hosts  map[netip.Addr]*host
	aside  map[netip.Addr]bool // one side of a partition
	conns  map[*conn]struct{}
	ends   map[*Endpoint]struct{}
	closed bool
	counts counts
}

// host is a machine with one address.
type host struct {
	addr             netip.Addr
	up, down         float64       // bytes a millisecond; 0 is unlimited
	upFree, downFree time.Duration // when the last byte queued so far will have passed
	listeners        map[uint16]*listener
	sockets          map[uint16]*socket
	lastPort         uint16
}

// New makes an empty network. delay is the one-way time of a packet between two addresses. It is asked for each packet and may vary
// (packets of one connection stay in order); it must not block and must not call the network.
func New(delay func(from, to netip.Addr) time.Duration) *Network {
	n := &Network{delay: delay, start: time.Now(), hosts: map[netip.Addr]*host{}, aside: map[netip.Addr]bool{},
		conns: map[*conn]struct{}{}, ends: map[*Endpoint]struct{}{}}
	n.plan.timer = time.AfterFunc(time.Hour, n.tick)
	return n
}

// Add puts a host on the network, with its bandwidth up and down in bytes a millisecond, 0 for unlimited. It refuses connections
// until somebody listens there.
func (n *Network) Add(addr netip.Addr, up, down float64) error {
	n.lock()
	defer n.unlock()
	if !addr.IsValid() || n.hosts[addr] != nil {
		return fmt.Errorf("add host %v: the address is invalid or taken", addr)
	}
	n.hosts[addr] = &host{addr: addr, up: up, down: down, listeners: map[uint16]*listener{}, sockets: map[uint16]*socket{}, lastPort: 32_767}
	return nil
}

// SetBandwidth changes that of a host, in bytes a millisecond, for all that has not been queued yet.
func (n *Network) SetBandwidth(addr netip.Addr, up, down float64) error {
	n.lock()
	defer n.unlock()
	h := n.hosts[addr]
	if h == nil {
		return fmt.Errorf("set bandwidth of %v: no such host", addr)
	}
	h.up, h.down = up, down
	return nil
}

// Partition puts these hosts on a side of their own, in place of an earlier one: nothing passes to or from the others until Heal, and
// connections between the sides are reset at once.
func (n *Network) Partition(addrs ...netip.Addr) {
	n.lock()
	defer n.unlock()
	clear(n.aside)
	for _, a := range addrs {
		n.aside[a] = true
	}
	for c := range n.conns {
		if n.severed(c.near, c.far) {
			c.fail(errReset)
		}
	}
}

// Heal ends the partition.
func (n *Network) Heal() {
	n.lock()
	defer n.unlock()
	clear(n.aside)
}

// severed says whether nothing passes between two hosts; mu is held.
func (n *Network) severed(a, b *host) bool { return n.aside[a.addr] != n.aside[b.addr] }

// Open is the network as one process on these hosts sees it: a node on its own one, a server on many. The first is where it dials
// from.
func (n *Network) Open(addrs ...netip.Addr) (*Endpoint, error) {
	n.lock()
	defer n.unlock()
	if len(addrs) == 0 {
		return nil, errors.New("open endpoint: no address")
	}
	if n.closed {
		return nil, fmt.Errorf("open endpoint at %v: %w", addrs[0], net.ErrClosed)
	}
	e := &Endpoint{net: n, closed: make(chan struct{})}
	for _, a := range addrs {
		h := n.hosts[a]
		if h == nil {
			return nil, fmt.Errorf("open endpoint at %v: no such host", a)
		}
		e.hosts = append(e.hosts, h)
	}
	n.ends[e] = struct{}{}
	return e, nil
}

// Close ends all endpoints and connections. Nothing is left at work.
func (n *Network) Close() error {
	n.lock()
	defer n.mu.Unlock()
	for e := range n.ends {
		e.close()
	}
	for c := range n.conns {
		c.fail(net.ErrClosed)
	}
	n.closed, n.plan.events = true, nil
	n.plan.timer.Stop()
	return nil
}

// send carries bytes from one host to another: through the sender's uplink, over the distance, through the receiver's downlink, each
// link first come, first served. arrive is called under the lock when the last byte is there; never if it is lost. order, if not nil,
// is when what was sent before reaches the receiver's downlink: nothing overtakes it. mu is held.
func (n *Network) send(from, to *host, bytes int, order *time.Duration, arrive func()) {
	if from == to {
		n.at(n.plan.now, func() { n.arrived(bytes); arrive() })
		return
	}
	if n.severed(from, to) {
		n.counts.cut++
		return
	}
	takes := through(bytes, from.up)
	from.upFree = max(n.plan.now, from.upFree) + takes
	there := from.upFree + max(0, n.delay(from.addr, to.addr))
	if order != nil {
		there = max(there, *order)
		*order = there
	}
	n.at(there, func() {
		// Its first byte came before its last, and has not waited for it.
		to.downFree = max(n.plan.now, max(n.plan.now-takes, to.downFree)+through(bytes, to.down))
		n.at(to.downFree, func() {
			if n.severed(from, to) {
				n.counts.cut++
				return
			}
			n.arrived(bytes)
			arrive()
		})
	})
}

// through is how long bytes take through a link.
func through(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / rate * float64(time.Millisecond))
}
