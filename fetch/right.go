package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"
)

// ErrNoRight is in the errors of downloads that Request.Gate or Request.Until stopped before their request was sent.
var ErrNoRight = errors.New("no right to ask the server")

// errOver stops the request of a download that has ended meanwhile.
var errOver = errors.New("download is over")

// right asks whether the server may be asked at this instant. A refusal ends the exchange.
func (x *exchange) right() error {
	now := time.Now()
	err := error(nil)
	switch {
	case x.expired(now):
		err = fmt.Errorf("%w: it ended at %v", ErrNoRight, x.until.Round(0))
	case x.gate != nil:
		if e := x.gate(); e != nil {
			err = fmt.Errorf("%w: %w", ErrNoRight, e)
		}
	}
	if err != nil {
		x.refuse(&failure{NoRight, err})
	}
	return err
}

// expired reports whether the time of the right is over, by the monotonic clock or by the wall clock: the former stands
// still while the machine sleeps.
func (x *exchange) expired(now time.Time) bool {
	return !x.until.IsZero() && (!now.Before(x.until) || !now.Round(0).Before(x.until.Round(0)))
}

// refuse ends the exchange for want of the right to ask.
func (x *exchange) refuse(why *failure) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.over && x.refused == nil {
		x.refused = why
		x.cancel(why)
	}
}

// beforeWrite is asked by the connection when the first bytes of the request are about to go out.
func (x *exchange) beforeWrite() error {
	x.mu.Lock()
	over := x.over || x.refused != nil
	x.mu.Unlock()
	if over {
		return errOver
	}
	if err := x.right(); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = true
	return nil
}

// beforeHeaders has an HTTP/2 connection ask before its next bytes go out. HTTP/2 keeps others from writing while it
// assembles the head of a request, of which it tells each field, and sends it.
func (x *exchange) beforeHeaders(trace *httptrace.ClientTrace) {
	told := false
	trace.WroteHeaderField = func(string, []string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.h2 && !told && x.conn != nil {
			told = true
			x.conn.first.Store(x)
		}
	}
	trace.WroteHeaders = func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		told = false // net/http may send the head again, on another connection
	}
}

// exchangeKey finds the exchange in the context of a dial.
type exchangeKey struct{}

// dialling bounds a stage of a dial: by its own timeout, and by the request that it is for, which net/http would let it
// outlive.
func (c *Client) dialling(ctx context.Context, x *exchange, timeout time.Duration) (context.Context, context.CancelFunc) {
	if !x.until.IsZero() {
		timeout = min(timeout, time.Until(x.until))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	closed := context.AfterFunc(c.ctx, cancel)
	ended := context.AfterFunc(x.ctx, cancel)
	return ctx, func() {
		closed()
		ended()
		cancel()
	}
}

// broke is the error of a stage of a dial, of this class unless it was the right to ask that ended.
func (x *exchange) broke(class Class, err error) error {
	if x.expired(time.Now()) {
		class, err = NoRight, fmt.Errorf("%w: it ended while connecting: %w", ErrNoRight, err)
	}
	return &failure{class, err}
}
