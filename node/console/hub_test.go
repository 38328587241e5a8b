package console

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/lobby"
)

// feed is a hub in a bubble whose ticks count themselves.
func feed(t *testing.T) (h *Hub, ticks *atomic.Int64) {
	ticks = new(atomic.Int64)
	h = NewHub(func(context.Context) []byte {
		ticks.Add(1)
		return []byte(`{"tick":"` + strings.Repeat("x", 1000) + `"}`)
	})
	go h.Run(t.Context()) //nolint:errcheck // it has none
	return h, ticks
}

// serving is a server of a handler in a bubble, until stop is called.
func serving(t *testing.T, h http.Handler) (l *pipes, stop func() error) {
	l = &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, nil, h) }()
	return l, func() error { cancel(); return <-served }
}

// Streams get what happens once a second; a hub that nobody watches does nothing.
func TestHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ticks := feed(t)
		time.Sleep(time.Minute)
		if n := ticks.Load(); n > 0 {
			t.Errorf("%d ticks for nobody", n)
		}
		ctx, leave := context.WithCancel(t.Context())
		w := httptest.NewRecorder()
		go func() {
			time.Sleep(10*time.Second + time.Millisecond)
			leave()
		}()
		h.ServeHTTP(deadlined{w}, httptest.NewRequestWithContext(ctx, "GET", "/", nil))
		if got := strings.Count(w.Body.String(), "data: {"); got < 10 || got > 12 {
			t.Errorf("%d events in 10 s", got)
		}
		before := ticks.Load()
		time.Sleep(time.Minute)
		if n := ticks.Load() - before; n > 1 {
			t.Errorf("%d ticks after the last has gone", n)
		}
	})
}

// deadlined is a recorder with the methods of a connection.
type deadlined struct{ *httptest.ResponseRecorder }

func (deadlined) SetWriteDeadline(time.Time) error { return nil }

// TestManyStreams has ten thousand clients open event streams, over connections that they keep and never read from. Few are
// served, the others are told so or wait outside, and memory does not grow with them.
func TestManyStreams(t *testing.T) { synctest.Test(t, manyStreams) }

func manyStreams(t *testing.T) {
	h, _ := feed(t)
	l, stop := serving(t, open(t, Config{Listen: ":8300"}, h))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	before, routines := heap(), runtime.NumGoroutine()
	var clients sync.WaitGroup
	var accepted atomic.Int64
	for range 10_000 {
		clients.Add(1)
		go func() {
			defer clients.Done()
			client, server := net.Pipe()
			defer client.Close()
			if !l.dial(server) {
				return
			}
			accepted.Add(1)
			client.Write([]byte(request)) //nolint:errcheck // it may be closed
			res, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err == nil && res.StatusCode != 200 && res.StatusCode != 503 {
				t.Errorf("answered with %s", res.Status)
			}
			<-l.closed
		}()
	}
	time.Sleep(2 * time.Second) // less than a connection without a request is kept
	h.mu.Lock()
	open := len(h.streams)
	h.mu.Unlock()
	if n := accepted.Load(); n > mostConns || open != mostStreams {
		t.Errorf("%d connections and %d streams", n, open)
	}
	// The clients themselves are 10,000 goroutines of this test: what is beyond them is the server's.
	if n := runtime.NumGoroutine() - routines - 10_000; n > 4*mostConns {
		t.Errorf("%d goroutines serve them", n)
	}
	if grown := int64(heap()) - int64(before); grown > 150<<20 {
		t.Errorf("%d MB more", grown>>20)
	}
	must(t, stop())
	clients.Wait()
}

// from is a connection from an address.
type from struct {
	net.Conn
	addr string
}

func (f from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr)) }

// Strangers who open connections and ask nothing, or nothing any more, from whatever address of one or many networks, do not keep others out,
// and neither do the same an hour later.
func TestStrangersLeaveRoom(t *testing.T) {
	for strange, asks := range map[string]bool{"203.0.113.9:%d": false, "[2001:db8::%d]:1": false, "[2001:db8:%d::1]:1": false, "[2001:db8:1:%d::1]:1": true} {
		synctest.Test(t, func(t *testing.T) {
			l, stop := serving(t, open(t, Config{Listen: ":8300"}, api()))
			for range 3 {
				for i := range 2 * mostConns {
					client, server := net.Pipe()
					go func() {
						if l.dial(from{server, fmt.Sprintf(strange, i+1)}); asks {
							go client.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")) //nolint:errcheck // it may be closed
							io.Copy(io.Discard, client)                                          //nolint:errcheck // it may be closed
						}
					}()
				}
				synctest.Wait()
				began := time.Now()
				client, server := net.Pipe()
				go l.dial(from{server, "192.0.2.1:5000"})
				go client.Write([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")) //nolint:errcheck // its answer is read
				res, err := http.ReadResponse(bufio.NewReader(client), nil)
				if err != nil || res.StatusCode != 200 || time.Since(began) > time.Second {
					t.Errorf("%s, asking %v, after %v: %v, %v", strange, asks, time.Since(began), res, err)
				}
				client.Close()
				time.Sleep(time.Hour)
			}
			must(t, stop())
		})
	}
}

// A connection of TLS from elsewhere waits for its requests in the lobby, too. One of this machine does not.
func TestSilentConnectionsOfTLS(t *testing.T) {
	s := &shared{silent: lobby.New(mostSilent, 0, nil)}
	for _, c := range []struct {
		conn net.Conn
		want int
	}{{&sharing{Conn: from{nil, "192.0.2.1:5000"}}, 1}, {from{nil, "127.0.0.1:5000"}, 0}} {
		secure := tls.Server(c.conn, &tls.Config{})
		for _, state := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed} {
			s.changed(secure, state)
			want := 0
			if state == http.StateNew || state == http.StateIdle {
				want = c.want
			}
			if n, _ := s.silent.Len(); n != want {
				t.Errorf("%v is %v: %d in the lobby, want %d", c.conn.RemoteAddr(), state, n, want)
			}
		}
	}
}

// A stream goes on for as long as it is read, beyond the times that the server gives other requests.
func TestStreamLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := feed(t)
		l, stop := serving(t, open(t, Config{Listen: ":8300"}, h))
		client, server := net.Pipe()
		l.dial(server)
		go client.Write([]byte(request)) //nolint:errcheck // it is read below
		res, err := http.ReadResponse(bufio.NewReader(client), nil)
		must(t, err)
		began := time.Now()
		for lines := bufio.NewScanner(res.Body); time.Since(began) < 5*time.Minute; {
			if !lines.Scan() {
				t.Fatalf("the stream ended after %v: %v", time.Since(began), lines.Err())
			}
		}
		client.Close()
		must(t, stop())
	})
}

// When a server has ended, so have its handlers: what they use is closed next.
func TestServeWaitsForItsHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, working := make(chan struct{}), true
		l, stop := serving(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(begun)
			time.Sleep(3 * time.Second)
			working = false
		}))
		client, server := net.Pipe()
		defer client.Close()
		l.dial(server)
		go client.Write([]byte(request)) //nolint:errcheck // the server closes it
		<-begun
		if must(t, stop()); working {
			t.Error("it has ended, and a handler works")
		}
	})
}

const request = "GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"

// pipes is a listener of connections within the process.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) dial(c net.Conn) bool {
	select {
	case p.conns <- c:
		return true
	case <-p.closed:
		return false
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
