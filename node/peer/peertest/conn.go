package peertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// capacity is how many bytes are under way in one direction before a writer waits.
const capacity = 1 << 20

// stream is one direction of a connection. The lock of the network guards it.
type stream struct {
	parts  []part
	bytes  int
	closed bool // by its writer: read to the end
	broken bool // reset: nothing more is read or written
	// changed wakes its reader and its writer.
	changed signal
}

type part struct {
	data []byte
	due  time.Time
}

// conn is one end of a connection. The lock of the network guards it.
type conn struct {
	network       *Network
	in, out       *stream
	local, remote addr
	closed        bool
	read, write   deadline
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) fail(what string, err error) error {
	return fmt.Errorf("%s %s to %s: %w", what, c.local, c.remote, err)
}

func (c *conn) Read(p []byte) (int, error) {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		cut := n.cut[pair(c.local.place(), c.remote.place())]
		var until time.Duration
		switch {
		case c.closed:
			return 0, c.fail("read", net.ErrClosed)
		case c.in.broken:
			return 0, c.fail("read", syscall.ECONNRESET)
		case c.read.passed():
			return 0, c.fail("read", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return 0, nil
		case cut:
		case len(c.in.parts) > 0:
			first := &c.in.parts[0]
			if until = time.Until(first.due); until > 0 {
				break
			}
			k := copy(p, first.data)
			c.in.bytes -= k
			if first.data = first.data[k:]; len(first.data) == 0 {
				c.in.parts = c.in.parts[1:]
			}
			c.in.changed.tell()
			return k, nil
		case c.in.closed:
			return 0, io.EOF
		}
		c.sleep(c.in, &c.read, until)
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	sent := 0
	for {
		switch {
		case c.closed:
			return sent, c.fail("write", net.ErrClosed)
		case c.out.broken || c.out.closed:
			return sent, c.fail("write", syscall.ECONNRESET)
		case c.write.passed():
			return sent, c.fail("write", os.ErrDeadlineExceeded)
		case len(p) == 0:
			return sent, nil
		}
		if free := capacity - c.out.bytes; free > 0 {
			k := min(free, len(p))
			due := time.Now().Add(n.delay(c.local.place(), c.remote.place()))
			c.out.parts = append(c.out.parts, part{append([]byte(nil), p[:k]...), due})
			c.out.bytes += k
			n.bytes += uint64(k)
			sent += k
			p = p[k:]
			c.out.changed.tell()
			continue
		}
		c.sleep(c.out, &c.write, 0)
	}
}

// sleep waits until a stream changes, a deadline passes, or a time has passed, if it is not zero.
func (c *conn) sleep(s *stream, d *deadline, atMost time.Duration) {
	n := c.network
	changed := s.changed.wait()
	if !d.at.IsZero() && (atMost == 0 || time.Until(d.at) < atMost) {
		atMost = time.Until(d.at)
	}
	n.mu.Unlock()
	defer n.mu.Lock()
	if atMost <= 0 && d.at.IsZero() {
		<-changed // for as long as it takes
		return
	}
	t := time.NewTimer(max(atMost, 0))
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	}
}

// Close lets the other end read what was sent.
func (c *conn) Close() error {
	n := c.network
	n.mu.Lock()
	defer n.mu.Unlock()
	c.closed = true
	c.out.closed = true
	// Nobody reads any more: writers must not wait.
	c.in.broken = true
	delete(n.conns, c)
	c.in.changed.tell()
	c.out.changed.tell()
	return nil
}

// reset breaks both directions. It is called under the lock.
func (c *conn) reset() {
	c.in.broken, c.out.broken = true, true
	c.in.changed.tell()
	c.out.changed.tell()
	delete(c.network.conns, c)
}

// deadline is when reading or writing fails.
type deadline struct{ at time.Time }

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (c *conn) SetDeadline(t time.Time) error      { return c.set(t, &c.read, &c.write) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.set(t, &c.read) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.set(t, &c.write) }

func (c *conn) set(t time.Time, deadlines ...*deadline) error {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	for _, d := range deadlines {
		d.at = t
	}
	c.in.changed.tell()
	c.out.changed.tell()
	return nil
}
