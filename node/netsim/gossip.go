package netsim

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// Gossip is a memberlist transport: packets and streams at one port.
type Gossip struct {
	end     *Endpoint
	at      netip.AddrPort
	socket  *socket
	streams *listener
	packets chan *memberlist.Packet
}

var _ memberlist.Transport = (*Gossip)(nil)

// Gossip opens a gossip port at the endpoint's first address.
func (e *Endpoint) Gossip(port uint16) (*Gossip, error) {
	g := &Gossip{end: e, packets: make(chan *memberlist.Packet, backlog)}
	address := netip.AddrPortFrom(e.Addr(), port).String()
	g.socket = &socket{taken: g.packet}
	if err := e.bindSocket(g.socket, address); err != nil {
		return nil, fmt.Errorf("open gossip: %w", err)
	}
	g.at = g.socket.at
	var err error
	if g.streams, err = e.listen(g.at.String()); err != nil {
		_ = g.socket.Close()
		return nil, fmt.Errorf("open gossip: %w", err)
	}
	return g, nil
}

// packet takes a datagram when the process is not stopped.
func (g *Gossip) packet(d datagram) bool {
	n := g.end.net
	if g.end.hold == nil {
		return g.take(d)
	}
	n.at(n.plan.now+g.end.hold(n.plan.now), func() {
		if !g.take(d) {
			n.counts.Overflowed++
		}
	})
	return true
}

func (g *Gossip) take(d datagram) bool {
	n := g.end.net
	select {
	case g.packets <- &memberlist.Packet{Buf: d.data, From: net.UDPAddrFromAddrPort(d.from), Timestamp: n.start.Add(n.plan.now)}:
		return true
	default:
		return false
	}
}

// FinalAdvertiseAddr returns the address of the endpoint, whatever is configured.
func (g *Gossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return g.at.Addr().AsSlice(), int(g.at.Port()), nil
}

// WriteTo sends a packet.
func (g *Gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err == nil {
		err = g.socket.sendTo(b, to)
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("send packet to %s: %w", addr, err)
	}
	return time.Now(), nil
}

// PacketCh returns the packets that arrive.
func (g *Gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }

// DialTimeout opens a stream.
func (g *Gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return g.end.DialContext(ctx, "tcp", addr)
}

// StreamCh returns the streams that others open.
func (g *Gossip) StreamCh() <-chan net.Conn { return g.streams.queue }

// Shutdown closes the port and the streams that nobody took.
func (g *Gossip) Shutdown() error {
	n := g.end.net
	n.lock()
	defer n.unlock()
	g.socket.close()
	g.streams.close()
	return nil
}
