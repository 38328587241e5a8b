package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestDue asks at some time of a request whether it is too late, and how long to wait until the next check. Times count from its start.
func TestDue(t *testing.T) {
	cfg := Config{TotalTimeout: time.Minute, HeaderTimeout: 20 * time.Second, GraceTime: 10 * time.Second, MinRate: 100}
	start := time.Unix(1_000_000, 0)
	const s, never = time.Second, -1
	for name, c := range map[string]struct {
		got, wrote, first time.Duration
		window            time.Duration
		begun, bytes      int64 // of the body, at the start of the window and now
		paused            bool
		now, wait         time.Duration
		class             Class
	}{
		"it dials":                     {got: never, wrote: never, first: never, now: 15 * s, wait: 10 * s},
		"it dials for long":            {got: never, wrote: never, first: never, now: 55 * s, wait: 5 * s},
		"all is over":                  {got: never, wrote: never, first: never, now: 60 * s, class: TimeoutTotal},
		"it writes":                    {got: 5 * s, wrote: never, first: never, now: 20 * s, wait: 5 * s},
		"it writes for too long":       {got: 5 * s, wrote: never, first: never, now: 25 * s, class: TimeoutHeader},
		"it waits for the answer":      {got: 5 * s, wrote: 9 * s, first: never, now: 25 * s, wait: 4 * s},
		"it looks for the first byte":  {got: 5 * s, wrote: 9 * s, first: never, now: 10 * s, wait: 10 * s},
		"it waits for too long":        {got: 5 * s, wrote: 9 * s, first: never, now: 29 * s, class: TimeoutHeader},
		"the body comes":               {first: 5 * s, window: 5 * s, now: 14 * s, wait: 1 * s},
		"the body is too slow":         {first: 5 * s, window: 5 * s, begun: 500, bytes: 1499, now: 15 * s, class: TooSlow},
		"the body is just fast enough": {first: 5 * s, window: 5 * s, begun: 500, bytes: 1500, now: 15 * s, wait: 10 * s},
		"it is so after a fast start":  {first: 5 * s, window: 5 * s, begun: 5000, bytes: 6000, now: 15 * s, wait: 10 * s},
		"nothing is read":              {first: 5 * s, window: 5 * s, paused: true, now: 30 * s, wait: 10 * s},
		"the end comes first":          {first: 5 * s, window: 52 * s, now: 55 * s, wait: 5 * s},
	} {
		at := func(d time.Duration) time.Time {
			if d == never {
				return time.Time{}
			}
			return start.Add(d)
		}
		x := &exchange{cfg: &cfg, start: start, got: at(c.got), wrote: at(c.wrote), first: at(c.first), window: at(c.window), begun: c.begun, paused: c.paused}
		x.bytes.Store(c.bytes)
		wait, err := x.due(at(c.now))
		class := OK
		if err != nil {
			class = classOf(t.Context(), err)
		}
		if class != c.class || wait != c.wait {
			t.Errorf("%s: %q, looks again after %v", name, class, wait)
		}
		if slow := at(c.now + wait).Add(cfg.GraceTime); c.class == OK && c.bytes > 0 { // the next window begins with what has come by now
			if _, err := x.due(slow); err == nil {
				t.Errorf("%s: and nothing more is fast enough", name)
			}
		}
	}
}

// TestWaitIsNoSlowness: what was read before a wait of ours is not asked to be fast.
func TestWaitIsNoSlowness(t *testing.T) {
	cfg, now := Default(), time.Now()
	x := &exchange{cfg: &cfg, start: now, first: now, window: now.Add(-time.Minute)}
	x.bytes.Store(1) // which was too slow
	x.pause(true)
	x.pause(false)
	if _, err := x.due(time.Now()); err != nil {
		t.Error(err)
	}
	x.bytes.Store(1 << 20)
	x.pause(false)
	if _, err := x.due(time.Now().Add(cfg.GraceTime)); err == nil {
		t.Error("nothing since the wait is fast enough")
	}
}

// TestTimingOfStages computes the Timing whichever hooks of net/http ran.
func TestTimingOfStages(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		fresh                   bool
		got, wrote, first, last int // seconds; 0: never
		want                    Timing
	}{
		"all":                   {true, 1, 3, 6, 10, Timing{Fresh: true, Connect: 7, TLS: 8, Request: 2, FirstByte: 3, LastByte: 4, Total: 10}},
		"on an old connection":  {false, 1, 3, 6, 10, Timing{Request: 2, FirstByte: 3, LastByte: 4, Total: 10}},
		"no answer":             {true, 1, 3, 0, 10, Timing{Fresh: true, Connect: 7, TLS: 8, Request: 2, Total: 10}},
		"an answer before":      {false, 1, 7, 6, 10, Timing{Request: 5, LastByte: 4, Total: 10}},
		"an answer unasked":     {false, 1, 0, 6, 10, Timing{Request: 5, LastByte: 4, Total: 10}},
		"nothing but a connect": {true, 1, 0, 0, 10, Timing{Fresh: true, Connect: 7, TLS: 8, Total: 10}},
	} {
		at := func(s int) time.Time {
			if s == 0 {
				return time.Time{}
			}
			return start.Add(time.Duration(s) * time.Second)
		}
		x := &exchange{start: start, fresh: c.fresh, conn: &conn{connect: 7 * time.Second, tls: 8 * time.Second}, timer: time.NewTimer(time.Hour),
			got: at(c.got), wrote: at(c.wrote), first: at(c.first), last: at(c.last)}
		want := c.want
		want.Start = start
		for _, d := range []*time.Duration{&want.Connect, &want.TLS, &want.Request, &want.FirstByte, &want.LastByte, &want.Total} {
			*d *= time.Second
		}
		if got := x.end(); got != want {
			t.Errorf("%s: %+v, not %+v", name, got, want)
		}
	}
}

// TestClassesOfErrors classifies an error by the stage in which it comes.
func TestClassesOfErrors(t *testing.T) {
	canceled, cancel := context.WithCancelCause(t.Context())
	cancel(&failure{TooSlow, errors.New("too slow")})
	left, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	timeout := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	for name, c := range map[string]struct {
		err                   error
		dial, handshake, read Class
	}{
		"refused":             {syscall.ECONNREFUSED, Refused, Refused, Refused},
		"reset":               {syscall.EPIPE, Reset, Reset, Reset},
		"aborted":             {syscall.ECONNABORTED, Reset, Reset, Reset},
		"a broken device":     {syscall.EIO, Reset, Reset, Reset},
		"a host that is down": {syscall.EHOSTDOWN, Unreachable, Unreachable, Unreachable},
		"a firewall here":     {syscall.EACCES, Unreachable, Unreachable, Unreachable},
		"no route":            {syscall.EHOSTUNREACH, Unreachable, Unreachable, Unreachable},
		"no descriptors":      {syscall.EMFILE, Unreachable, Unreachable, Unreachable},
		"unanswered":          {syscall.ETIMEDOUT, TimeoutConnect, TimeoutTLS, Reset},
		"a deadline":          {context.DeadlineExceeded, TimeoutConnect, TimeoutTLS, Other},
		"a timeout":           {timeout, TimeoutConnect, TimeoutTLS, Other},
		"canceled":            {context.Canceled, Canceled, Canceled, Protocol},
		"the end":             {io.ErrUnexpectedEOF, EOF, EOF, EOF},
		"no TLS":              {tls.RecordHeaderError{}, TLS, TLS, TLS},
		"an alert of ours":    {&net.OpError{Op: "local error", Err: errors.New("tls: unexpected message")}, TLS, TLS, TLS},
		"an alert":            {&net.OpError{Op: "remote error", Err: errors.New("tls: handshake failure")}, TLS, TLS, TLS},
		"any other":           {errors.New("malformed"), Other, TLS, Protocol},
		"a long head of h2":   {errors.New("http2: header list larger than peer's limit"), Other, TLS, HeaderTooLarge},
		"a stream that is up": {errors.New("http2: server sent GOAWAY and closed the connection"), Other, TLS, Reset},
		"a refused stream":    {errors.New("stream error: REFUSED_STREAM"), Other, TLS, Reset},
		"too many streams":    {errors.New("ENHANCE_YOUR_CALM"), Other, TLS, Reset},
		"a broken stream":     {errors.New("stream error: stream ID 3; INTERNAL_ERROR; received from peer"), Other, TLS, Reset},
		"a disliked request":  {errors.New("stream error: stream ID 3; PROTOCOL_ERROR; received from peer"), Other, TLS, Protocol},
		"HTTP/1.1 alone":      {errors.New("stream error: stream ID 3; HTTP_1_1_REQUIRED; received from peer"), Other, TLS, Reset},
		"a disliked answer":   {errors.New("stream error: stream ID 3; FLOW_CONTROL_ERROR"), Other, TLS, Protocol},
		"closed before use":   {errors.New("http2: client conn could not be established"), Other, TLS, Reset},
		"a known class":       {&failure{Bomb, errors.New("bomb")}, Other, TLS, Bomb},
	} {
		if dial, handshake, read := stageClass(c.err, TimeoutConnect, Other), stageClass(c.err, TimeoutTLS, TLS), classOf(t.Context(), c.err); dial != c.dial || handshake != c.handshake || read != c.read {
			t.Errorf("%s: %q as it dials, %q in the handshake, %q later", name, dial, handshake, read)
		}
	}
	for _, errno := range []syscall.Errno{syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EPERM, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if class := classOf(t.Context(), errno); class != Unreachable {
			t.Errorf("%v: %q", errno, class)
		}
	}
	if a, b := classOf(canceled, io.EOF), classOf(left, io.EOF); a != TooSlow || b != Canceled {
		t.Errorf("canceled for a reason: %q; for none: %q", a, b)
	}
}

// Over HTTP/2 net/http may take another connection three times for one request, and one after a fresh one. Its connections must be the client's.
func TestTriesAreCounted(t *testing.T) {
	over := func(c *conn) net.Conn { return tls.Client(c, &tls.Config{}) }
	kept, fresh := func() net.Conn { c := &conn{}; c.taken.Store(true); return over(c) }, func() net.Conn { return over(&conn{}) }
	foreign := func() net.Conn { return tls.Client(&net.TCPConn{}, &tls.Config{}) }
	same := over(&conn{})
	for name, c := range map[string]struct {
		conns []func() net.Conn
		class Class
	}{
		"three kept ones": {[]func() net.Conn{kept, kept, kept}, OK},
		"a fourth":        {[]func() net.Conn{kept, kept, kept, kept}, Protocol},
		"a fresh one":     {[]func() net.Conn{kept, kept, fresh}, OK},
		"and another":     {[]func() net.Conn{fresh, fresh}, OK},
		"and a third":     {[]func() net.Conn{fresh, fresh, fresh}, Protocol},
		"the same again":  {[]func() net.Conn{func() net.Conn { return same }, func() net.Conn { return same }}, Reset},
		"a foreign one":   {[]func() net.Conn{foreign}, Other},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		x := &exchange{cfg: &Config{}, cancel: cancel}
		for _, next := range c.conns {
			x.gotConn(httptrace.GotConnInfo{Conn: next()})
		}
		class := OK
		if ctx.Err() != nil {
			class = classOf(ctx, ctx.Err())
		}
		if class != c.class {
			t.Errorf("%s: %q, want %q", name, class, c.class)
		}
		cancel(nil)
	}
}
