package nodetest

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// segment is the least that travels as one, in bytes; large writes travel in a few parts.
	segment = 1448
	// firstWindow is how many bytes a server sends before it hears that they arrive: slow start, as RFC 6928 has it. With
	// every round trip it sends twice as many, until it pauses.
	firstWindow = 10 * segment
)

// pacer says when the bytes of a server may leave.
type pacer struct {
	window, sent int       // bytes: in a round trip, and of this one
	round        time.Time // when this round trip began
	left         time.Time // when what was sent has left
}

// next lets some of a number of bytes leave as soon as they may, and says how many; left is when they have.
func (c *pacer) next(p Path, now time.Time, bytes int) (n int) {
	at := now
	if c.left.After(at) {
		at = c.left
	}
	switch {
	case c.window == 0 || now.Sub(c.left) > p.RTT: // a pause
		c.window, c.sent, c.round = firstWindow, 0, at
	case c.sent >= c.window:
		if next := c.round.Add(p.RTT); next.After(at) {
			at = next
		}
		c.window, c.sent, c.round = 2*c.window, 0, at
	}
	n = min(bytes, max(segment, bytes/8), c.window-c.sent)
	c.sent += n
	c.left = at
	if p.Rate > 0 {
		c.left = at.Add(time.Duration(float64(n) / p.Rate * float64(time.Second)))
	}
	return n
}

// Takes is how long a page of some bytes takes over a connection of its own, without TLS and without the server's thinking.
func (p Path) Takes(bytes int) time.Duration {
	var c pacer
	for bytes > 0 {
		bytes -= c.next(p, c.left, bytes)
	}
	return 2*p.RTT + p.Extra + c.left.Sub(time.Time{})
}

// line is a connection between a node and a server: bytes arrive in order, half a round trip after they were sent, and
// those of the server leave one after the other at the rate of the path.
type line struct {
	// mu guards what follows.
	mu      sync.Mutex
	streams [2]stream // to the node, to the server
	changed chan struct{}
}

// stream is one direction.
type stream struct {
	parts  []part
	ended  time.Time // when its end arrives; zero while it is open
	broken bool
	shut   bool // its reader has closed
}

// part is what was sent at once.
type part struct {
	data []byte
	due  time.Time
}

// end is one end of a line.
type end struct {
	line          *line
	server        bool
	from          string
	path          func(server netip.Addr) Path
	local, remote netip.AddrPort
	pace          pacer
	visit         int // one more than the index of the visit under way; guarded by the lock of the web

	read, write time.Time // deadlines; guarded by line.mu
}

// connect makes a line.
func connect(from string, at netip.AddrPort, path func(server netip.Addr) Path) (node, server *end) {
	l := &line{changed: make(chan struct{})}
	client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 2}), 40_000)
	return &end{line: l, from: from, path: path, local: client, remote: at},
		&end{line: l, server: true, from: from, path: path, local: at, remote: client}
}

func (e *end) Path() Path {
	if e.server {
		return e.path(e.local.Addr())
	}
	return e.path(e.remote.Addr())
}

// in is what this end reads, out what it writes.
func (e *end) in() *stream  { return &e.line.streams[b2i(e.server)] }
func (e *end) out() *stream { return &e.line.streams[b2i(!e.server)] }

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tell wakes all who wait. The lock is held.
func (l *line) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// sleep waits for a change, or for the first of some times that are not zero. The lock is held.
func (l *line) sleep(times ...time.Time) {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	if first.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(first))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

func (e *end) Read(b []byte) (int, error) {
	l, s := e.line, e.in()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		due := s.ended
		switch {
		case s.shut:
			return 0, e.fail("read", net.ErrClosed)
		case s.broken:
			return 0, e.fail("read", syscall.ECONNRESET)
		case passed(e.read):
			return 0, e.fail("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case len(s.parts) > 0 && !time.Now().Before(s.parts[0].due):
			p := &s.parts[0]
			n := copy(b, p.data)
			if p.data = p.data[n:]; len(p.data) == 0 {
				s.parts = s.parts[1:]
			}
			return n, nil
		case len(s.parts) > 0:
			due = s.parts[0].due
		case passed(s.ended):
			return 0, io.EOF
		}
		l.sleep(due, e.read)
	}
}

// Write returns when the last byte has left.
func (e *end) Write(b []byte) (int, error) {
	l, s, sent := e.line, e.out(), 0
	l.mu.Lock()
	defer l.mu.Unlock()
	var left time.Time // when what was sent has left
	for {
		switch {
		case !s.ended.IsZero():
			return sent, e.fail("write", net.ErrClosed)
		case s.broken, s.shut:
			return sent, e.fail("write", syscall.ECONNRESET)
		case passed(e.write):
			return sent, e.fail("write", os.ErrDeadlineExceeded)
		case time.Now().Before(left):
			l.sleep(left, e.write)
			continue
		case sent == len(b):
			return sent, nil
		}
		p, k := e.Path(), len(b)-sent
		left = time.Now()
		if e.server {
			k = e.pace.next(p, left, k)
			left = e.pace.left
		}
		due := left.Add(p.RTT / 2)
		if n := len(s.parts); n > 0 && due.Before(s.parts[n-1].due) {
			due = s.parts[n-1].due
		}
		s.parts = append(s.parts, part{append([]byte(nil), b[sent:sent+k]...), due})
		sent += k
		l.tell()
	}
}

// Close lets the other end read what was sent.
func (e *end) Close() error {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	s := e.out()
	if s.ended.IsZero() {
		s.ended = time.Now().Add(e.Path().RTT / 2)
		if n := len(s.parts); n > 0 && s.ended.Before(s.parts[n-1].due) {
			s.ended = s.parts[n-1].due
		}
	}
	e.in().shut = true
	e.line.tell()
	return nil
}

// reset breaks both directions.
func (e *end) reset() {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	e.in().broken, e.out().broken = true, true
	e.line.tell()
}

func (e *end) fail(what string, err error) error {
	return &net.OpError{Op: what, Net: "tcp", Source: e.LocalAddr(), Addr: e.RemoteAddr(), Err: err}
}

func (e *end) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(e.local) }
func (e *end) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.remote) }

func (e *end) SetDeadline(t time.Time) error      { return e.set(t, &e.read, &e.write) }
func (e *end) SetReadDeadline(t time.Time) error  { return e.set(t, &e.read) }
func (e *end) SetWriteDeadline(t time.Time) error { return e.set(t, &e.write) }

func (e *end) set(t time.Time, deadlines ...*time.Time) error {
	e.line.mu.Lock()
	defer e.line.mu.Unlock()
	for _, d := range deadlines {
		*d = t
	}
	e.line.tell()
	return nil
}
