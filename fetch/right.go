package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"time"
)

// errNoRight is wrapped by the errors of downloads that Request.Gate or Request.Until stopped before their request was sent.
var errNoRight = errors.New("no right to ask the server")

// errOver stops the request of a download that has ended in the meantime.
var errOver = errors.New("download is over")

// right checks whether the server may be asked at this instant. If not, it ends the exchange.
func (x *exchange) right() (err error) {
	switch {
	case x.expired(time.Now()):
		err = fmt.Errorf("%w: it ended at %v", errNoRight, x.until.Round(0))
	case x.gate != nil:
		if e := x.gate(); e != nil {
			err = fmt.Errorf("%w: %w", errNoRight, e)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && !x.over {
		x.refused = &failure{NoRight, err}
		x.cancel(x.refused)
	}
	return err
}

// expired reports whether the right has ended, by the monotonic clock or by the wall clock, since the former stops while the machine
// sleeps.
func (x *exchange) expired(now time.Time) bool {
	return !x.until.IsZero() && (!now.Before(x.until) || !now.Round(0).Before(x.until.Round(0)))
}

// beforeWrite is called right before the first bytes of the request go out.
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
	if x.over { // since then
		return errOver
	}
	x.sent = true
	return nil
}

// beforeHeaders makes an HTTP/2 connection call beforeWrite before its next bytes go out. net/http reports each field while it assembles
// the head of a request, and lets no other request write until it has sent the head.
func (x *exchange) beforeHeaders(trace *httptrace.ClientTrace) {
	told := false
	trace.WroteHeaderField = func(string, []string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if !told && x.conn != nil {
			told = true
			x.conn.first.Store(x)
		}
	}
	trace.WroteHeaders = func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		told = false // net/http may send the head again on another connection
	}
}

// exchangeKey finds the exchange in the context of a dial.
type exchangeKey struct{}

// dialling limits a stage of a dial by its own timeout and by the request that it is for, which net/http would let it outlive.
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

// broke returns the error of a stage of a dial, of this class unless the right to ask has ended.
func (x *exchange) broke(class Class, err error) error {
	if x.expired(time.Now()) {
		class, err = NoRight, fmt.Errorf("%w: it ended while connecting: %w", errNoRight, err)
	}
	return &failure{class, err}
}
