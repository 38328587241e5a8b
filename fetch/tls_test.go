package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// tlsServer serves on loopback what its name, example.com, is certified for.
func tlsServer(t *testing.T, h2 bool, h http.HandlerFunc) (url string, deps Deps) {
	t.Helper()
	return oddServer(t, &tls.Config{}, h2, h)
}

// oddServer is tlsServer with a configuration.
func oddServer(t *testing.T, cfg *tls.Config, h2 bool, h http.HandlerFunc) (url string, deps Deps) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.TLS, s.EnableHTTP2, s.Config.ErrorLog = cfg, h2, log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return "https://example.com:" + port + "/", Deps{RootCAs: pool}
}

func TestTLS(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			page := pack(t, []byte(strings.Repeat("hello ", 10_000)), "br")
			url, deps := tlsServer(t, h2, func(w http.ResponseWriter, r *http.Request) {
				if r.TLS.ServerName != "example.com" || r.RequestURI != "/a|b//[c]?" || r.UserAgent() != "Proxima/1.0" {
					w.WriteHeader(http.StatusBadRequest)
				}
				w.Header().Set("Content-Encoding", "br")
				_, _ = w.Write(page)
			})
			c := newClient(t, testConfig(), deps)
			proto := map[bool]string{false: "HTTP/1.1", true: "HTTP/2.0"}[h2]
			for i, fresh := range []bool{false, false, true, false} {
				res := c.Get(t.Context(), Request{URL: url + "a|b//[c]?", Addr: testAddr, Fresh: fresh, Capture: true})
				if res.Err != nil || res.Status != 200 || len(res.Body) != 60_000 || res.Protocol != proto || res.WireBytes != int64(len(page)) {
					t.Fatalf("%v: status %d, %d bytes of %d, %s", res.Err, res.Status, len(res.Body), res.WireBytes, res.Protocol)
				}
				made := i%2 == 0
				tm := res.Timing
				if tm.Fresh != made || (tm.Connect > 0) != made || (tm.TLS > 0) != made || tm.FirstByte+tm.Request <= 0 {
					t.Errorf("request %d: %+v", i, tm)
				}
				if sum := tm.Connect + tm.TLS + tm.Request + tm.FirstByte + tm.LastByte; sum > tm.Total {
					t.Errorf("stages take %v of %v", sum, tm.Total)
				}
				if !strings.HasPrefix(string(res.RawRequest), "GET /a|b//[c]? HTTP/1.1\r\nHost: example.com:") || !strings.HasSuffix(string(res.RawRequest), "\r\n\r\n") {
					t.Errorf("request captured as %q", res.RawRequest)
				}
				head, body := string(res.RawHead), string(res.RawBody)
				if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || !strings.Contains(head, "Content-Encoding: br") || body != string(page) {
					t.Errorf("response captured as %q and %d bytes", head, len(body))
				}
				res.Release()
			}
		})
	}
}

func TestCertificates(t *testing.T) {
	url, deps := tlsServer(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
	wrong := strings.Replace(url, "example.com", "wrong.example", 1)
	for _, tc := range []struct {
		name, url string
		deps      Deps
		verify    bool
		want      Class
	}{
		{"right", url, deps, true, OK},
		{"wrong name", wrong, deps, true, TLS},
		{"address", strings.Replace(url, "example.com", "127.0.0.1", 1), deps, true, OK},
		{"wrong address", strings.Replace(url, "example.com", "127.0.0.2", 1), deps, true, TLS},
		{"unknown authority", url, Deps{RootCAs: x509.NewCertPool()}, true, TLS},
		{"unverified", wrong, Deps{RootCAs: x509.NewCertPool()}, false, OK},
	} {
		cfg := testConfig()
		cfg.TLSVerify = tc.verify
		var conns open
		tc.deps.Dial = conns.count(new(net.Dialer).DialContext)
		c := newClient(t, cfg, tc.deps)
		if res := c.Get(t.Context(), Request{URL: tc.url, Addr: testAddr}); res.Class != tc.want || tc.want == TLS && conns.Load() > 0 {
			t.Errorf("%s: class %q, err %v; want %q; %d connections are open", tc.name, res.Class, res.Err, tc.want, conns.Load())
		}
	}
	url, deps = oddServer(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, false, nil)
	if res := newClient(t, testConfig(), deps).Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Class != TLS {
		t.Errorf("the server's alert: class %q, err %v", res.Class, res.Err)
	}
}

// Servers that know only the old cipher suites are asked, as browsers do it, those of TLS 1.0 if certificates need not be right.
func TestOldServers(t *testing.T) {
	for _, tc := range []struct {
		suite, version uint16
		verify         bool
		want           Class
	}{
		{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.VersionTLS12, true, OK},
		{tls.TLS_RSA_WITH_AES_256_CBC_SHA, tls.VersionTLS12, true, OK},
		{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.VersionTLS10, false, OK},
		{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.VersionTLS10, true, TLS},
		{tls.TLS_RSA_WITH_RC4_128_SHA, tls.VersionTLS12, true, TLS},
	} {
		url, deps := oddServer(t, &tls.Config{CipherSuites: []uint16{tc.suite}, MinVersion: tls.VersionTLS10, MaxVersion: tc.version}, false,
			func(http.ResponseWriter, *http.Request) {})
		cfg := testConfig()
		cfg.TLSVerify = tc.verify
		if res := newClient(t, cfg, deps).Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Class != tc.want {
			t.Errorf("%s, %s: class %q, err %v", tls.CipherSuiteName(tc.suite), tls.VersionName(tc.version), res.Class, res.Err)
		}
	}
}

func TestHTTP2Hostile(t *testing.T) {
	url, deps := tlsServer(t, true, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/headers":
			for i := range 7 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("a", 9500))
			}
		case "/header":
			w.Header().Set("X", strings.Repeat("a", 200<<10))
		case "/abort":
			_, _ = io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/hang":
			<-r.Context().Done()
		}
	})
	short := testConfig()
	short.HeaderTimeout = 50 * time.Millisecond // only where no answer is meant to come: any other may take its time
	c, hasty := newClient(t, testConfig(), deps), newClient(t, short, deps)
	for _, tc := range []struct {
		path, truncated string
		want            Class
		length          int
	}{
		{"endless", "length", OK, 10 << 20},
		{"headers", "", HeaderTooLarge, 0},
		{"header", "", Protocol, 0}, // HPACK calls a single long one a compression error
		{"abort", "disconnect", Reset, 5},
		{"hang", "", TimeoutHeader, 0},
		{"", "", OK, 0},
	} {
		by := c
		if tc.want == TimeoutHeader {
			by = hasty
		}
		res := by.Get(t.Context(), Request{URL: url + tc.path, Addr: testAddr})
		if res.Class != tc.want || res.Truncated != tc.truncated || len(res.Body) != tc.length {
			t.Errorf("%s: class %q, err %v, %d bytes, truncated %q", tc.path, res.Class, res.Err, len(res.Body), res.Truncated)
		}
	}
}

// TestHTTP2Refuses: the server resets every stream before it answers (here, since its URL parser dislikes `%zz`), which
// net/http would send again on connection after connection for ever.
func TestHTTP2Refuses(t *testing.T) {
	url, deps := tlsServer(t, true, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
	var conns open
	deps.Dial = conns.count(new(net.Dialer).DialContext)
	c := newClient(t, testConfig(), deps)
	for range 3 {
		before := conns.made.Load()
		if res := c.Get(t.Context(), Request{URL: url + "%zz", Addr: testAddr}); res.Class != Protocol || res.Class.Network() {
			t.Errorf("class %q, err %v", res.Class, res.Err)
		}
		// One for the request, one for its retry, and one that net/http may begin while a connection from before ends.
		if n := conns.made.Load() - before; n > 3 {
			t.Errorf("%d dials for one request", n)
		}
	}
	if res := c.Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Err != nil {
		t.Error(res.Err)
	}
}

// frames serves HTTP/2 frame by frame. reply is called for the head of each request. Who does not know HTTP/2 gets one short answer.
func frames(cert tls.Certificate, reply func(f *http2.Framer, stream uint32)) func(net.Conn) {
	return func(nc net.Conn) {
		tc := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2", "http/1.1"}})
		if err := tc.Handshake(); err != nil || tc.ConnectionState().NegotiatedProtocol == "http/1.1" {
			answer(okHead + "hello")(tc)
			return
		}
		if _, err := io.ReadFull(tc, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(tc, tc)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				reply(f, h.StreamID)
			}
		}
	}
}

// TestHTTP2RefusesAStream: a busy server refuses streams that it has not looked at (RFC 9113, section 8.7). Their pages may be there later.
func TestHTTP2RefusesAStream(t *testing.T) {
	cert := certificate()
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, frames(cert, func(f *http2.Framer, stream uint32) {
			_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
		}))})
		c.tls.InsecureSkipVerify = true
		for i := range 2 {
			if res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr}); res.Class != Reset || !res.Class.Network() || res.Timing.Fresh != (i == 0) {
				t.Errorf("request %d: class %q, fresh %v, err %v", i, res.Class, res.Timing.Fresh, res.Err)
			}
		}
	})
}

// TestHTTP2WantsHTTP1: a server may want HTTP/1.1 (RFC 9113, section 7), as some do for certificates of visitors. It is asked so from then on, over
// new connections, too. Other servers are not.
func TestHTTP2WantsHTTP1(t *testing.T) {
	cert := certificate()
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, frames(cert, func(f *http2.Framer, stream uint32) {
			_ = f.WriteRSTStream(stream, http2.ErrCodeHTTP11Required)
		}))})
		c.tls.InsecureSkipVerify = true
		for i, fresh := range []bool{false, false, true, false} {
			res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr, Fresh: fresh})
			if first := i == 0; first && !res.Class.Network() || !first && (res.Protocol != "HTTP/1.1" || string(res.Body) != "hello") {
				t.Errorf("request %d: class %q, %s %q, err %v", i, res.Class, res.Protocol, res.Body, res.Err)
			}
		}
		if res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr.Next()}); !res.Class.Network() {
			t.Errorf("another server: class %q, %s, err %v", res.Class, res.Protocol, res.Err)
		}
	})
}

// TestHTTP2GoesAway: a server that is restarted has not looked at what it was asked, and answers on another connection. One that goes away
// for ever is not asked for ever.
func TestHTTP2GoesAway(t *testing.T) {
	cert := certificate()
	for away, want := range map[int64]Class{1: OK, 99: Protocol} {
		bubble(t, func(t *testing.T) {
			var conns open
			c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, frames(cert, func(f *http2.Framer, stream uint32) {
				if conns.made.Load() <= away {
					_ = f.WriteGoAway(0, http2.ErrCodeNo, nil)
					return
				}
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}, EndStream: true, EndHeaders: true})
			})))})
			c.tls.InsecureSkipVerify = true
			res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr})
			// One for the request, one for its retry, and one that net/http may begin while a connection from before ends.
			if n := conns.made.Load(); res.Class != want || !res.Timing.Fresh || n < 2 || n > 3 {
				t.Errorf("%d connections end: class %q after %d dials, %v", away, res.Class, n, res.Err)
			}
		})
	}
}

// TestBreaksOff: whether a connection breaks in the middle of a page, or over HTTP/2 only the stream, another try may get the page.
func TestBreaksOff(t *testing.T) {
	for h2, want := range map[bool]Class{false: EOF, true: Reset} {
		for _, sent := range []string{"", "hello"} {
			url, deps := tlsServer(t, h2, func(w http.ResponseWriter, r *http.Request) {
				if sent != "" {
					w.Header().Set("Content-Length", "9")
					_, _ = io.WriteString(w, sent)
					_ = http.NewResponseController(w).Flush()
				}
				panic(http.ErrAbortHandler)
			})
			c := newClient(t, testConfig(), deps)
			if res := c.Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Class != want || string(res.Body) != sent {
				t.Errorf("HTTP/2 %v, after %q: class %q, body %q, err %v", h2, sent, res.Class, res.Body, res.Err)
			}
		}
	}
}

// one is a listener with a single connection.
type one struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *one) Close() error   { return nil }
func (l *one) Addr() net.Addr { return &net.UnixAddr{Name: "one"} }

// certificate is one that no authority knows.
func certificate() tls.Certificate {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0]
}

// serveTLS makes a Dial to a server over links with this delay, until the test ends.
func serveTLS(t *testing.T, cert tls.Certificate, protocol string, delay time.Duration, h http.HandlerFunc) dialer {
	l := &one{make(chan net.Conn, 1), make(chan struct{})}
	s := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{protocol}}, Handler: h}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		close(l.done)
		s.Close()
	})
	return serve(delay, func(nc net.Conn) {
		l.conns <- nc
		<-l.done
	})
}

// TestTLSTimings counts round trips: TLS 1.3 takes one after the connect, for either protocol.
func TestTLSTimings(t *testing.T) {
	const delay, think = 30 * time.Millisecond, 100 * time.Millisecond
	cert := certificate()
	for _, protocol := range []string{"http/1.1", "h2"} {
		bubble(t, func(t *testing.T) {
			cfg := testConfig()
			cfg.TLSVerify = false
			c := newClient(t, cfg, Deps{Dial: serveTLS(t, cert, protocol, delay, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(think)
				_, _ = io.WriteString(w, "hello")
			})})
			for i := range 2 {
				res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr})
				want := Timing{Start: res.Timing.Start, FirstByte: 2*delay + think, Total: 2*delay + think}
				if i == 0 {
					want.Fresh, want.Connect, want.TLS = true, 2*delay, 2*delay
					want.Total += 4 * delay
				}
				if res.Err != nil || string(res.Body) != "hello" || res.Timing != want {
					t.Errorf("%s: %v\n got %+v\nwant %+v", protocol, res.Err, res.Timing, want)
				}
			}
		})
	}
}

// deaf is a connection through which nothing comes any more once its far end is gone without a word.
type deaf struct {
	net.Conn
	gone *atomic.Bool
}

func (d deaf) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || !d.gone.Load() {
			return n, err
		}
	}
}

// TestHTTP2DeadConnection: a timeout ends a stream, and net/http would go on with streams on the connection below it. Where
// that is dead, the request after the timeout must find another.
func TestHTTP2DeadConnection(t *testing.T) {
	cert := certificate()
	for late, total := range map[Class]time.Duration{TimeoutHeader: 2 * time.Minute, TimeoutTotal: 5 * time.Second} {
		bubble(t, func(t *testing.T) {
			var gone []*atomic.Bool // of each connection
			dial := serveTLS(t, cert, "h2", 0, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hello") })
			cfg := testConfig()
			cfg.TLSVerify, cfg.TotalTimeout = false, total
			var conns open
			c := newClient(t, cfg, Deps{Dial: conns.count(func(ctx context.Context, network, address string) (net.Conn, error) {
				nc, err := dial(ctx, network, address)
				gone = append(gone, new(atomic.Bool))
				return deaf{nc, gone[len(gone)-1]}, err
			})})
			for i, want := range []Class{OK, late, OK, OK} {
				if i == 1 {
					gone[0].Store(true)
				}
				if res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr}); res.Class != want || want == late && res.Timing.Total != min(total, 20*time.Second) {
					t.Errorf("request %d: class %q after %v, err %v; want %q", i, res.Class, res.Timing.Total, res.Err, want)
				} else if want == late && !strings.Contains(res.Err.Error(), " after "+min(total, 20*time.Second).String()) {
					t.Errorf("request %d: the reason given is %v", i, res.Err)
				}
				synctest.Wait()
			}
			if len(gone) != 2 {
				t.Errorf("%d dials, want 2", len(gone))
			}
			time.Sleep(cfg.IdleTimeout + time.Second)
			if n := conns.Load(); n != 0 {
				t.Errorf("%d connections open after the idle timeout", n)
			}
		})
	}
}

// TestHTTP2EarlyHints: hints do not end the wait for the answer, and a storm of them is no answer.
func TestHTTP2EarlyHints(t *testing.T) {
	cert := certificate()
	for _, tc := range []struct {
		hints int
		think time.Duration
		want  Class
		took  time.Duration
	}{{1, 19 * time.Second, OK, 19 * time.Second}, {1, 21 * time.Second, TimeoutHeader, 20 * time.Second}, {100, 0, OK, 0}, {101, 0, HeaderTooLarge, 0}} {
		bubble(t, func(t *testing.T) {
			c := newClient(t, testConfig(), Deps{Dial: serve(0, frames(cert, func(f *http2.Framer, stream uint32) {
				for range tc.hints {
					_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("\x08\x03103"), EndHeaders: true})
				}
				time.Sleep(tc.think)
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte{0x88}, EndStream: true, EndHeaders: true})
			}))})
			c.tls.InsecureSkipVerify = true
			if res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr}); res.Class != tc.want || res.Timing.Total != tc.took {
				t.Errorf("%d hints and %v: class %q after %v, %v", tc.hints, tc.think, res.Class, res.Timing.Total, res.Err)
			}
		})
	}
}

// TestHTTP2Status: HTTP/2 carries a status as text, and net/http takes any number. What is counted by status would grow without end.
func TestHTTP2Status(t *testing.T) {
	cert := certificate()
	for status, want := range map[string]int{"200": 200, "999": 999, "1000": 0, "-404": 0, "12345678901": 0} {
		bubble(t, func(t *testing.T) {
			c := newClient(t, testConfig(), Deps{Dial: serve(0, frames(cert, func(f *http2.Framer, stream uint32) {
				block := append([]byte{0x08, byte(len(status))}, status...) // :status, a literal
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block, EndStream: true, EndHeaders: true})
			}))})
			c.tls.InsecureSkipVerify = true
			res := c.Get(t.Context(), Request{URL: "https://a.example/", Addr: testAddr})
			if res.Status != want || (res.Class == Protocol) != (want == 0) || (res.Err == nil) != (want != 0) {
				t.Errorf("status %s is %d, class %q, %v", status, res.Status, res.Class, res.Err)
			}
		})
	}
}
