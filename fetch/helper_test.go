package fetch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var testAddr = netip.MustParseAddr("127.0.0.1")

// testConfig lets requests to loopback pass.
func testConfig() Config {
	cfg := Default()
	cfg.AllowPrefixes = []string{"127.0.0.0/8"}
	return cfg
}

func newClient(t testing.TB, cfg Config, deps Deps) *Client {
	t.Helper()
	c, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// bubble runs a test on a fake clock. At its end the clients are closed, and the far ends have time to notice.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) })
		f(t)
	})
}

// bubbleOf is bubble in a subtest.
func bubbleOf(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, f) })
}

// dialer is a Deps.Dial.
type dialer = func(context.Context, string, string) (net.Conn, error)

// linkBuffer is how many bytes a link takes before its writer waits.
const linkBuffer = 64 << 10

// half is one direction of a link: bytes arrive after a delay.
type half struct {
	delay time.Duration

	mu       sync.Mutex
	wake     *sync.Cond
	parts    []part
	size     int  // of parts, in bytes
	closed   bool // by the writer, or
	gone     bool // by the reader
	deadline time.Time
}

type part struct {
	due  time.Time
	data []byte
}

func newHalf(delay time.Duration) *half {
	h := &half{delay: delay}
	h.wake = sync.NewCond(&h.mu)
	return h
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.size >= linkBuffer && !h.closed {
		h.wake.Wait()
	}
	if h.closed {
		return 0, io.ErrClosedPipe
	}
	h.size += len(p)
	h.parts = append(h.parts, part{time.Now().Add(h.delay), bytes.Clone(p)})
	h.wake.Broadcast()
	return len(p), nil
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		if !h.deadline.IsZero() && !time.Now().Before(h.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		if h.gone {
			return 0, net.ErrClosed
		}
		if len(h.parts) > 0 {
			if wait := time.Until(h.parts[0].due); wait > 0 {
				h.mu.Unlock()
				time.Sleep(wait)
				h.mu.Lock()
				continue
			}
			n := copy(p, h.parts[0].data)
			h.size -= n
			h.wake.Broadcast()
			if h.parts[0].data = h.parts[0].data[n:]; len(h.parts[0].data) == 0 {
				h.parts = h.parts[1:]
			}
			return n, nil
		}
		if h.closed {
			return 0, io.EOF
		}
		h.wake.Wait()
	}
}

func (h *half) close(reader bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.gone = h.gone || reader
	h.wake.Broadcast()
}

// link is one end of a buffered pipe.
type link struct{ in, out *half }

// newLink makes a pipe whose bytes take delay each way.
func newLink(delay time.Duration) (client, server *link) {
	up, down := newHalf(delay), newHalf(delay)
	return &link{down, up}, &link{up, down}
}

func (l *link) Read(p []byte) (int, error)  { return l.in.read(p) }
func (l *link) Write(p []byte) (int, error) { return l.out.write(p) }
func (l *link) Close() error                { l.out.close(false); l.in.close(true); return nil }
func (l *link) LocalAddr() net.Addr         { return &net.UnixAddr{Name: "link"} }
func (l *link) RemoteAddr() net.Addr        { return &net.UnixAddr{Name: "link"} }
func (l *link) SetDeadline(t time.Time) error {
	l.in.mu.Lock()
	defer l.in.mu.Unlock()
	l.in.deadline = t
	l.in.wake.Broadcast()
	return nil
}
func (l *link) SetReadDeadline(t time.Time) error  { return l.SetDeadline(t) }
func (l *link) SetWriteDeadline(t time.Time) error { return nil }

// open counts the connections of a Dial that are not closed, and all that were made.
type open struct {
	atomic.Int64
	made atomic.Int64
}

func (o *open) count(dial dialer) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		o.Add(1)
		o.made.Add(1)
		return counted{nc, sync.OnceFunc(func() { o.Add(-1) })}, nil
	}
}

type counted struct {
	net.Conn
	over func()
}

func (c counted) Close() error {
	c.over()
	return c.Conn.Close()
}

// serve makes a Dial whose every connection is answered by handle on the far end of a link with this delay; the connect
// takes one round trip.
func serve(delay time.Duration, handle func(net.Conn)) dialer {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		if delay > 0 {
			select {
			case <-time.After(2 * delay):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		near, far := newLink(delay)
		go func() {
			defer far.Close()
			handle(far)
		}()
		return near, nil
	}
}

// requestHeadOf reads one request head.
func requestHeadOf(br *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return "", err
		}
		b.WriteString(line)
		if line == "\r\n" {
			return b.String(), nil
		}
	}
}

// answer handles one request with literal bytes and closes.
func answer(s string) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := requestHeadOf(bufio.NewReader(c)); err == nil {
			_, _ = io.WriteString(c, s)
		}
	}
}

// sent makes a request of a server without content, and returns the head that arrives there.
func sent(t *testing.T, cfg Config, req Request) (head string, res Result) {
	t.Helper()
	heads := make(chan string, 1)
	res = newClient(t, cfg, Deps{Dial: serve(0, func(nc net.Conn) {
		head, _ := requestHeadOf(bufio.NewReader(nc))
		heads <- head
		_, _ = io.WriteString(nc, "HTTP/1.1 204 No Content\r\n\r\n")
	})}).Get(t.Context(), req)
	if res.Err != nil || res.Status != 204 {
		t.Fatalf("%s: status %d, %v", req.URL, res.Status, res.Err)
	}
	return <-heads, res
}

// endless answers with head and then with block, each time after a pause, until the client has gone, or should have gone long ago.
func endless(head, block string, pause time.Duration) func(net.Conn) {
	again := []byte(block) // once: some tests count what is allocated
	return func(c net.Conn) {
		if _, err := requestHeadOf(bufio.NewReader(c)); err != nil {
			return
		}
		begun := time.Now()
		_, err := io.WriteString(c, head)
		for err == nil && time.Since(begun) < time.Hour {
			time.Sleep(pause)
			_, err = c.Write(again)
		}
	}
}

// flood answers with head and then the same bytes, as fast as the client takes them.
func flood(head, again string) func(net.Conn) {
	return endless(head, strings.Repeat(again, 1+4096/len(again)), 0)
}

// drip answers with head and then one byte each interval.
func drip(head string, interval time.Duration) func(net.Conn) { return endless(head, "a", interval) }

// never is a Dial that nobody answers.
func never(ctx context.Context, _, _ string) (net.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// hang reads until the client has gone and never answers.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

var errTest = errors.New("test")
