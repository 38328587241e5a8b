package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// opening is a gate that is open for so many looks, at first. Over HTTP/2 several goroutines may look.
type opening struct{ left, looks atomic.Int64 }

func openFor(looks int) *opening {
	var o opening
	o.left.Store(int64(looks))
	return &o
}

func (o *opening) look() error {
	o.looks.Add(1)
	if o.left.Add(-1) < 0 {
		return errTest
	}
	return nil
}

// noRight checks a download that the gate stopped.
func noRight(t *testing.T, what string, res Result, sent bool) {
	t.Helper()
	if res.Class != NoRight || !errors.Is(res.Err, errNoRight) || res.Sent != sent || res.Status != 0 || res.Class.Network() {
		t.Errorf("%s: class %q, sent %v, status %d, %v; want no right, sent %v", what, res.Class, res.Sent, res.Status, res.Err, sent)
	}
}

// TestFrozen stops the process between connect and request, longer than the right lasts. Neither way to tell the right lets
// the request out.
func TestFrozen(t *testing.T) {
	for _, gated := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			var read atomic.Int64
			c := newClient(t, testConfig(), Deps{Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := newLink(0)
				go func() {
					n, _ := io.Copy(io.Discard, far)
					read.Add(n)
				}()
				time.Sleep(104 * time.Second) // no context is looked at: the connection was there before
				return near, nil
			}})
			c.cfg.HeaderTimeout, c.cfg.TotalTimeout = time.Hour, time.Hour // they were frozen, too
			end := time.Now().Add(30 * time.Second)
			req := Request{URL: "http://a.example/", Addr: testAddr, Until: end}
			if gated {
				req.Until, req.Gate = time.Time{}, func() error { return map[bool]error{true: errTest}[time.Now().After(end)] }
			}
			noRight(t, fmt.Sprintf("gated %v", gated), c.Get(t.Context(), req), false)
			c.Close()
			if synctest.Wait(); read.Load() > 0 {
				t.Errorf("gated %v: the server has read %d bytes", gated, read.Load())
			}
		})
	}
}

// TestRetryPassesTheGate: a request is sent again when a kept connection turns out to be dead. By then
// there may be no right any more, before the connect or after it.
func TestRetryPassesTheGate(t *testing.T) {
	for again := range 3 {
		bubble(t, func(t *testing.T) {
			var conns, heads atomic.Int64
			c := newClient(t, testConfig(), Deps{Dial: serve(time.Millisecond, func(nc net.Conn) {
				first := conns.Add(1) == 1
				br := bufio.NewReader(nc)
				for i := 0; ; i++ {
					if _, err := requestHeadOf(br); err != nil {
						return
					}
					heads.Add(1)
					if first && i == 1 {
						return // without an answer
					}
					_, _ = io.WriteString(nc, okHead+"hello")
				}
			})})
			if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Err != nil {
				t.Fatal(res.Err)
			}
			gate := openFor(1 + again)
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Gate: gate.look})
			if again < 2 {
				noRight(t, fmt.Sprintf("open for %d looks", 1+again), res, true)
			} else if res.Err != nil {
				t.Error(res.Err)
			}
			if gate.looks.Load() != int64(min(2+again, 3)) || heads.Load() != 2+int64(again/2) {
				t.Errorf("open for %d looks: %d looks, %d requests arrived", 1+again, gate.looks.Load(), heads.Load())
			}
		})
	}
}

// TestGateCloses closes the gate before the connect, before the request on the new connection, and before one on a kept connection. The
// server is not asked, neither in the clear nor with TLS, by HTTP/1.1 or HTTP/2.
func TestGateCloses(t *testing.T) {
	for _, protocol := range []string{"clear", "HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			var asked atomic.Int64
			handle := func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.WriteString(w, "hello")
			}
			url, deps := tlsServer(t, protocol == "HTTP/2.0", handle)
			if protocol == "clear" {
				s := httptest.NewServer(http.HandlerFunc(handle))
				defer s.Close()
				url = s.URL
			}
			var conns open
			deps.Dial = conns.count(new(net.Dialer).DialContext)
			c := newClient(t, testConfig(), deps)
			type try struct {
				open, looks, asked int
				fresh              bool
			}
			first, closed := try{open: 0, looks: 1, asked: 0}, try{open: 0, looks: 1, asked: 2}
			for _, step := range []try{
				first,
				{open: 1, looks: 2, asked: 0}, // after the handshake
				{open: 9, looks: 2, asked: 1}, //
				{open: 9, looks: 1, asked: 2}, // kept
				closed,                        // kept, and closed for it
				{open: 9, looks: 2, asked: 3}, // hence new
				{open: 1, looks: 2, asked: 3, fresh: true}, //
				{open: 9, looks: 2, asked: 4, fresh: true}, //
			} {
				gate := openFor(step.open)
				before, _ := c.server(testAddr)
				res := c.Get(t.Context(), Request{URL: url, Addr: testAddr, Gate: gate.look, Fresh: step.fresh})
				if after, _ := c.server(testAddr); step == closed && protocol == "HTTP/2.0" && after == before {
					t.Error("the next request may take the connection that is being closed")
				}
				if step.looks > step.open {
					noRight(t, fmt.Sprintf("%+v", step), res, false)
				} else if res.Err != nil || string(res.Body) != "hello" || !res.Sent || protocol != "clear" && res.Protocol != protocol {
					t.Errorf("%+v: %s %q, %v", step, res.Protocol, res.Body, res.Err)
				}
				if step == first && conns.made.Load() > 0 {
					t.Error("it has dialled without a right")
				}
				// net/http may dial once more while it still believes in a connection that was just refused.
				looks, most := gate.looks.Load(), int64(step.looks)
				if looks == most+1 && step.looks < step.open {
					most++
				}
				if looks != most || asked.Load() != int64(step.asked) {
					t.Errorf("%+v: %d looks, %d requests arrived", step, looks, asked.Load())
				}
			}
		})
	}
}

// TestUntil: neither a connect nor a handshake outlives the right to ask, and that is no fault of the server's.
func TestUntil(t *testing.T) {
	for _, tc := range []struct {
		name, url string
		dial      dialer
		until     time.Duration
		want      Class
		took      time.Duration
	}{
		{"over before it begins", "http:", serve(0, answer(okHead+"hello")), 0, NoRight, 0},
		{"long enough", "http:", serve(0, answer(okHead+"hello")), time.Second, OK, 0},
		{"connect", "http:", never, 3 * time.Second, NoRight, 3 * time.Second},
		{"handshake", "https:", serve(0, hang), 3 * time.Second, NoRight, 3 * time.Second},
		{"handshake after a slow connect", "https:", serve(time.Second, hang), 3 * time.Second, NoRight, 3 * time.Second},
		{"connect takes too long by itself", "http:", never, time.Minute, TimeoutConnect, 10 * time.Second},
		{"the answer may take longer", "http:", serve(2*time.Second, answer(okHead+"hello")), 5 * time.Second, OK, 8 * time.Second},
		{"the connect takes all of it", "http:", serve(2*time.Second, answer(okHead+"hello")), 4 * time.Second, NoRight, 4 * time.Second},
	} {
		bubbleOf(t, tc.name, func(t *testing.T) {
			c := newClient(t, testConfig(), Deps{Dial: tc.dial})
			begin := time.Now()
			res := c.Get(t.Context(), Request{URL: tc.url + "//a.example/", Addr: testAddr, Gate: func() error { return nil }, Until: begin.Add(tc.until)})
			if res.Class != tc.want || errors.Is(res.Err, errNoRight) != (tc.want == NoRight) || time.Since(begin) != tc.took {
				t.Errorf("class %q after %v, %v; want %q after %v", res.Class, time.Since(begin), res.Err, tc.want, tc.took)
			}
		})
	}
}

// slept is an instant when the machine has slept for so long: the wall clock has gone on since now, the monotonic one has
// not. Package time makes no such time out of another, hence the look at what is inside.
func slept(t *testing.T, now time.Time, long time.Duration) time.Time {
	t.Helper()
	woken := now.Add(long)
	inside := (*struct {
		wall uint64
		mono int64
		loc  *time.Location
	})(unsafe.Pointer(&woken))
	inside.mono -= int64(long)
	if woken.Sub(now) != 0 || woken.Round(0).Sub(now.Round(0)) != long {
		t.Fatal("package time keeps its clocks otherwise")
	}
	return woken
}

// TestRightEndsByEitherClock: what is over by the wall clock is over, though the monotonic one stood still meanwhile.
func TestRightEndsByEitherClock(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Minute)
	x := exchange{until: until}
	for what, c := range map[string]struct {
		now  time.Time
		over bool
	}{
		"just before":                      {until.Add(-1), false},
		"at the end":                       {until, true},
		"after a short sleep":              {slept(t, now, time.Minute-1), false},
		"after a sleep until the end":      {slept(t, now, time.Minute), true},
		"by the monotonic clock, set back": {slept(t, until, -time.Hour), true},
	} {
		if x.expired(c.now) != c.over {
			t.Errorf("%s: over is %v", what, !c.over)
		}
	}
}

// TestNothingIsWrittenOnceItIsOver: a download may end just before its connection writes. The request stays unsent then,
// as nobody would answer for it, though the right to ask goes on. The connection is closed: HTTP/2 could go on with one on which a part of its
// bytes is missing.
func TestNothingIsWrittenOnceItIsOver(t *testing.T) {
	ends, late := new(exchange), &exchange{over: true, gate: openFor(0).look}
	ends.gate = func() error { ends.over = true; return nil }
	if err := late.right(); err == nil || late.refused != nil {
		t.Errorf("what is over is refused afterwards: %v, %v", err, late.refused)
	}
	for what, x := range map[string]*exchange{"going on": {gate: openFor(1).look}, "over": {over: true}, "refused": {refused: &failure{}}, "over since the gate looked": ends} {
		bubble(t, func(t *testing.T) { // which notices a connection that stays open
			near, far := newLink(0)
			c := &conn{Conn: near}
			c.first.Store(x)
			_, err := c.Write([]byte("GET"))
			over := what != "going on"
			if !over {
				if _, err := c.Write([]byte(" /")); err != nil {
					t.Error("the right to ask is asked for within a request:", err)
				}
				near.Close()
			}
			if sent, _ := io.ReadAll(far); errors.Is(err, errOver) != over || x.sent == over || (len(sent) == 0) != over {
				t.Errorf("%s: %q is written, sent %v, %v", what, sent, x.sent, err)
			}
		})
	}
}

// TestEachHeadOverHTTP2IsChecked: once for each connection that a request goes to.
func TestEachHeadOverHTTP2IsChecked(t *testing.T) {
	x, trace := new(exchange), new(httptrace.ClientTrace)
	x.beforeHeaders(trace)
	for range 2 {
		x.conn = new(conn)
		for i := range 2 {
			trace.WroteHeaderField(":method", []string{"GET"})
			if checked := x.conn.first.Swap(nil) == x; checked != (i == 0) {
				t.Errorf("field %d: checked %v", i, checked)
			}
		}
		trace.WroteHeaders()
	}
}

// TestTriedAgain: where a kept connection is dead and the request takes another, the wait for the answer begins anew.
func TestTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := Default()
		x := &exchange{cfg: &cfg, start: time.Now(), cancel: func(error) {}}
		kept := &conn{}
		kept.taken.Store(true)
		trace := x.trace()
		trace.GotConn(httptrace.GotConnInfo{Conn: tls.Client(kept, &tls.Config{})})
		if trace.WroteRequest(httptrace.WroteRequestInfo{Err: errTest}); !x.wrote.IsZero() {
			t.Error("a request that could not be written counts as written")
		}
		trace.WroteRequest(httptrace.WroteRequestInfo{})
		trace.GotFirstResponseByte()
		time.Sleep(cfg.HeaderTimeout - time.Second)
		trace.GotConn(httptrace.GotConnInfo{Conn: tls.Client(&conn{}, &tls.Config{})})
		time.Sleep(2 * time.Second) // the second request is not written yet
		if _, late := x.due(time.Now()); late != nil {
			t.Error(late)
		}
		x.begin(&conn{}, true)
		x.requested()
		x.answered()
		time.Sleep(cfg.HeaderTimeout - time.Second)
		x.begin(&conn{}, true)
		time.Sleep(2 * time.Second)
		if _, late := x.due(time.Now()); late != nil {
			t.Error(late)
		}
	})
}
