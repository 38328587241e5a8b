package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"
)

// Timing is how long each stage of one request took. Stages that were not reached are zero.
type Timing struct {
	// Start is when Get was called.
	Start time.Time
	// Fresh is true if the connection has served no request before. If it is false, Connect and TLS are zero.
	Fresh bool
	// Connect is the TCP connect: one round trip. TLS is the handshake after it: another round trip in TLS 1.3.
	Connect, TLS time.Duration
	// Request runs from getting the connection to the request written.
	Request time.Duration
	// FirstByte runs from the request written to the first byte of the answer, be it an informational (1xx) one: one round trip and
	// the server's think time.
	FirstByte time.Duration
	// LastByte runs from the first byte to the last of the body.
	LastByte time.Duration
	// Total runs from Start to the last byte or the failure. It exceeds the sum of the stages by what lies between them.
	Total time.Duration
}

// End is when the last byte came, or the failure.
func (t Timing) End() time.Time { return t.Start.Add(t.Total) }

// exchange watches one request: it takes the times, and ends the request if it is too slow. This costs one timer and no
// goroutine: the timer fires when the next limit may be due, and checks again.
//
//	within, watch ──► begin or gotConn ──► beforeWrite ──► requested ──► answered ──► headComplete ──► done ──► end
//	                    ▲  another connection, if it broke before an answer │              (the last byte)
//	                    └───────────────────────────────────────────────────┘
type exchange struct {
	cfg    *Config
	start  time.Time
	ctx    context.Context // ends with the exchange
	cancel context.CancelCauseFunc
	held   atomic.Pointer[conn] // over HTTP/1.1; cancel closes it
	gate   func() error
	until  time.Time
	bytes  atomic.Int64                // of the body, on the wire
	holds  atomic.Pointer[largeBudget] // nil while it has no part of that

	capture             bool   // keeps the heads of HTTP/1.1:
	rawRequest, rawHead []byte // only the goroutine of the download touches them

	mu      sync.Mutex
	timer   *time.Timer
	over    bool
	conn    *conn
	spare   *conn    // was made for HTTP/2, but speaks HTTP/1.1
	h2      bool     // conn speaks HTTP/2, whatever the answer claims
	tries   int      // over HTTP/2
	sent    bool     // bytes of the request may have gone out
	refused *failure // set if the right to ask was missing
	fresh   bool
	again   bool      // a second new connection has the request
	got     time.Time // it got a connection
	wrote   time.Time // request written
	first   time.Time // first byte
	interim int       // informational answers that came instead of the head
	last    time.Time // last byte
	paused  bool      // we do not read now, so MinRate is suspended
	window  time.Time // start of the window of MinRate
	begun   int64     // bytes at its start
}

// within makes the exchange end when ctx does, or when end is called.
func (x *exchange) within(ctx context.Context) (end func()) {
	own, cancel := context.WithCancelCause(context.WithoutCancel(ctx)) // one watch of ctx is enough: they cost
	x.ctx, x.cancel = own, func(why error) {
		cancel(why)
		x.drop()
	}
	if ctx.Err() != nil {
		x.cancel(context.Cause(ctx))
	}
	unwatch := context.AfterFunc(ctx, func() { x.cancel(context.Cause(ctx)) })
	return func() {
		unwatch()
		x.cancel(nil)
	}
}

// begin notes that a request has a connection over HTTP/1.1.
func (x *exchange) begin(c *conn, fresh bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn, x.fresh, x.h2 = c, fresh, false
	x.got, x.wrote, x.first = time.Now(), time.Time{}, time.Time{}
}

// hold gives the exchange a connection over HTTP/1.1, which ends with it. If the exchange has ended, it returns why.
func (x *exchange) hold(c *conn) error {
	x.held.Store(c)
	if x.ctx.Err() != nil {
		x.drop()
		return context.Cause(x.ctx)
	}
	return nil
}

// release lets a connection outlive the exchange. It reports whether it does.
func (x *exchange) release(c *conn) bool { return x.held.CompareAndSwap(c, nil) }

// drop closes the connection that the exchange holds.
func (x *exchange) drop() {
	if c := x.held.Swap(nil); c != nil {
		go c.Close() // TLS says goodbye first, and cancel runs under a lock
	}
}

// requested notes that the request is written.
func (x *exchange) requested() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wrote = time.Now()
}

// answered notes the first byte of the answer.
func (x *exchange) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.first = time.Now()
	x.window = x.first
}

// offer gives a connection that was made for HTTP/2 back to the request, or closes it if that has ended.
func (x *exchange) offer(c *conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.spare != nil {
		c.Close()
		return
	}
	x.spare = c
}

// offered returns what offer was given.
func (x *exchange) offered() *conn {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.spare
	x.spare = nil
	return c
}

// trace returns the hooks for a request over HTTP/2.
func (x *exchange) trace() *httptrace.ClientTrace {
	trace := &httptrace.ClientTrace{
		GotConn: x.gotConn,
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				x.requested()
			}
		},
		GotFirstResponseByte: x.answered,
		Got1xxResponse:       x.informed,
	}
	x.beforeHeaders(trace)
	return trace
}

// maxInterim limits the informational answers to one request. net/http leaves that to whoever is told of them.
const maxInterim = 100

// informed notes an informational answer: the wait for the head goes on.
func (x *exchange) informed(int, textproto.MIMEHeader) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.interim++; x.interim <= maxInterim {
		return nil
	}
	err := &failure{HeaderTooLarge, fmt.Errorf("more than %d informational answers", maxInterim)}
	x.cancel(err) // HTTP/2 makes another error of what is returned
	return err
}

// maxTries limits how often net/http may send one request on reused connections.
const maxTries = 3

var errRefused = &failure{Protocol, errors.New("server refuses the request again and again")}

// spent reports whether the request has had all new connections that it may have.
func (x *exchange) spent() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.again
}

// gotConn notes that a request has a connection over HTTP/2. It runs again if net/http finds an idle one dead and takes another; the last
// one counts. It ends a request that has already been sent on two fresh connections: to a server that resets every stream, net/http would
// send it forever. One that is restarted may say on the first that it is going away, and answers on the second. If the stream was merely
// refused, net/http tries the same connection again: the server has not looked at the request, and may do so later.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	next := connUnder(info.Conn)
	if x.tries++; x.fresh && (x.again || next == x.conn) || x.tries > maxTries {
		err := errRefused
		if next == x.conn {
			err = &failure{Reset, err.err}
		}
		x.cancel(err)
		return
	}
	x.again = x.fresh
	x.conn, x.h2 = next, true
	if x.conn == nil {
		x.cancel(&failure{Other, errors.New("connection is not this client's")}) // it would not check the right to ask
		return
	}
	x.fresh = !x.conn.taken.Swap(true)
	x.got, x.wrote, x.first = time.Now(), time.Time{}, time.Time{}
}

// watch starts the timer of the limits. end stops it.
func (x *exchange) watch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := min(x.cfg.TotalTimeout, x.cfg.HeaderTimeout, x.cfg.GraceTime)
	x.timer = time.AfterFunc(first, x.tick)
}

// tick cancels the exchange if a limit is exceeded, or sets the timer to when one may be.
func (x *exchange) tick() {
	now := time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		return
	}
	wait, late := x.due(now)
	if late != nil {
		x.cancel(late)
		return
	}
	x.timer.Reset(wait)
}

// due returns the limit that is exceeded at now, or how long until one can be.
func (x *exchange) due(now time.Time) (time.Duration, error) {
	left := x.cfg.TotalTimeout - now.Sub(x.start)
	if left <= 0 {
		return 0, &failure{TimeoutTotal, fmt.Errorf("not done after %v", x.cfg.TotalTimeout)}
	}
	if x.first.IsZero() || x.interim > 0 {
		wait := x.cfg.HeaderTimeout // while dialling, the wait for the answer has not begun
		if !x.wrote.IsZero() {
			wait -= now.Sub(x.wrote)
		} else if !x.got.IsZero() {
			wait -= now.Sub(x.got)
		}
		if wait <= 0 {
			return 0, &failure{TimeoutHeader, fmt.Errorf("no answer after %v", x.cfg.HeaderTimeout)}
		}
		return min(left, wait, x.cfg.GraceTime), nil // the first byte may come right now
	}
	if x.paused {
		return min(left, x.cfg.GraceTime), nil
	}
	wait := x.cfg.GraceTime - now.Sub(x.window)
	if wait <= 0 {
		got, least := x.bytes.Load()-x.begun, x.cfg.MinRate
		if b := x.holds.Load(); b != nil && b.waiting.Load() > 0 {
			least *= giveWay
		}
		if float64(got) < float64(least)*x.cfg.GraceTime.Seconds() {
			return 0, &failure{TooSlow, fmt.Errorf("%d bytes of body in %v", got, x.cfg.GraceTime)}
		}
		x.window, x.begun = now, x.begun+got
		wait = x.cfg.GraceTime
	}
	return min(left, wait), nil
}

// overHTTP2 reports whether the request went out over HTTP/2.
func (x *exchange) overHTTP2() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.h2
}

// headComplete notes that the head of the answer is complete: the first window of MinRate begins anew.
func (x *exchange) headComplete() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.window, x.interim = time.Now(), 0
}

// pause suspends or restarts the windows of MinRate.
func (x *exchange) pause(on bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.paused, x.window, x.begun = on, time.Now(), x.bytes.Load()
}

// done notes the last byte.
func (x *exchange) done() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last = time.Now()
}

// end stops the watch and returns the times. Hooks may still run after it, but change nothing that is read again.
func (x *exchange) end() Timing {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	x.timer.Stop()
	if x.spare != nil {
		x.spare.Close()
	}
	if x.last.IsZero() {
		x.last = time.Now()
	}
	t := Timing{Start: x.start, Fresh: x.fresh, Total: x.last.Sub(x.start)}
	if x.fresh {
		t.Connect, t.TLS = x.conn.connect, x.conn.tls
	}
	// The hooks run in different goroutines, so a first byte may be recorded before the request that it answers.
	if !x.first.IsZero() {
		if x.wrote.IsZero() || x.wrote.After(x.first) {
			x.wrote = x.first
		}
		t.LastByte = x.last.Sub(x.first)
	}
	if !x.wrote.IsZero() {
		t.Request = x.wrote.Sub(x.got)
		if !x.first.IsZero() {
			t.FirstByte = x.first.Sub(x.wrote)
		}
	}
	return t
}
