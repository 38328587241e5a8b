// Package netsim is the one network without a network: an Internet inside one process, for tests and for machines that let nobody build
// one of namespaces. It is a network of hosts whose dialers, listeners, packet sockets and gossip transports stand in for those of the
// machine (Network, Endpoint, Gossip), a small web for tests on top of it (Web, Site), and the model of download times that both follow
// (DownloadMs). It owns what lies between hosts: one-way delays, bandwidths shared by all that a host sends or receives, the handshake and
// the slow start of TCP, cuts and partitions. Packets are lost in cuts and deaths alone; what a connection sends into a cut waits for its
// end, as TCP sends again. It knows nothing of nodes and judges nothing.
//
// Everything happens at planned times: what is due is carried out at the next occasion, but as of its own time, so that a late
// processor delays what an application sees and never the plan. It runs in real time, or on the fake clock of a testing/synctest
// bubble.
package netsim

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
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
	side   map[netip.Addr]int // of a partition; all others are on side 0
	cut    map[[2]netip.Addr]bool
	held   []parcel // wait for the end of a cut
	number uint64   // of the parcel that was sent last
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
	packets, bytes   int64 // datagrams that it sent
	// noConns and noPackets say that none of others come in.
	noConns, noPackets bool
}

// New makes an empty network. delay is the one-way time of a packet between two addresses. It is asked for each packet and may vary
// (packets of one connection stay in order); it must not block and must not call the network.
func New(delay func(from, to netip.Addr) time.Duration) *Network {
	n := &Network{delay: delay, start: time.Now(), hosts: map[netip.Addr]*host{}, side: map[netip.Addr]int{}, cut: map[[2]netip.Addr]bool{},
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

// Partition puts the hosts of each set on a side of its own, all others together on one more, in place of an earlier partition. Nothing
// passes between sides until Heal.
func (n *Network) Partition(sets ...[]netip.Addr) {
	n.lock()
	defer n.unlock()
	clear(n.side)
	for k, set := range sets {
		for _, a := range set {
			n.side[a] = k + 1
		}
	}
	n.release()
}

// Cut lets nothing pass between two hosts until Heal.
func (n *Network) Cut(a, b netip.Addr) {
	n.lock()
	defer n.unlock()
	n.cut[between(a, b)] = true
}

// Heal ends all cuts and the partition.
func (n *Network) Heal() {
	n.lock()
	defer n.unlock()
	clear(n.side)
	clear(n.cut)
	n.release()
}

// Shield lets no connection of others in to a host, or no datagram, or neither, until it is called again: as a NAT or a firewall does.
func (n *Network) Shield(addr netip.Addr, conns, packets bool) error {
	n.lock()
	defer n.unlock()
	h := n.hosts[addr]
	if h == nil {
		return fmt.Errorf("shield %v: no such host", addr)
	}
	h.noConns, h.noPackets = conns, packets
	return nil
}

// between names two hosts, whichever comes first.
func between(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// severed says whether nothing passes between two hosts; mu is held.
func (n *Network) severed(a, b *host) bool {
	return n.side[a.addr] != n.side[b.addr] || n.cut[between(a.addr, b.addr)]
}

// Reset breaks the connections of a host: those to another one, or all if b is the zero address.
func (n *Network) Reset(a, b netip.Addr) {
	n.lock()
	defer n.unlock()
	for c := range n.conns {
		if c.near.addr == a && (c.far.addr == b || !b.IsValid()) {
			c.fail(errReset)
		}
	}
}

// Ends is how many ends of connections there are.
func (n *Network) Ends() int {
	n.lock()
	defer n.unlock()
	return len(n.conns)
}

// Sent is how many datagrams a host has sent, in all its lives, and the bytes in them.
func (n *Network) Sent(addr netip.Addr) (packets, bytes int64) {
	n.lock()
	defer n.unlock()
	if h := n.hosts[addr]; h != nil {
		return h.packets, h.bytes
	}
	return 0, 0
}

// Enter opens an endpoint at a host, which is added, without bounds of its bandwidth, if it is not there.
func (n *Network) Enter(addr netip.Addr) (*Endpoint, error) {
	n.lock()
	known := n.hosts[addr] != nil
	n.unlock()
	if !known {
		if err := n.Add(addr, 0, 0); err != nil {
			return nil, err
		}
	}
	return n.Open(addr)
}

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

// parcel is what travels at once.
type parcel struct {
	from, to *host
	bytes    int
	order    *time.Duration // when what was sent before reaches the receiver's downlink: nothing overtakes it; nil for what may
	stream   bool           // part of a connection: it waits for the end of a cut instead of being lost
	arrive   func()         // called under the lock when the last byte is there; never if it is lost
	number   uint64
}

// send carries a parcel: through the sender's uplink, over the distance, through the receiver's downlink, each link first come, first
// served. mu is held.
func (n *Network) send(p parcel) {
	if p.number == 0 {
		n.number++
		p.number = n.number
	}
	if p.from == p.to {
		n.at(n.plan.now, func() { n.arrived(p.bytes); p.arrive() })
		return
	}
	if n.stopped(p) {
		return
	}
	takes := through(p.bytes, p.from.up)
	p.from.upFree = max(n.plan.now, p.from.upFree) + takes
	there := p.from.upFree + max(0, n.delay(p.from.addr, p.to.addr))
	if p.order != nil {
		there = max(there, *p.order)
		*p.order = there
	}
	n.at(there, func() {
		// Its first byte came before its last, and has not waited for it.
		p.to.downFree = max(n.plan.now, max(n.plan.now-takes, p.to.downFree)+through(p.bytes, p.to.down))
		n.at(p.to.downFree, func() {
			if !n.stopped(p) {
				n.arrived(p.bytes)
				p.arrive()
			}
		})
	})
}

// stopped says whether a cut stops a parcel, and then loses it or keeps it.
func (n *Network) stopped(p parcel) bool {
	switch {
	case !n.severed(p.from, p.to):
		return false
	case p.stream:
		n.held = append(n.held, p)
	default:
		n.counts.cut++
	}
	return true
}

// release sends again what waits, in the order in which it was sent first.
func (n *Network) release() {
	waiting := n.held
	n.held = nil
	slices.SortFunc(waiting, func(a, b parcel) int { return cmp.Compare(a.number, b.number) })
	for _, p := range waiting {
		n.send(p)
	}
}

// through is how long bytes take through a link.
func through(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / rate * float64(time.Millisecond))
}
