package member

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"proxima/node/lobby"
	"proxima/node/relay"
)

// carrier is a transport that can be stopped completely. memberlist's own Shutdown leaves streams to their deadlines.
type carrier struct {
	memberlist.Transport
	// dial is set for the machine's transport: its dials can be cut short.
	dial func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error)
	// links carry what does not go to members' ports; may be nil.
	links   Links
	packets chan *memberlist.Packet
	// proof checks strangers. refused is told of those who fail.
	proof   *prover
	refused func(from string, err error)
	ctx     context.Context // ends streams and dials
	cancel  context.CancelFunc
	streams chan net.Conn
	done    sync.WaitGroup
	quit    chan struct{}

	sent, bytes atomic.Uint64
	down        atomic.Bool // no packet is sent from now on
	silent      atomic.Bool // nothing is said for now: packets are lost, and streams refused
}

// newCarrier wraps a transport. Its goroutines end with Shutdown.
func newCarrier(t memberlist.Transport, proof *prover, links Links, refused func(from string, err error)) *carrier {
	c := &carrier{Transport: t, proof: proof, links: links, refused: refused, streams: make(chan net.Conn), quit: make(chan struct{}),
		packets: make(chan *memberlist.Packet)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if _, ok := t.(*memberlist.NetTransport); ok {
		c.dial = func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
			return (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
		}
	}
	c.done.Go(func() { c.forward(c.Transport.StreamCh()) })
	if links != nil {
		c.done.Go(func() { c.forward(links.Streams()) })
		c.done.Go(c.merge)
	}
	return c
}

// merge passes on packets that came to the port or by links.
func (c *carrier) merge() {
	for {
		var p *memberlist.Packet
		select {
		case p = <-c.Transport.PacketCh():
			if c.links.Knocked(p.Buf) {
				continue
			}
		case p = <-c.links.Packets():
		case <-c.quit:
			return
		}
		select {
		case c.packets <- p:
		case <-c.quit:
			return
		}
	}
}

func (c *carrier) PacketCh() <-chan *memberlist.Packet {
	if c.links == nil {
		return c.Transport.PacketCh()
	}
	return c.packets
}

// forward passes incoming streams to memberlist, with what was read of them already.
func (c *carrier) forward(streams <-chan net.Conn) {
	for {
		select {
		case conn := <-streams:
			// Concurrently, so that a silent guest does not keep others waiting.
			guest := c.proof.lobby.Enter(conn)
			c.done.Go(func() {
				said, err := c.proof.prove(guest)
				if err != nil && c.ctx.Err() == nil { // after hangUp every guest fails
					c.refused(lobby.Host(conn.RemoteAddr()), err)
				}
				if err != nil || c.silent.Load() {
					_ = conn.Close()
					return
				}
				select {
				case c.streams <- c.newStream(conn, said):
				case <-c.quit: // hangUp has closed it
				}
			})
		case <-c.quit:
			return
		}
	}
}

func (c *carrier) StreamCh() <-chan net.Conn { return c.streams }

func (c *carrier) WriteTo(b []byte, addr string) (time.Time, error) {
	return c.WriteToAddress(b, memberlist.Address{Addr: addr})
}

// WriteToAddress sends a packet to a member, by a link or to its port.
func (c *carrier) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	if c.down.Load() {
		return time.Time{}, net.ErrClosed
	}
	if c.silent.Load() {
		return time.Now(), nil
	}
	c.sent.Add(1)
	c.bytes.Add(uint64(len(b)))
	if c.links != nil && to.Name != "" && c.links.Send(to.Name, b) {
		return time.Now(), nil
	}
	return c.Transport.WriteTo(b, to.Addr)
}

// DialAddressTimeout makes a stream to a member. It ends with the carrier's others.
func (c *carrier) DialAddressTimeout(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if c.ctx.Err() != nil || c.silent.Load() {
		return nil, net.ErrClosed
	}
	conn, err := c.reach(to, timeout)
	if err != nil {
		return nil, err
	}
	return c.newStream(conn, nil), nil
}

// reach makes a connection to a member, by a link or to its port.
func (c *carrier) reach(to memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if c.links != nil && to.Name != "" {
		ctx, cancel := context.WithTimeout(c.ctx, timeout)
		defer cancel()
		if conn, err := c.links.Dial(ctx, to.Name, relay.Gossip); conn != nil || err != nil {
			return conn, err
		}
	}
	if c.dial != nil {
		return c.dial(c.ctx, to.Addr, timeout)
	}
	return c.Transport.DialTimeout(to.Addr, timeout)
}

// hangUp closes all streams, cuts dials short and prevents new ones. Packets still pass.
func (c *carrier) hangUp() {
	c.cancel()
	c.proof.lobby.Close()
}

func (c *carrier) Shutdown() error {
	c.down.Store(true)
	c.hangUp()
	err := c.Transport.Shutdown()
	close(c.quit)
	c.done.Wait()
	return err
}
