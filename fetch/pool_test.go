package fetch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// echoing serves connections that stay open; every answer tells the address dialled, the number of the connection and of
// the request on it. close ends a connection after so many requests; 0 never.
type echoing struct {
	delay, think, transfer time.Duration
	close                  int
	dials                  atomic.Int64
}

func (e *echoing) dial(ctx context.Context, network, address string) (net.Conn, error) {
	id := e.dials.Add(1)
	return serve(e.delay, func(nc net.Conn) {
		br := bufio.NewReader(nc)
		for i := 1; ; i++ {
			if _, err := requestHeadOf(br); err != nil {
				return
			}
			time.Sleep(e.think)
			body := fmt.Sprintf("%s %d %d", address, id, i)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body[:1])
			time.Sleep(e.transfer)
			_, _ = io.WriteString(nc, body[1:])
			if i == e.close {
				return
			}
		}
	})(ctx, network, address)
}

func TestTimings(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &echoing{delay: 30 * time.Millisecond, think: 100 * time.Millisecond, transfer: 7 * time.Millisecond}
		c := newClient(t, testConfig(), Deps{Dial: e.dial})
		ms := time.Millisecond
		for i, tc := range []struct {
			fresh bool
			want  Timing
		}{
			{false, Timing{Fresh: true, Connect: 60 * ms, FirstByte: 160 * ms, LastByte: 7 * ms, Total: 227 * ms}},
			{false, Timing{FirstByte: 160 * ms, LastByte: 7 * ms, Total: 167 * ms}},
			{true, Timing{Fresh: true, Connect: 60 * ms, FirstByte: 160 * ms, LastByte: 7 * ms, Total: 227 * ms}},
			{false, Timing{FirstByte: 160 * ms, LastByte: 7 * ms, Total: 167 * ms}}, // the fresh one is kept
		} {
			tc.want.Start = time.Now()
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Fresh: tc.fresh})
			if res.Err != nil || res.Timing != tc.want {
				t.Errorf("request %d: %v\n got %+v\nwant %+v", i, res.Err, res.Timing, tc.want)
			}
		}
		if n := e.dials.Load(); n != 2 {
			t.Errorf("%d dials, want 2", n)
		}
	})
}

// TestDeadConnection: the server closes after each answer without saying so. The retry shows as fresh.
func TestDeadConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &echoing{delay: 10 * time.Millisecond, close: 1}
		c := newClient(t, testConfig(), Deps{Dial: e.dial})
		for i := range 3 {
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
			want := fmt.Sprintf("127.0.0.1:80 %d 1", i+1)
			if res.Err != nil || string(res.Body) != want || !res.Timing.Fresh || res.Timing.Connect != 20*time.Millisecond {
				t.Errorf("%q, want %q: %v, %+v", res.Body, want, res.Err, res.Timing)
			}
			if strings.Count(string(res.RawRequest), "GET") != 1 || string(res.RawBody) != want {
				t.Errorf("captured %q, %q", res.RawRequest, res.RawBody)
			}
		}
	})
}

// TestIdleConnectionsAfterFailure: a request that gets no answer leaves the idle connections of its server alone, unless it is a fresh one.
func TestIdleConnectionsAfterFailure(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			e := &echoing{}
			c := newClient(t, testConfig(), Deps{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == "127.0.0.1:81" {
					return serve(0, hang)(ctx, network, address)
				}
				return e.dial(ctx, network, address)
			}})
			for i, url := range []string{"http://a.example/", "http://a.example:81/", "http://a.example/"} {
				res := c.Get(t.Context(), Request{URL: url, Addr: testAddr, Fresh: fresh && i == 1})
				if (res.Class == OK) != (i != 1) || res.Timing.Fresh != (fresh || i < 2) {
					t.Errorf("fresh %v, request %d: %+v, %v", fresh, i, res.Timing, res.Err)
				}
			}
		})
	}
}

// TestDialEndsWithRequest: a request that gave up leaves no dial behind.
func TestDialEndsWithRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &echoing{delay: 50 * time.Millisecond}
		c := newClient(t, testConfig(), Deps{Dial: e.dial})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if res := c.Get(ctx, Request{URL: "http://a.example/", Addr: testAddr}); res.Class != Canceled {
			t.Fatalf("class %q", res.Class)
		}
		time.Sleep(time.Second)
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		if res.Err != nil || !res.Timing.Fresh || res.Timing.Connect != 100*time.Millisecond || e.dials.Load() != 2 {
			t.Errorf("%v, %+v, %d dials", res.Err, res.Timing, e.dials.Load())
		}
	})
}

// TestPinnedAddress: two addresses of one host are two servers.
func TestPinnedAddress(t *testing.T) {
	e := &echoing{}
	c := newClient(t, testConfig(), Deps{Dial: e.dial})
	for i, want := range []string{"127.0.0.1:8080 1 1", "127.0.0.2:8080 2 1", "127.0.0.1:8080 1 2", "127.0.0.2:8080 2 2"} {
		addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(i%2 + 1)})
		res := c.Get(t.Context(), Request{URL: "http://a.example:8080/", Addr: addr})
		if res.Err != nil || string(res.Body) != want {
			t.Errorf("%q, want %q (%v)", res.Body, want, res.Err)
		}
	}
	mapped := netip.AddrFrom16(testAddr.As16())
	if res := c.Get(t.Context(), Request{URL: "http://a.example:8080/", Addr: mapped}); string(res.Body) != "127.0.0.1:8080 1 3" {
		t.Errorf("%v: %q (%v)", mapped, res.Body, res.Err)
	}
	// Another host of the same server has a connection of its own.
	if res := c.Get(t.Context(), Request{URL: "http://b.example:8080/", Addr: testAddr}); string(res.Body) != "127.0.0.1:8080 3 1" {
		t.Errorf("%q (%v)", res.Body, res.Err)
	}
}

func TestServersAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &echoing{}
		cfg := testConfig()
		cfg.MaxServers = 3
		var conns open
		c := newClient(t, cfg, Deps{Dial: conns.count(e.dial)})
		open := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			if n := c.servers.Len(); n > cfg.MaxServers {
				t.Errorf("%d servers, want at most %d", n, cfg.MaxServers)
			}
			return int(conns.Load())
		}
		for i := range 10 {
			addr := netip.AddrFrom4([4]byte{127, 0, 1, byte(i)})
			if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: addr, Fresh: i%2 == 0}); res.Err != nil {
				t.Fatal(res.Err)
			}
			if n := open(); n != min(i+1, 3) {
				t.Errorf("%d connections open after %d servers", n, i+1)
			}
		}
		for i, last := range []byte{7, 10, 7} { // the pool that goes is that of the server which was asked longest ago
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: netip.AddrFrom4([4]byte{127, 0, 1, last})})
			if res.Err != nil || res.Timing.Fresh != (last == 10) {
				t.Errorf("request %d: %+v, %v", i, res.Timing, res.Err)
			}
		}
		for i := range 5 { // hosts of one server
			url := fmt.Sprintf("http://h%d.example/", i)
			if res := c.Get(t.Context(), Request{URL: url, Addr: netip.AddrFrom4([4]byte{127, 0, 1, 9})}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		if n := open(); n != 2+cfg.IdleConns {
			t.Errorf("%d connections open", n)
		}
		if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: netip.AddrFrom4([4]byte{127, 0, 1, 9}), Fresh: true}); res.Err != nil || open() != 3 {
			t.Errorf("%d connections open after a fresh one: %v", open(), res.Err)
		}
		time.Sleep(cfg.IdleTimeout + time.Second)
		if n := open(); n != 0 {
			t.Errorf("%d connections open after the idle timeout", n)
		}
		if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Err != nil || open() != 1 {
			t.Errorf("%d connections open after one more: %v", open(), res.Err)
		}
		c.Close()
		if n := open(); n != 0 {
			t.Errorf("%d connections open after the end", n)
		}
	})
}

// A connection that is taken just when its time is over belongs to the exchange that has taken it, and stays open.
func TestTakenWhenItsTimeIsOver(t *testing.T) {
	cfg := testConfig()
	s := newClient(t, cfg, Deps{}).newServer(testAddr, false)
	near, far := net.Pipe()
	defer far.Close()
	c := &http1Conn{conn: &conn{Conn: near}}
	for _, idle := range []bool{false, true} {
		if s.keep(c); !idle && s.take(c.origin) != c {
			t.Fatal("it was not idle")
		}
		s.drop(c) // the timer has called this before it was stopped
		if open := near.SetDeadline(time.Time{}) == nil; open == idle {
			t.Errorf("idle: %v, open: %v", idle, open)
		}
	}
}

// A request over HTTP/2 may outlive the connections of its server, as when another server needs the room. The connection ends with it.
func TestOutlivesItsServer(t *testing.T) {
	cert := certificate()
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.TLSVerify, cfg.MaxServers = false, 1
		var conns open
		c := newClient(t, cfg, Deps{Dial: conns.count(serveTLS(t, cert, "h2", 0, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				time.Sleep(time.Second)
			}
			_, _ = io.WriteString(w, "hello")
		}))})
		var wg sync.WaitGroup
		wg.Go(func() {
			if res := c.Get(t.Context(), Request{URL: "https://a.example/slow", Addr: testAddr}); res.Err != nil || res.Protocol != "HTTP/2.0" {
				t.Error(res.Protocol, res.Err)
			}
		})
		synctest.Wait()
		other := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: netip.MustParseAddr("127.0.0.2")})
		wg.Wait()
		if synctest.Wait(); other.Err != nil || conns.made.Load() != 2 || conns.Load() != 1 {
			t.Errorf("%v; %d of %d connections are open", other.Err, conns.Load(), conns.made.Load())
		}
	})
}

// How far a server may send ahead of the reader limits the memory of a connection.
func TestTransportIsBounded(t *testing.T) {
	cfg := testConfig()
	for _, cfg.HTTP2 = range []bool{false, true} {
		h := newClient(t, cfg, Deps{}).newServer(testAddr, cfg.HTTP2).h2
		if (h != nil) != cfg.HTTP2 || h != nil && (h.HTTP2.MaxReceiveBufferPerStream != 1<<20 || h.HTTP2.MaxReceiveBufferPerConnection != 4<<20 || !h.Protocols.HTTP2() ||
			h.Protocols.HTTP1() || h.MaxIdleConns != 2 || h.MaxIdleConnsPerHost != 2 || h.IdleConnTimeout != time.Minute || h.MaxResponseHeaderBytes != 64<<10 || !h.DisableCompression) {
			t.Errorf("with HTTP/2 %v: %+v", cfg.HTTP2, h)
		}
	}
}

func TestParallel(t *testing.T) {
	e := &echoing{}
	cfg := testConfig()
	cfg.MaxServers = 4
	c := newClient(t, cfg, Deps{Dial: e.dial})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				addr := netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + (i+j)%7)})
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: addr, Fresh: j%5 == 0, Capture: j%2 == 0})
				if !strings.HasPrefix(string(res.Body), addr.String()+":80 ") {
					t.Errorf("%q from %v (%v)", res.Body, addr, res.Err)
				}
				if j%2 == 0 && (strings.Count(string(res.RawRequest), "GET / ") != 1 || string(res.RawBody) != string(res.Body)) {
					t.Errorf("captured %q, %q", res.RawRequest, res.RawBody)
				}
				res.Release()
			}
		})
	}
	wg.Wait()
}

// A redirect is told, not followed. Its Location may be in any encoding: its bytes are kept, as browsers do it. Any other answer has none.
func TestRedirectIsNotFollowed(t *testing.T) {
	for _, c := range []struct {
		status         int
		location, want string
	}{
		{301, "//b.example/%zz |", "//b.example/%zz |"},
		{302, "/caf\xe9?caf\xc3\xa9", "/caf%E9?caf%C3%A9"}, {308, "/caf%E9?caf%C3%A9", "/caf%E9?caf%C3%A9"},
		{201, "/made", ""},
	} {
		var conns open
		head := fmt.Sprintf("HTTP/1.1 %d Found\r\nLocation: %s\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n", c.status, c.location)
		cl := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, answer(head)))})
		res := cl.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		if res.Err != nil || res.Status != c.status || res.Location != c.want || conns.made.Load() != 1 {
			t.Errorf("%q: %d %q, %v, %d dials", c.location, res.Status, res.Location, res.Err, conns.made.Load())
		}
	}
}
