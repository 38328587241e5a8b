// Package netsim is a simulated Internet inside one process, for tests and for machines on which nobody may build
// network namespaces. Its hosts have dialers, listeners, packet sockets and gossip transports that replace those of the
// machine (Network, Endpoint, Gossip). DownloadMs is the model of download times that they follow. The package owns
// what lies between hosts: one-way delays, bandwidth shared by all that a host sends or receives, the handshake and slow
// start of TCP, cuts and partitions. Packets are lost only in cuts and at dead hosts; what a connection sends into a cut
// waits for its end, since TCP would retransmit. It knows nothing of nodes and judges nothing.
//
// Everything happens at planned times. A due event is carried out at the next occasion, but as of its own time, so a
// late processor delays what an application sees and never the plan. The network runs in real time, or on the fake
// clock of a testing/synctest bubble.
package netsim

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"proxima/ncoord/quantile"
)

// Network carries what endpoints send. It is safe for concurrent use.
type Network struct {
	delay func(from, to netip.Addr) time.Duration
	start time.Time

	// mu guards what follows, and the state of everything on the network. It is taken by lock and unlock.
	mu     sync.Mutex
	plan   plan
	hosts  map[netip.Addr]*host
	side   map[netip.Addr]int // of a partition; hosts not listed are on side 0
	cut    map[[2]netip.Addr]bool
	held   []parcel // waiting for the end of a cut
	number uint64   // of the last parcel sent
	conns  map[*conn]struct{}
	ends   map[*Endpoint]struct{}
	closed bool
	counts counts
}

// host is a machine with one address.
type host struct {
	addr             netip.Addr
	up, down         float64       // bytes per millisecond; 0 is unlimited
	upFree, downFree time.Duration // when the last byte queued so far has passed
	listeners        map[uint16]*listener
	sockets          map[uint16]*socket
	lastPort         uint16
	packets, bytes   int64 // datagrams sent
	// noConns and noPackets block connections and datagrams from others.
	noConns, noPackets bool
}

// New makes an empty network. delay is the one-way time of a packet between two addresses. It is called for each packet
// and may vary (packets of one connection stay in order). It must not block, nor call the network.
func New(delay func(from, to netip.Addr) time.Duration) *Network {
	n := &Network{delay: delay, start: time.Now(), hosts: map[netip.Addr]*host{}, side: map[netip.Addr]int{}, cut: map[[2]netip.Addr]bool{},
		conns: map[*conn]struct{}{}, ends: map[*Endpoint]struct{}{}}
	n.plan.timer = time.AfterFunc(time.Hour, n.tick)
	return n
}

// Add puts a host on the network that refuses connections until somebody listens there. SetBandwidth, Shield and Open do so, too, if the host
// is not there.
func (n *Network) Add(addr netip.Addr) {
	n.lock()
	defer n.unlock()
	n.host(addr)
}

// host returns a host, and puts it on the network if it is not there. It needs mu held.
func (n *Network) host(addr netip.Addr) *host {
	if n.hosts[addr] == nil {
		n.hosts[addr] = &host{addr: addr, listeners: map[uint16]*listener{}, sockets: map[uint16]*socket{}, lastPort: 32_767}
	}
	return n.hosts[addr]
}

// SetBandwidth changes the bandwidth of a host, in bytes per millisecond, for all that is not queued yet. It is unlimited at first, as with 0.
func (n *Network) SetBandwidth(addr netip.Addr, up, down float64) {
	n.lock()
	defer n.unlock()
	h := n.host(addr)
	h.up, h.down = up, down
}

// Partition puts the hosts of each set on a side of its own, and all others on one more, replacing an earlier
// partition. Nothing passes between sides until Heal.
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

// Cut blocks all traffic between two hosts until Heal.
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

// Shield blocks connections or datagrams from others to a host, or both, until it is called again, as a NAT or a
// firewall does.
func (n *Network) Shield(addr netip.Addr, conns, packets bool) {
	n.lock()
	defer n.unlock()
	h := n.host(addr)
	h.noConns, h.noPackets = conns, packets
}

// between names a pair of hosts in either order.
func between(a, b netip.Addr) [2]netip.Addr {
	if b.Less(a) {
		a, b = b, a
	}
	return [2]netip.Addr{a, b}
}

// severed reports whether nothing passes between two hosts. It needs mu held.
func (n *Network) severed(a, b *host) bool {
	return n.side[a.addr] != n.side[b.addr] || n.cut[between(a.addr, b.addr)]
}

// Reset breaks the connections of host a to host b, or all of its connections if b is the zero address.
func (n *Network) Reset(a, b netip.Addr) {
	n.lock()
	defer n.unlock()
	for c := range n.conns {
		if c.near.addr == a && (c.far.addr == b || !b.IsValid()) {
			c.fail(errReset)
		}
	}
}

// Ends returns the number of ends of connections.
func (n *Network) Ends() int {
	n.lock()
	defer n.unlock()
	return len(n.conns)
}

// Sent returns the datagrams that a host has sent in all its lives, and the bytes in them.
func (n *Network) Sent(addr netip.Addr) (packets, bytes int64) {
	n.lock()
	defer n.unlock()
	h := n.host(addr)
	return h.packets, h.bytes
}

// Open returns the network as one process on these hosts sees it: a node has one host, a server may have many. It dials
// from the first.
func (n *Network) Open(addrs ...netip.Addr) (*Endpoint, error) {
	n.lock()
	defer n.unlock()
	if n.closed {
		return nil, fmt.Errorf("open endpoint at %v: %w", addrs, net.ErrClosed)
	}
	e := &Endpoint{net: n, closed: make(chan struct{})}
	for _, a := range addrs {
		e.hosts = append(e.hosts, n.host(a))
	}
	n.ends[e] = struct{}{}
	return e, nil
}

// Close ends all endpoints and connections. No goroutine is left.
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

// parcel is the unit of transport.
type parcel struct {
	from, to *host
	bytes    int
	order    *time.Duration // when the one sent before reaches the receiver's downlink, which this one must not overtake; nil if it may
	stream   bool           // part of a connection: a cut delays it instead of losing it
	arrive   func()         // called with mu held when the last byte is there; never if it is lost
	number   uint64
}

// send carries a parcel through the sender's uplink, over the distance, and through the receiver's downlink, each link
// first come, first served. It needs mu held.
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
		// Its first byte arrived before its last, so it has been passing the downlink meanwhile.
		p.to.downFree = max(n.plan.now, max(n.plan.now-takes, p.to.downFree)+through(p.bytes, p.to.down))
		n.at(p.to.downFree, func() {
			if !n.stopped(p) {
				n.arrived(p.bytes)
				p.arrive()
			}
		})
	})
}

// stopped reports whether a cut stops a parcel, which it then keeps or loses.
func (n *Network) stopped(p parcel) bool {
	switch {
	case !n.severed(p.from, p.to):
		return false
	case p.stream:
		n.held = append(n.held, p)
	default:
		n.counts.Cut++
	}
	return true
}

// release sends held parcels again, in their original order.
func (n *Network) release() {
	waiting := n.held
	n.held = nil
	slices.SortFunc(waiting, func(a, b parcel) int { return cmp.Compare(a.number, b.number) })
	for _, p := range waiting {
		n.send(p)
	}
}

// through is how long bytes take to pass a link.
func through(bytes int, rate float64) time.Duration {
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(bytes) / rate * float64(time.Millisecond))
}

// GossipPort is the gossip port at every place.
const GossipPort = 7946

// Place returns the address of a numbered place, for tests with many nodes.
func Place(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// PlaceOf returns the number of a place.
func PlaceOf(a netip.Addr) int {
	b := [4]byte(a.AsSlice()[a.BitLen()/8-4:])
	return int(b[1])<<16 | int(b[2])<<8 | int(b[3])
}

// GossipAt returns the gossip address of a place.
func GossipAt(i int) string { return netip.AddrPortFrom(Place(i), GossipPort).String() }

// ID returns the id of the node at a place. Ids sort like their places.
func ID(i int) string { return fmt.Sprintf("%032x", 0x1000_0000+i) }

// Stats is how the network did.
type Stats struct {
	// Packets counts the segments and datagrams that arrived, acknowledgements included; Bytes is their content.
	Packets, Bytes int64
	// Cut counts packets lost on purpose: in a partition, or to hosts that are not there.
	Cut int64
	// Overflowed counts packets lost because nobody read them, which is the testbed's own fault.
	Overflowed int64
	// LateP50 and LateP99 are how much later than planned packets were handed over, to 10 µs, at most half a second. The time
	// that a goroutine then waits for a processor is not included.
	LateP50, LateP99 time.Duration
}

type counts struct {
	Stats // without the percentiles
	late  quantile.Histogram
}

// arrived counts a packet. It needs mu held.
func (n *Network) arrived(bytes int) {
	n.counts.Packets++
	n.counts.Bytes += int64(bytes)
	n.counts.late.Add(n.plan.real-n.plan.now, 1)
}

// Stats returns how the network performed so far.
func (n *Network) Stats() Stats {
	n.lock()
	defer n.unlock()
	s := n.counts.Stats
	s.LateP50, s.LateP99 = n.counts.late.Of(0.5), n.counts.late.Of(0.99)
	return s
}
