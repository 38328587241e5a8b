package fetch

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"
)

// http1Conn is a connection that speaks HTTP/1.1. It serves one exchange at a time, whose goroutine writes the request and reads the answer.
// net/http would have two goroutines of its own for that, and to wake them costs an eighth of the processor time of a page.
type http1Conn struct {
	*conn           // above TLS, if there is any
	origin origin   // what it leads to
	used   bool     // by an earlier exchange
	work   *working // nil while it is idle
	timer  *time.Timer

	head     headFilter // of the current answer
	longest  int64      // how many bytes its heads may have
	filtered []byte     // what head has let pass and nobody has read yet
	ended    error      // comes after that
}

// origin is the part of a URL that a connection is for.
type origin struct{ scheme, authority string }

// working is what a connection needs only while it serves an exchange.
type working struct {
	in  *bufio.Reader
	out bytes.Buffer
}

// roundTrip sends a request and reads the head of its answer. The body must be closed: then the connection is idle again, if it can
// be. When roundTrip fails, or the exchange ends before, the connection is closed. silent says that it failed before anything of the answer
// came.
func (c *http1Conn) roundTrip(x *exchange, hr *http.Request, s *server) (resp *http.Response, silent bool, err error) {
	w, _ := s.client.working.Get().(*working)
	if w == nil {
		w = &working{in: bufio.NewReader(nil)}
	}
	w.in.Reset(c)
	c.work, c.head, c.longest, c.ended = w, headFilter{}, s.client.cfg.MaxHeaderBytes, nil
	x.begin(c.conn, !c.used)
	c.used = true
	body := &http1Body{conn: c, server: s, ctx: x.ctx, unwatch: context.AfterFunc(x.ctx, func() { c.conn.Close() })}
	silent, err = c.send(x, hr)
	if err == nil {
		resp, err = c.answer(x, hr)
	}
	if err != nil {
		err = body.cause(err)
		body.Close()
		return nil, silent, err
	}
	body.ReadCloser, resp.Body, body.over = resp.Body, body, resp.Body == http.NoBody
	body.last = resp.Close || resp.StatusCode == http.StatusSwitchingProtocols
	return resp, false, nil
}

// send writes a request and waits for the first byte of the answer.
func (c *http1Conn) send(x *exchange, hr *http.Request) (silent bool, err error) {
	out := &c.work.out
	out.Reset()
	if err := hr.Write(out); err != nil {
		return false, err
	}
	if err := x.beforeWrite(); err != nil {
		return false, err
	}
	if x.capture {
		x.rawRequest = bytes.Clone(out.Bytes())
		x.rawHead, c.head.kept = nil, &x.rawHead
	}
	if _, err := c.conn.Write(out.Bytes()); err != nil {
		return true, err
	}
	x.requested()
	if _, err := c.work.in.Peek(1); err != nil {
		return true, err
	}
	x.answered()
	return false, nil
}

// answer reads the head of an answer, and those of the informational ones before it.
func (c *http1Conn) answer(x *exchange, hr *http.Request) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(c.work.in, hr)
		if err != nil || resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
		if err := x.informed(resp.StatusCode, nil); err != nil {
			return nil, err
		}
	}
}

var errLongHead = &failure{HeaderTooLarge, errors.New("head of the answer is too long")}

// Read reads what the server sends, through the filter of its heads.
func (c *http1Conn) Read(p []byte) (int, error) {
	for len(c.filtered) == 0 && c.ended == nil {
		if c.head.part == inBody {
			return c.conn.Read(p)
		}
		n, err := c.conn.Read(p)
		c.filtered, c.ended = c.head.filter(p[:n]), err // a line that is held back then has no end, and no head is whole
		if int64(c.head.passed) > c.longest {
			c.filtered, c.ended = nil, errLongHead
		}
	}
	n := copy(p, c.filtered)
	if c.filtered = c.filtered[n:]; len(c.filtered) > 0 {
		return n, nil
	}
	return n, c.ended
}

// quiet reports whether nothing has come on an idle connection: neither its end, nor an answer that nobody has asked for.
func (c *http1Conn) quiet() bool {
	socket := socketOf(c.conn)
	if socket == nil {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		nothing = err == syscall.EAGAIN
		return true
	})
	return err == nil && nothing
}

// socketOf returns the socket under a connection, or nil.
func socketOf(nc net.Conn) syscall.Conn {
	switch nc := nc.(type) {
	case *conn:
		return socketOf(nc.Conn)
	case *tls.Conn:
		return socketOf(nc.NetConn())
	case syscall.Conn:
		return nc
	}
	return nil
}

// http1Body is the body of an answer. Close gives the connection back to its server.
type http1Body struct {
	io.ReadCloser
	conn    *http1Conn
	server  *server
	ctx     context.Context // of the exchange
	unwatch func() bool     // lets the connection outlive it
	over    bool            // it was read to its end
	last    bool            // no other answer follows
}

func (b *http1Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.over = true
	} else if err != nil {
		err = b.cause(err)
	}
	return n, err
}

// cause returns why the exchange has ended, as the error says only that its connection is closed; or the error, if it goes on.
func (b *http1Body) cause(err error) error {
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	return err
}

// Close makes the connection idle, or closes it if something is left on it or nothing may follow.
func (b *http1Body) Close() error {
	c, w := b.conn, b.conn.work
	if w == nil {
		return nil // a second time
	}
	idle := b.over && !b.last && w.in.Buffered() == 0 && len(c.filtered) == 0
	w.in.Reset(nil) // drops its reference to the connection
	c.work = nil
	b.server.client.working.Put(w)
	if b.unwatch() && idle {
		b.server.keep(c)
		return nil
	}
	return c.conn.Close()
}
