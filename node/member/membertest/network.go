// Package membertest is a network for tests of overlays: packets and streams of gossip between numbered places, with a
// delay for each pair, cuts, partitions and deaths. It starts no goroutines and works on the fake clock of a
// testing/synctest bubble. It knows nothing of what is sent.
package membertest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Port is the port of gossip at every place.
const Port = 7946

// queue is how many packets may wait for a node that does not read; more are lost, as by a kernel.
const queue = 1024

// Network carries what transports send. Safe for concurrent use.
type Network struct {
	delay func(from, to int) time.Duration

	// mu guards what follows.
	mu     sync.Mutex
	places map[netip.AddrPort]*Transport
	cut    map[[2]int]bool
	side   map[int]int // of a partition; all are on side 0
	counts map[int]Counts
}

// Counts is what one place sent, and how many of the packets to it did not arrive.
type Counts struct{ Packets, PacketBytes, Dials, Lost int }

// New makes a network. delay is the time that a packet takes one way; it is asked for every packet and may vary.
func New(delay func(from, to int) time.Duration) *Network {
	return &Network{delay: delay, places: map[netip.AddrPort]*Transport{}, cut: map[[2]int]bool{}, side: map[int]int{},
		counts: map[int]Counts{}}
}

// ID is a node's id for place i; ids are in the order of their places.
func ID(i int) string { return fmt.Sprintf("%032x", 0x1000_0000+i) }

// AddrPort is where place i is found, Addr the same as text.
func AddrPort(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), Port)
}
func Addr(i int) string { return AddrPort(i).String() }

// Transport opens place i. What was there before is deaf from now on.
func (n *Network) Transport(i int) *Transport {
	t := &Transport{net: n, place: i, packets: make(chan *memberlist.Packet, queue), streams: make(chan net.Conn, queue),
		open: map[*conn]struct{}{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.places[AddrPort(i)] = t
	return t
}

// Kill takes place i off the network at once: no packet leaves or reaches it, dials are refused, streams stay silent.
func (n *Network) Kill(i int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.places[AddrPort(i)]; t != nil {
		t.deaf = true
		delete(n.places, AddrPort(i))
	}
}

// Cut loses everything between two places, both ways, until Heal.
func (n *Network) Cut(a, b int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cut[pair(a, b)] = true
}

// Partition puts the places of each set on a side of its own, all others together on one more. Nothing passes between
// sides until Heal.
func (n *Network) Partition(sets ...[]int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.side)
	for k, set := range sets {
		for _, i := range set {
			n.side[i] = k + 1
		}
	}
}

// Heal ends all cuts and partitions.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.cut)
	clear(n.side)
}

// Counts is what place i sent until now, over all its transports.
func (n *Network) Counts(i int) Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.counts[i]
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

// severed says whether nothing passes between two places; mu is held.
func (n *Network) severed(a, b int) bool { return n.cut[pair(a, b)] || n.side[a] != n.side[b] }

func (n *Network) count(i int, f func(*Counts)) {
	c := n.counts[i]
	f(&c)
	n.counts[i] = c
}

// Transport is one place's end of the network.
type Transport struct {
	net     *Network
	place   int
	packets chan *memberlist.Packet
	streams chan net.Conn
	deaf    bool               // killed or shut down; guarded by net.mu
	open    map[*conn]struct{} // guarded by net.mu
}

var _ memberlist.Transport = (*Transport)(nil)

// FinalAdvertiseAddr is the address of the place, whatever is configured.
func (t *Transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return AddrPort(t.place).Addr().AsSlice(), Port, nil
}

// WriteTo sends a packet. Like UDP, it does not tell what becomes of it.
func (t *Transport) WriteTo(b []byte, addr string) (time.Time, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return time.Time{}, fmt.Errorf("send packet: %w", err)
	}
	n := t.net
	n.mu.Lock()
	defer n.mu.Unlock()
	to := number(at)
	n.count(t.place, func(c *Counts) { c.Packets++; c.PacketBytes += len(b) })
	if t.deaf || n.severed(t.place, to) {
		n.count(to, func(c *Counts) { c.Lost++ })
		return time.Now(), nil
	}
	buf := append([]byte(nil), b...)
	time.AfterFunc(n.delay(t.place, to), func() { n.deliver(t.place, to, at, buf) })
	return time.Now(), nil
}

// deliver ends a packet's way: who died or was cut off meanwhile does not get it.
func (n *Network) deliver(from, to int, at netip.AddrPort, buf []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &memberlist.Packet{Buf: buf, From: net.UDPAddrFromAddrPort(AddrPort(from)), Timestamp: time.Now()}
	if t := n.places[at]; t != nil && !t.deaf && !n.severed(from, to) {
		select {
		case t.packets <- p:
			return
		default:
		}
	}
	n.count(to, func(c *Counts) { c.Lost++ })
}

// PacketCh gives the packets that arrive.
func (t *Transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh gives the streams that others dial.
func (t *Transport) StreamCh() <-chan net.Conn { return t.streams }

// DialTimeout makes a stream; it takes a round trip. Where nothing passes it takes the whole timeout.
func (t *Transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: addrOf(t.place), Err: err}
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fail(err)
	}
	n, to := t.net, number(at)
	n.mu.Lock()
	n.count(t.place, func(c *Counts) { c.Dials++ })
	there := n.delay(t.place, to)
	back := n.delay(to, t.place)
	severed := t.deaf || n.severed(t.place, to)
	n.mu.Unlock()
	if severed || there+back > timeout {
		time.Sleep(timeout)
		return fail(errTimeout{})
	}
	time.Sleep(there + back)
	n.mu.Lock()
	defer n.mu.Unlock()
	peer := n.places[at]
	switch {
	case t.deaf || n.severed(t.place, to):
		return fail(errTimeout{})
	case peer == nil:
		return fail(syscall.ECONNREFUSED)
	}
	near, far := connect(n, t, peer)
	select {
	case peer.streams <- far:
	default:
		return fail(errors.New("nobody accepts"))
	}
	t.open[near], peer.open[far] = struct{}{}, struct{}{}
	return near, nil
}

// Shutdown takes the place off the network and closes its streams.
func (t *Transport) Shutdown() error {
	n := t.net
	n.mu.Lock()
	t.deaf = true
	if at := AddrPort(t.place); n.places[at] == t {
		delete(n.places, at)
	}
	open := t.open
	t.open = map[*conn]struct{}{}
	n.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
	return nil
}

// number is the place of an address.
func number(at netip.AddrPort) int {
	b := at.Addr().Unmap().As4()
	return int(b[1])<<16 | int(b[2])<<8 | int(b[3])
}

func addrOf(i int) net.Addr { return net.TCPAddrFromAddrPort(AddrPort(i)) }

type errTimeout struct{}

func (errTimeout) Error() string   { return "i/o timeout" }
func (errTimeout) Timeout() bool   { return true }
func (errTimeout) Temporary() bool { return true }
