package fetch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
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
}

// origin is the part of a URL that a connection is for.
type origin struct{ scheme, authority string }

// working is what a connection needs only while it serves an exchange.
type working struct {
	out    bytes.Buffer  // the head of the request
	in     *bufio.Reader // from the connection
	head   []byte        // of the answer, filtered
	ended  error         // comes after it; nil if more comes from in
	unread []byte        // part of head
	chunks chunks        // of the body, from in; unused if it has none
	answer *bufio.Reader // has head, then what comes from in or chunks
}

func newWorking() *working {
	w := &working{in: bufio.NewReaderSize(nil, maxHeld)}
	w.answer = bufio.NewReader(w)
	return w
}

// Read reads the answer for net/http.
func (w *working) Read(p []byte) (int, error) {
	if len(w.unread) > 0 {
		n := copy(p, w.unread)
		w.unread = w.unread[n:]
		return n, nil
	}
	if w.ended != nil {
		return 0, w.ended
	}
	if w.chunks.in != nil {
		return w.chunks.Read(p)
	}
	return w.in.Read(p)
}

// roundTrip sends a request and reads the head of its answer. The body must be closed: then the connection is idle again, if it can
// be. When roundTrip fails, or the exchange ends before, the connection is closed. silent says that it failed before anything of the answer
// came.
func (c *http1Conn) roundTrip(x *exchange, hr *http.Request, s *server) (resp *http.Response, silent bool, err error) {
	w, _ := s.client.working.Get().(*working)
	if w == nil {
		w = newWorking()
	}
	w.in.Reset(c.conn)
	w.answer.Reset(w)
	c.work = w
	x.begin(c.conn, !c.used)
	c.used = true
	body := &http1Body{conn: c, server: s, exchange: x}
	if err = x.hold(c.conn); err == nil {
		silent, err = c.send(x, hr)
	}
	if err == nil {
		resp, err = c.answer(x, hr, s.client.cfg.MaxHeaderBytes)
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
	writeRequest(out, hr)
	if err := x.beforeWrite(); err != nil {
		return false, err
	}
	if x.capture {
		x.rawRequest = bytes.Clone(out.Bytes())
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
func (c *http1Conn) answer(x *exchange, hr *http.Request, most int64) (*http.Response, error) {
	w, filter := c.work, headFilter{most: most}
	for {
		var raw *[]byte
		if x.capture {
			raw = new([]byte)
		}
		w.head = w.head[:0]
		ended := filter.read(w.in, &w.head, raw)
		if ended == errLongHead {
			return nil, errLongHead
		}
		w.unread, w.ended = w.head, cmp.Or[error](ended, errBroken) // where net/http finds no end of a head, it would read on without a limit
		resp, err := http.ReadResponse(w.answer, hr)
		if err != nil {
			return nil, err
		}
		w.ended = ended
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			if raw != nil {
				x.rawHead = *raw
			}
			resp.Close = resp.Close || filter.odd
			if len(resp.TransferEncoding) > 0 {
				w.chunks.in = w.in
			}
			return resp, nil
		}
		if err := x.informed(resp.StatusCode, nil); err != nil {
			return nil, err
		}
	}
}

var (
	errLongHead = &failure{HeaderTooLarge, errors.New("head of the answer is too long")}
	errBroken   = &failure{Protocol, errors.New("head of the answer is broken")}
)

// quiet reports whether nothing has come on an idle connection: neither its end, nor an answer that nobody has asked for.
func (c *http1Conn) quiet() bool {
	if tc, ok := c.Conn.(*tls.Conn); ok && !exhausted(tc) {
		return false
	}
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

// exhausted reports whether nothing is left of what TLS has read from its socket: behind an answer, more may have come in the same record.
func exhausted(tc *tls.Conn) bool {
	if tc.SetReadDeadline(time.Unix(1, 0)) != nil { // then it reads nothing more from there
		return false
	}
	_, err := tc.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded) && tc.SetReadDeadline(time.Time{}) == nil
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
	conn     *http1Conn
	server   *server
	exchange *exchange
	over     bool // it was read to its end
	last     bool // no other answer follows
}

// Read reads the body. After the exchange has ended, the error says why.
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
	if ctx := b.exchange.ctx; ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// Close makes the connection idle, or closes it if something is left on it or nothing may follow.
func (b *http1Body) Close() error {
	c, w := b.conn, b.conn.work
	if w == nil {
		return nil // a second time
	}
	left := w.in.Buffered() + len(w.chunks.line) + len(w.unread) + w.answer.Buffered()
	idle := b.over && !b.last && !w.chunks.bare && left == 0
	w.chunks = chunks{}
	w.in.Reset(nil) // drops its reference to the connection
	c.work = nil
	b.server.client.working.Put(w)
	if b.exchange.release(c.conn) && idle {
		b.server.keep(c)
		return nil
	}
	return c.conn.Close()
}
