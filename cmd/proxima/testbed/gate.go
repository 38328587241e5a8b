package testbed

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// gate throttles a node that is not a process and so cannot be stopped. It holds back what arrives from the network until the node would
// run again. Safe for concurrent use.
type gate struct {
	began time.Time

	mu    sync.Mutex // guards the fields below
	share float64
	duty  duty
	// The node stops between from and until in the current turn, both counted since began.
	from, until time.Duration
}

func newGate(share float64, seed uint64) *gate {
	return &gate{began: time.Now(), share: share, duty: newDuty(seed)}
}

func (g *gate) set(share float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.share, g.from, g.until = share, 0, 0
}

// pass blocks until the node may run.
func (g *gate) pass() { time.Sleep(g.wait(time.Since(g.began))) }

// wait returns how long the node will remain stopped at a time that is counted since began.
func (g *gate) wait(since time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.share >= 1 {
		return 0
	}
	if g.until == 0 {
		g.until = since // a turn begins
	}
	for g.until <= since {
		run, stopped := g.duty.turn(g.share)
		g.from = g.until + run
		g.until = g.from + stopped
	}
	if since < g.from {
		return 0
	}
	return g.until - since
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (g *gate) dial(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		g.pass()
		return gated{c, g}, nil
	}
}

func (g *gate) listen(listen func(network, address string) (net.Listener, error)) func(network, address string) (net.Listener, error) {
	return func(network, address string) (net.Listener, error) {
		l, err := listen(network, address)
		if err != nil {
			return nil, err
		}
		return gatedListener{l, g}, nil
	}
}

type gated struct {
	net.Conn
	g *gate
}

func (c gated) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.g.pass()
	return n, err
}

type gatedListener struct {
	net.Listener
	g *gate
}

func (l gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.g.pass()
	return gated{c, l.g}, nil
}

type gatedGossip struct {
	memberlist.Transport
	packets chan *memberlist.Packet
	end     func() // ends the delays
}

func (g *gate) gossip(t memberlist.Transport) memberlist.Transport {
	over, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d := &gatedGossip{t, make(chan *memberlist.Packet), func() { end(); <-ended }}
	go func() {
		defer close(ended)
		for {
			select {
			case <-over.Done():
				return
			case p := <-t.PacketCh():
				if g.wait(time.Since(g.began)) > 0 {
					g.pass()
					p.Timestamp = time.Now() // when the node sees it
				}
				select {
				case d.packets <- p:
				case <-over.Done():
					return
				}
			}
		}
	}()
	return d
}

func (d *gatedGossip) PacketCh() <-chan *memberlist.Packet { return d.packets }

func (d *gatedGossip) Shutdown() error {
	d.end()
	return d.Transport.Shutdown()
}
