package member

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// carrier is a transport that can be stopped whole: memberlist's own Shutdown leaves streams to their deadlines.
type carrier struct {
	memberlist.Transport
	// dial is set where the transport is the machine's: its dials can be cut short.
	dial    func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error)
	ctx     context.Context
	cancel  context.CancelFunc
	streams chan net.Conn
	done    sync.WaitGroup
	quit    chan struct{}

	packets, bytes atomic.Uint64
	down           atomic.Bool // no packet is sent any more

	// mu guards what follows.
	mu     sync.Mutex
	closed bool
	open   map[*stream]struct{}
}

// stream is a connection that its carrier knows of until it is closed.
type stream struct {
	net.Conn
	c *carrier
}

func (s *stream) Close() error {
	s.c.mu.Lock()
	delete(s.c.open, s)
	s.c.mu.Unlock()
	return s.Conn.Close()
}

func (s *stream) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.c.bytes.Add(uint64(n))
	return n, err
}

// newCarrier wraps a transport. Its goroutine ends with Shutdown.
func newCarrier(t memberlist.Transport) *carrier {
	c := &carrier{Transport: t, streams: make(chan net.Conn), quit: make(chan struct{}), open: map[*stream]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if _, ok := t.(*memberlist.NetTransport); ok {
		c.dial = func(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
			return (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", addr)
		}
	}
	c.done.Go(c.forward)
	return c
}

// forward passes incoming streams on, so that they are known.
func (c *carrier) forward() {
	for {
		select {
		case conn := <-c.Transport.StreamCh():
			s, ok := c.add(conn)
			if !ok {
				continue
			}
			select {
			case c.streams <- s:
			case <-c.quit:
				_ = s.Close()
			}
		case <-c.quit:
			return
		}
	}
}

func (c *carrier) add(conn net.Conn) (*stream, bool) {
	s := &stream{Conn: conn, c: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, false
	}
	c.open[s] = struct{}{}
	return s, true
}

func (c *carrier) StreamCh() <-chan net.Conn { return c.streams }

func (c *carrier) WriteTo(b []byte, addr string) (time.Time, error) {
	if c.down.Load() {
		return time.Time{}, net.ErrClosed
	}
	c.packets.Add(1)
	c.bytes.Add(uint64(len(b)))
	return c.Transport.WriteTo(b, addr)
}

func (c *carrier) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if c.ctx.Err() != nil {
		return nil, net.ErrClosed
	}
	var conn net.Conn
	var err error
	if c.dial != nil {
		conn, err = c.dial(c.ctx, addr, timeout)
	} else {
		conn, err = c.Transport.DialTimeout(addr, timeout)
	}
	if err != nil {
		return nil, err
	}
	s, ok := c.add(conn)
	if !ok {
		return nil, net.ErrClosed
	}
	return s, nil
}

// hangUp closes all streams, cuts dials short and lets no more be made. Packets still pass.
func (c *carrier) hangUp() {
	c.mu.Lock()
	c.closed = true
	open := make([]*stream, 0, len(c.open))
	for s := range c.open {
		open = append(open, s)
	}
	c.mu.Unlock()
	c.cancel()
	for _, s := range open {
		_ = s.Close()
	}
}

func (c *carrier) Shutdown() error {
	c.down.Store(true)
	c.hangUp()
	err := c.Transport.Shutdown()
	close(c.quit)
	c.done.Wait()
	return err
}
