package fetch

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

const (
	okHead   = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	openHead = "HTTP/1.1 200 OK\r\n\r\n"
)

// TestHostileServers gives each bad answer its class, in bounded (fake) time and memory.
func TestHostileServers(t *testing.T) {
	dialError := func(err error) dialer {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	s := func(handle func(net.Conn)) dialer {
		return serve(0, handle)
	}
	for _, tc := range []struct {
		name      string
		url       string
		dial      dialer
		want      Class
		truncated string
		body      int // length; -1 any
		took      time.Duration
	}{
		{"fine", "http:", s(answer(okHead + "hello")), OK, "", 5, 0},
		{"refused", "http:", dialError(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), Refused, "", 0, 0},
		{"dial fails oddly", "http:", dialError(errTest), Other, "", 0, 0},
		{"connect never ends", "http:", never, TimeoutConnect, "", 0, 10 * time.Second},
		{"TLS never answers", "https:", s(hang), TimeoutTLS, "", 0, 12 * time.Second},
		{"TLS waits for plain HTTP", "https:", s(answer("")), TimeoutTLS, "", 0, 12 * time.Second},
		{"TLS is plain HTTP", "https:", s(func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n"); hang(c) }), TLS, "", 0, 0},
		{"TLS closed at once", "https:", s(func(net.Conn) {}), EOF, "", 0, 0},
		{"never answers", "http:", s(hang), TimeoutHeader, "", 0, 20 * time.Second},
		{"never answers after early hints", "http:", s(func(c net.Conn) { answer("HTTP/1.1 103 Early Hints\r\n\r\n")(c); hang(c) }), TimeoutHeader, "", 0, 20 * time.Second},
		{"is slow after early hints", "http:", s(func(c net.Conn) {
			answer("HTTP/1.1 103 Early Hints\r\n\r\n")(c)
			time.Sleep(19 * time.Second)
			fmt.Fprint(c, okHead+"hello")
		}), OK, "", 5, 19 * time.Second},
		{"closed before request", "http:", s(func(net.Conn) {}), EOF, "", 0, 0},
		{"closed before answer", "http:", s(answer("")), EOF, "", 0, 0},
		{"closed in status line", "http:", s(answer("HTTP/1.1 20")), Protocol, "", 0, 0},
		{"closed in head", "http:", s(answer("HTTP/1.1 200 OK\r\nServer: x\r\n")), EOF, "", 0, 0},
		{"garbage", "http:", s(answer("\x00\x01\x02SSH-2.0-OpenSSH\r\n\r\n")), Protocol, "", 0, 0},
		{"other protocol", "http:", s(answer("220 mail.example ESMTP\r\n")), Protocol, "", 0, 0},
		{"bad status", "http:", s(answer("HTTP/1.1 abc OK\r\n\r\n")), Protocol, "", 0, 0},
		{"status zero", "http:", s(answer("HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n")), Protocol, "", 0, 0},
		{"no colon", "http:", s(answer("HTTP/1.1 200 OK\r\nnothing\r\n\r\n")), OK, "", 0, 0},
		{"endless lines without a colon", "http:", s(flood("HTTP/1.1 200 OK\r\n", "nothing\r\n")), Protocol, "", 0, 0},
		{"two lengths", "http:", s(answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!")), Protocol, "", 0, 0},
		{"negative length", "http:", s(answer("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello")), Protocol, "", 0, 0},
		{"length beyond int64", "http:", s(answer("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello")), Protocol, "", 0, 0},
		{"switches protocols", "http:", s(answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")), Protocol, "", 0, 0},
		{"endless status line", "http:", s(flood("HTTP/1.1 200 ", "a")), HeaderTooLarge, "", 0, 0},
		{"endless header line", "http:", s(flood("HTTP/1.1 200 OK\r\nX: ", "a")), HeaderTooLarge, "", 0, 0},
		{"endless header lines", "http:", s(flood("HTTP/1.1 200 OK\r\n", "X: y\r\n")), HeaderTooLarge, "", 0, 0},
		{"1xx storm", "http:", s(flood("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")), HeaderTooLarge, "", 0, 0},
		{"short body", "http:", s(answer("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello")), EOF, "disconnect", 5, 0},
		{"long body", "http:", s(answer(okHead + "hello world")), OK, "", 5, 0},
		{"huge length, no body", "http:", s(answer("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000\r\n\r\n")), EOF, "disconnect", 0, 0},
		{"chunks", "http:", s(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")), OK, "", 5, 0},
		{"chunk size broken", "http:", s(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n")), Protocol, "disconnect", 5, 0},
		{"chunk too long", "http:", s(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n")), Protocol, "disconnect", 2, 0},
		{"chunks cut", "http:", s(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")), EOF, "disconnect", 5, 0},
		{"endless chunk size", "http:", s(flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "0")), Protocol, "disconnect", 0, 0},
		{"endless chunk extension", "http:", s(flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", "a")), Protocol, "disconnect", 0, 0},
		{"endless trailer", "http:", s(flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X: y\r\n")), Protocol, "disconnect", 0, 0},
		{"unknown transfer coding", "http:", s(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: magic\r\n\r\nhello")), Protocol, "", 0, 0},
		{"endless body", "http:", s(flood(openHead, "a")), OK, "length", 10 << 20, 0},
		{"endless chunks", "http:", s(flood("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n")), OK, "length", 10 << 20, 0},
		{"slow drip", "http:", s(drip(openHead, 1100*time.Millisecond)), TooSlow, "time", 9, 10 * time.Second},
		{"slow drip of header", "http:", s(drip("HTTP/1.1 200 OK\r\nX: ", time.Second)), TooSlow, "", 0, 10 * time.Second},
		{"stalls in body", "http:", s(func(c net.Conn) { answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")(c); hang(c) }), TooSlow, "time", 5, 10 * time.Second},
		{"stalls after a slow head", "http:", s(func(c net.Conn) {
			answer("HTTP/1.1 200 OK\r\nX: ")(c)
			time.Sleep(9 * time.Second)
			fmt.Fprint(c, "y\r\nContent-Length: 9\r\n\r\nhello")
			hang(c)
		}), TooSlow, "time", 5, 19 * time.Second},
		{"stalls after a fast start", "http:", s(func(c net.Conn) { answer(openHead + strings.Repeat("a", 1<<20))(c); hang(c) }), TooSlow, "time", 1 << 20, 20 * time.Second},
		{"fast enough for ever", "http:", s(drip(openHead, 900*time.Microsecond)), TimeoutTotal, "time", -1, 120 * time.Second},
	} {
		bubbleOf(t, tc.name, func(t *testing.T) {
			cfg := testConfig()
			cfg.TLSTimeout = 12 * time.Second
			c := newClient(t, cfg, Deps{Dial: tc.dial})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			res := c.Get(t.Context(), Request{URL: tc.url + "//a.example/", Addr: testAddr})
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			c.Close()
			time.Sleep(5 * time.Second) // the far ends notice
			if res.Class != tc.want || (res.Err == nil) != (tc.want == OK) {
				t.Errorf("class %q, want %q; err %v", res.Class, tc.want, res.Err)
			}
			if res.Truncated != tc.truncated || tc.body >= 0 && len(res.Body) != tc.body || int(res.WireBytes) != len(res.Body) {
				t.Errorf("truncated %q, body %d of %d bytes; want %q, %d", res.Truncated, len(res.Body), res.WireBytes, tc.truncated, tc.body)
			}
			if tc.name == "switches protocols" && res.Status != 101 {
				t.Errorf("status %d", res.Status)
			}
			if took != tc.took || res.Timing.Total != tc.took {
				t.Errorf("took %v, says %v; want %v", took, res.Timing.Total, tc.took)
			}
			if got := after.TotalAlloc - before.TotalAlloc; tc.name != "fast enough for ever" && got > 80<<20 {
				t.Errorf("allocated %d MiB", got>>20)
			}
		})
	}
}

// TestReset needs a kernel: only a socket can send a reset.
func TestReset(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		if nc, err := ln.Accept(); err == nil {
			_, _ = requestHeadOf(bufio.NewReader(nc))
			_ = nc.(*net.TCPConn).SetLinger(0)
			nc.Close()
		}
	}()
	c := newClient(t, testConfig(), Deps{})
	url := "http://" + ln.Addr().String() + "/"
	if res := c.Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Class != Reset {
		t.Errorf("class %q, err %v", res.Class, res.Err)
	}
	ln.Close()
	if res := c.Get(t.Context(), Request{URL: url, Addr: testAddr}); res.Class != Refused || !res.Class.Network() {
		t.Errorf("class %q, err %v", res.Class, res.Err)
	}
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, drip(openHead, 900*time.Microsecond))})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		res := c.Get(ctx, Request{URL: "http://a.example/", Addr: testAddr})
		if res.Class != Canceled || res.Truncated != "time" || res.Timing.Total != 3*time.Second {
			t.Errorf("class %q, truncated %q, %v", res.Class, res.Truncated, res.Timing)
		}
		time.AfterFunc(time.Second, c.Close)
		if res = c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Class != Canceled || res.Timing.Total != time.Second {
			t.Errorf("at Close: class %q, %v", res.Class, res.Timing)
		}
		if res = c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Class != Canceled {
			t.Errorf("after Close: class %q", res.Class)
		}
		c = newClient(t, testConfig(), Deps{Dial: never})
		time.AfterFunc(time.Second, c.Close)
		if res = c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Class != Canceled || res.Timing.Total != time.Second {
			t.Errorf("at Close, while it dials: class %q, %v", res.Class, res.Timing)
		}
		time.Sleep(5 * time.Second) // the far ends notice
	})
}

// pack lays codings over data, the first name first.
func pack(t testing.TB, data []byte, names ...string) []byte {
	for _, name := range names {
		var b bytes.Buffer
		var w io.WriteCloser
		switch name {
		case "gzip", "x-gzip":
			w = gzip.NewWriter(&b)
		case "br":
			w = brotli.NewWriter(&b)
		case "zstd":
			zw, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			w = zw
		case "deflate":
			w = zlib.NewWriter(&b)
		default:
			continue
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		w.Close()
		data = b.Bytes()
	}
	return data
}
