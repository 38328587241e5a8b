package membertest

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a stream. What is written arrives a delay later, in order; a window is not modelled.
type conn struct {
	net      *Network
	from, to *Transport
	in, out  *half
}

// half is one direction of a stream.
type half struct {
	// mu guards what follows; stirred is closed and made anew when any of it changes.
	mu       sync.Mutex
	stirred  chan struct{}
	chunks   []chunk
	ended    time.Time // when the end arrives; zero while open
	shut     bool      // the reader closed
	deadline time.Time // of the reader
}

// chunk is what one Write sent.
type chunk struct {
	due  time.Time
	data []byte
}

func connect(n *Network, a, b *Transport) (*conn, *conn) {
	ab, ba := &half{stirred: make(chan struct{})}, &half{stirred: make(chan struct{})}
	return &conn{n, a, b, ba, ab}, &conn{n, b, a, ab, ba}
}

// change does something under the lock and tells the reader.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.stirred)
	h.stirred = make(chan struct{})
}

func (c *conn) Read(b []byte) (int, error) {
	h := c.in
	for {
		h.mu.Lock()
		now := time.Now()
		stirred, due := h.stirred, h.ended
		switch {
		case h.shut:
			h.mu.Unlock()
			return 0, net.ErrClosed
		case !h.deadline.IsZero() && !now.Before(h.deadline):
			h.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(h.chunks) > 0 && !now.Before(h.chunks[0].due):
			n := copy(b, h.chunks[0].data)
			if h.chunks[0].data = h.chunks[0].data[n:]; len(h.chunks[0].data) == 0 {
				h.chunks = h.chunks[1:]
			}
			h.mu.Unlock()
			return n, nil
		case len(h.chunks) == 0 && !h.ended.IsZero() && !now.Before(h.ended):
			h.mu.Unlock()
			return 0, io.EOF
		case len(h.chunks) > 0:
			due = h.chunks[0].due
		}
		if !h.deadline.IsZero() && (due.IsZero() || h.deadline.Before(due)) {
			due = h.deadline
		}
		h.mu.Unlock()
		wait(stirred, due, now)
	}
}

// wait waits for a stir or for a time, if there is one.
func wait(stirred <-chan struct{}, due, now time.Time) {
	if due.IsZero() {
		<-stirred
		return
	}
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	select {
	case <-stirred:
	case <-timer.C:
	}
}

// pass is when what is sent now arrives; false if it never will.
func (c *conn) pass() (time.Time, bool) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if c.from.deaf || c.to.deaf || c.net.severed(c.from.place, c.to.place) {
		return time.Time{}, false
	}
	return time.Now().Add(c.net.delay(c.from.place, c.to.place)), true
}

func (c *conn) Write(b []byte) (int, error) {
	due, ok := c.pass()
	if !ok {
		return len(b), nil // lost, and never sent again
	}
	var err error
	c.out.change(func() {
		switch {
		case !c.out.ended.IsZero():
			err = net.ErrClosed
		case c.out.shut:
			err = io.ErrClosedPipe
		default:
			if k := len(c.out.chunks); k > 0 && due.Before(c.out.chunks[k-1].due) {
				due = c.out.chunks[k-1].due
			}
			c.out.chunks = append(c.out.chunks, chunk{due, append([]byte(nil), b...)})
		}
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *conn) Close() error {
	c.net.mu.Lock()
	delete(c.from.open, c)
	c.net.mu.Unlock()
	due, ok := c.pass()
	if !ok {
		due = time.Now().Add(time.Hour) // it never comes; the deadline does
	}
	c.out.change(func() {
		if c.out.ended.IsZero() {
			c.out.ended = due
			if k := len(c.out.chunks); k > 0 && due.Before(c.out.chunks[k-1].due) {
				c.out.ended = c.out.chunks[k-1].due
			}
		}
	})
	c.in.change(func() { c.in.shut = true })
	return nil
}

func (c *conn) LocalAddr() net.Addr  { return addrOf(c.from.place) }
func (c *conn) RemoteAddr() net.Addr { return addrOf(c.to.place) }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }
func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}

// SetWriteDeadline does nothing: writes never wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
