package netsim

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// wait releases mu until something changes or a deadline, if there is one, passes. It needs mu held.
func (n *Network) wait(changed *sync.Cond, deadline time.Time) {
	if !deadline.IsZero() {
		defer time.AfterFunc(time.Until(deadline), func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			changed.Broadcast()
		}).Stop()
	}
	n.arm() // what is due meanwhile, even now, is carried out once this waits
	changed.Wait()
	n.advance()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (c *conn) Read(b []byte) (int, error) {
	defer c.owner.pass() // without mu
	c.net.lock()
	defer c.net.unlock()
	for {
		switch {
		case c.closed:
			return 0, c.failed("read", net.ErrClosed)
		case passed(c.read):
			return 0, c.failed("read", os.ErrDeadlineExceeded)
		case len(c.arrived) > 0 && len(b) > 0:
			return c.take(b), nil // even after a reset
		case c.err != nil:
			return 0, c.failed("read", c.err)
		case len(b) == 0:
			return 0, nil
		case c.eof:
			return 0, io.EOF
		}
		c.net.wait(&c.changed, c.read)
	}
}

// Write returns once all but the last sendBuffer bytes have left.
func (c *conn) Write(b []byte) (int, error) {
	c.writing <- struct{}{}
	defer func() { <-c.writing }()
	c.net.lock()
	defer c.net.unlock()
	for n := 0; ; {
		switch {
		case c.closed, c.ended:
			return n, c.failed("write", net.ErrClosed)
		case passed(c.write):
			return n, c.failed("write", os.ErrDeadlineExceeded)
		case c.err != nil:
			return n, c.failed("write", c.err)
		case n == len(b):
			return n, nil
		}
		if k := min(len(b)-n, sendBuffer-len(c.unsent)); k > 0 {
			c.unsent = append(c.unsent, b[n:n+k]...)
			n += k
			c.transmit()
			continue
		}
		c.net.wait(&c.changed, c.write)
	}
}

// CloseWrite makes the other end read EOF after what was written.
func (c *conn) CloseWrite() error {
	c.net.lock()
	defer c.net.unlock()
	switch {
	case c.closed, c.ended:
		return c.failed("close", net.ErrClosed)
	case c.err != nil:
		return c.failed("close", c.err)
	}
	c.ended = true
	c.transmit()
	c.changed.Broadcast()
	return nil
}

// Close lets the other end read what was written. It resets the other end if that sent data which nobody read, or sends
// more.
func (c *conn) Close() error {
	c.net.lock()
	defer c.net.unlock()
	if c.closed {
		return c.failed("close", net.ErrClosed)
	}
	c.closed = true
	if c.waiting > 0 {
		c.abort(net.ErrClosed)
	}
	c.arrived, c.waiting = nil, 0
	c.ended = true
	c.transmit()
	c.changed.Broadcast()
	c.forget()
	return nil
}

func (c *conn) failed(what string, err error) error {
	return &net.OpError{Op: what, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *conn) SetDeadline(t time.Time) error      { return c.set(t, &c.read, &c.write) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.set(t, &c.read) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.set(t, &c.write) }

func (c *conn) set(t time.Time, deadlines ...*time.Time) error {
	c.net.lock()
	defer c.net.unlock()
	if c.closed {
		return c.failed("set", net.ErrClosed)
	}
	for _, d := range deadlines {
		*d = t
	}
	c.changed.Broadcast()
	return nil
}
