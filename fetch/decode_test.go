package fetch

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/flate"
)

// reply is an answer with these codings named and this body, framed by its length.
func reply(coding string, body []byte) func(net.Conn) {
	return answer(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body))
}

func TestDecode(t *testing.T) {
	page := []byte(strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", 2000))
	var bare bytes.Buffer
	fw, err := flate.NewWriter(&bare, 5)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fw.Write(page)
	fw.Close()
	text := strings.Repeat("x", 31) // in a block that is stored
	flipped := pack(t, page, "gzip")
	flipped[len(flipped)/2] ^= 0xff

	for _, tc := range []struct {
		name, coding string
		body         []byte
		want         Class
		decoded      []byte // nil is not compared
	}{
		{"none", "identity", page, OK, page},
		{"gzip", "gzip", pack(t, page, "gzip"), OK, page},
		{"x-gzip in capitals", "X-GZip", pack(t, page, "gzip"), OK, page},
		{"br", "br", pack(t, page, "br"), OK, page},
		{"zstd", "zstd", pack(t, page, "zstd"), OK, page},
		{"zlib", "deflate", pack(t, page, "deflate"), OK, page},
		{"bare deflate", "deflate", bare.Bytes(), OK, page},
		{"two", "gzip, br", pack(t, page, "gzip", "br"), OK, page},
		{"two in two lines", "zstd\r\nContent-Encoding: gzip", pack(t, page, "zstd", "gzip"), OK, page},
		{"gzip twice", "gzip,gzip", pack(t, page, "gzip", "gzip"), OK, page},
		{"two large windows", "zstd, br", pack(t, page, "zstd", "br"), Decode, []byte{}},
		{"three", "gzip, gzip, gzip", pack(t, page, "gzip", "gzip", "gzip"), Decode, []byte{}},
		{"unknown stays", "magic", page, OK, page},
		{"unknown behind a known one", "gzip, magic", flipped, OK, flipped},
		{"none between two commas", "gzip,, identity", pack(t, page, "gzip"), OK, page},
		{"bare deflate with the check bits of zlib", "deflate", []byte("\x00\x1f\x00\xe0\xff" + text + "\x01\x00\x00\xff\xff"), OK, []byte(text)},
		{"bare deflate with the method of zlib", "deflate", []byte("\x08\x1f\x00\xe0\xff" + text + "\x01\x00\x00\xff\xff"), OK, []byte(text)},
		{"charset by mistake", "utf-8", page, OK, page},
		{"empty gzip", "gzip", nil, OK, []byte{}},
		{"empty br", "br", nil, OK, []byte{}},
		{"empty zstd", "zstd", nil, OK, []byte{}},
		{"empty deflate", "deflate", nil, OK, []byte{}},
		{"padding", "gzip", append(pack(t, page, "gzip"), make([]byte, 100)...), OK, page},
		{"long padding", "gzip", append(pack(t, page, "gzip"), make([]byte, 1<<20)...), OK, page},
		{"padding behind br", "br", append(pack(t, page, "br"), make([]byte, 100)...), OK, page},
		{"no gzip at all", "gzip", page, Decode, []byte{}},
		{"no br at all", "br", page, Decode, nil},
		{"no zstd at all", "zstd", page, Decode, []byte{}},
		{"flipped bits", "gzip", flipped, Decode, nil},
		{"cut", "gzip", pack(t, page, "gzip")[:200], Decode, nil},
		{"cut zstd", "zstd", pack(t, page, "zstd")[:40], Decode, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, testConfig(), Deps{Dial: serve(0, reply(tc.coding, tc.body))})
			for range 2 { // the second time with pooled decoders
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
				if res.Class != tc.want {
					t.Fatalf("class %q, err %v; want %q", res.Class, res.Err, tc.want)
				}
				if want, ok := map[string]string{"no gzip at all": "length", "cut": ""}[tc.name]; ok && res.Truncated != want { // a capture has what was read until then
					t.Errorf("truncated %q", res.Truncated)
				}
				if tc.decoded != nil && !bytes.Equal(res.Body, tc.decoded) {
					t.Errorf("body of %d bytes differs", len(res.Body))
				}
				if res.Class == OK && tc.name != "long padding" && res.WireBytes != int64(len(tc.body)) {
					t.Errorf("%d bytes on the wire, want %d", res.WireBytes, len(tc.body))
				}
				res.Release()
			}
		})
	}
}

// A page is whole without the padding behind it, but an archive must say that some of it was not read.
func TestCaptureCutInPadding(t *testing.T) {
	page := []byte("<p>The quick brown fox jumps over the lazy dog.</p>")
	for padding, limit := range map[int]int64{1 << 20: 0, 100: 120} {
		sent := append(pack(t, page, "gzip"), make([]byte, padding)...)
		c := newClient(t, testConfig(), Deps{Dial: serve(0, reply("gzip", sent))})
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, MaxWire: limit, Capture: true})
		if res.Err != nil || !bytes.Equal(res.Body, page) || len(res.RawBody) == len(sent) || res.Truncated != "length" {
			t.Errorf("limit %d: %v, %d bytes, %d of %d captured, truncated %q", limit, res.Err, len(res.Body), len(res.RawBody), len(sent), res.Truncated)
		}
		res.Release()
	}
}

// A coded body says itself where it ends. Some servers announce the length of the decoded page, and then close: browsers show the page.
func TestCodedBodyWithWrongLength(t *testing.T) {
	page := []byte(strings.Repeat("<p>The quick brown fox jumps over the lazy dog.</p>\n", 2000))
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "br, gzip", "gzip, br"} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n", len(page)), "Transfer-Encoding: chunked\r\n\r\n100000\r\n"} {
			body := pack(t, page, strings.Split(coding, ", ")...)
			for cut, want := range map[int]Result{0: {Class: OK, Body: page}, 1: {Class: EOF, Truncated: "disconnect"}} {
				sent := "HTTP/1.1 200 OK\r\nContent-Encoding: " + coding + "\r\n" + framing + string(body[:len(body)-cut])
				c := newClient(t, testConfig(), Deps{Dial: serve(0, answer(sent))})
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
				if res.Class != want.Class || res.Truncated != want.Truncated || cut == 0 && !bytes.Equal(res.Body, page) {
					t.Errorf("%s without the last %d bytes, %.20q: class %q, err %v, truncated %q", coding, cut, framing, res.Class, res.Err, res.Truncated)
				}
				res.Release()
			}
		}
	}
}

// Padding that breaks off costs nothing of the page, but the result says that not all of the body was read.
func TestPaddingThatBreaksOff(t *testing.T) {
	page := []byte("<p>The quick brown fox jumps over the lazy dog.</p>")
	for _, coding := range []string{"gzip", "deflate", "br", "br, gzip"} {
		for _, padding := range []int{1, 100, 6000} {
			for _, framing := range []string{"Content-Length: 10000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n100000\r\n"} {
				body := append(pack(t, page, strings.Split(coding, ", ")...), make([]byte, padding)...)
				c := newClient(t, testConfig(), Deps{Dial: serve(0, answer("HTTP/1.1 200 OK\r\nContent-Encoding: "+coding+"\r\n"+framing+string(body)))})
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
				if res.Class != OK || res.Truncated != "disconnect" || !bytes.Equal(res.Body, page) {
					t.Errorf("%s with %d bytes of padding, %.20q: class %q, err %v, truncated %q", coding, padding, framing, res.Class, res.Err, res.Truncated)
				}
				res.Release()
			}
		}
	}
}

// TestBombs decodes bombs of 64 MiB: within a bound of memory, each is called by its name.
func TestBombs(t *testing.T) {
	for _, codings := range [][]string{{"gzip"}, {"br"}, {"zstd"}, {"deflate"}, {"gzip", "gzip"}} {
		coding := strings.Join(codings, ", ")
		t.Run(coding, func(t *testing.T) {
			c := newClient(t, testConfig(), Deps{Dial: serve(0, reply(coding, pack(t, make([]byte, 64<<20), codings...)))})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, MaxWire: 1 << 20})
			runtime.ReadMemStats(&after)
			if res.Class != Bomb || res.Body != nil || res.Truncated != "length" {
				t.Errorf("class %q, err %v, %d bytes, truncated %q", res.Class, res.Err, len(res.Body), res.Truncated)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 120<<20 {
				t.Errorf("allocated %d MiB", got>>20)
			}
			// For robots.txt it is only too long.
			for _, most := range []int64{500 << 10, 30 << 20} {
				res = c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, MaxBody: most})
				if res.Class != OK || int64(len(res.Body)) != most || res.Truncated != "length" {
					t.Errorf("MaxBody: class %q, err %v, %d bytes, truncated %q", res.Class, res.Err, len(res.Body), res.Truncated)
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	body := []byte(strings.Repeat("0123456789", 100))
	zipped := pack(t, body, "gzip")
	for _, tc := range []struct {
		name      string
		handle    func(net.Conn)
		max       int64
		length    int
		truncated string
	}{
		{"just fits", reply("identity", body), 1000, 1000, ""},
		{"one too many", reply("identity", body), 999, 999, "length"},
		{"one", reply("identity", body), 1, 1, "length"},
		{"zipped just fits", reply("gzip", zipped), 1000, 1000, ""},
		{"zipped one too many", reply("gzip", zipped), 999, 999, "length"},
		{"whatever comes", reply("identity", body), math.MaxInt64, 1000, ""},
		{"as in the configuration", reply("identity", body), -1, 1000, ""},
		{"no length, just fits", answer(openHead + string(body)), 1000, 1000, ""},
		{"no length, one too many", answer(openHead + string(body)), 999, 999, "length"},
	} {
		for _, byConfig := range []bool{true, false} {
			cfg, req := testConfig(), Request{URL: "http://a.example/", Addr: testAddr, MaxBody: tc.max}
			if byConfig {
				cfg.MaxBodyBytes, cfg.MaxDecodedBytes, req.MaxBody = tc.max, 10, 0 // what has no coding is not decoded
				if strings.HasPrefix(tc.name, "zipped") || tc.max != max(0, min(tc.max, 1<<31)) {
					continue // another bound there, or none
				}
			}
			c := newClient(t, cfg, Deps{Dial: serve(0, tc.handle)})
			res := c.Get(t.Context(), req)
			if res.Err != nil || string(res.Body) != string(body[:tc.length]) || res.Truncated != tc.truncated {
				t.Errorf("%s: err %v, %d bytes, truncated %q", tc.name, res.Err, len(res.Body), res.Truncated)
			}
		}
	}
}

// FuzzResponse feeds arbitrary bytes as an answer: Get ends, and what it returns keeps its bounds.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		okHead + "hello", openHead, "HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n", "HTTP/1.1 103 Early\r\n\r\n" + okHead + "hello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\nContent-Encoding: deflate\r\n\r\nx",
		"HTTP/0.0 +00\n\r\n", "HTTP/2.0 200 OK\r\n\r\nhello",
	} {
		f.Add([]byte(s))
	}
	for _, coding := range []string{"gzip", "br", "zstd", "deflate"} {
		body := pack(f, bytes.Repeat([]byte("hello "), 5000), coding)
		f.Add(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, len(body), body))
	}
	cfg := testConfig()
	cfg.MaxBodyBytes, cfg.MaxDecodedBytes, cfg.MaxHeaderBytes = 4000, 8000, 4096
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newClient(t, cfg, Deps{Dial: serve(0, func(nc net.Conn) {
			// The far end closes; a client that stops early must not hold it up.
			go func() { _, _ = io.Copy(io.Discard, nc) }()
			_, _ = nc.Write(b)
		})})
		defer c.Close()
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
		defer res.Release()
		if (res.Err == nil) != (res.Class == OK) {
			t.Fatalf("class %q with err %v", res.Class, res.Err)
		}
		if res.Err == nil && (res.Status < 200 || res.Status > 999) {
			t.Fatalf("status %d", res.Status)
		}
		if res.WireBytes > cfg.MaxBodyBytes || int64(len(res.Body)) > cfg.MaxDecodedBytes {
			t.Fatalf("%d bytes on the wire, %d decoded", res.WireBytes, len(res.Body))
		}
		if int64(len(res.RawHead)) > 2*cfg.MaxHeaderBytes || int64(len(res.RawBody)) != res.WireBytes {
			t.Fatalf("captured %d and %d bytes of %d", len(res.RawHead), len(res.RawBody), res.WireBytes)
		}
		if res.Truncated != "" && res.Truncated != "length" && res.Truncated != "disconnect" {
			t.Fatalf("truncated %q", res.Truncated)
		}
		switch res.Class {
		case OK, EOF, Protocol, HeaderTooLarge, Decode, Bomb:
		default:
			t.Fatalf("class %q: %v", res.Class, res.Err)
		}
	})
}

// A server that goes silent behind the end of a coded page holds nothing up for long.
func TestSilenceBehindThePage(t *testing.T) {
	page := pack(t, []byte("hello"), "gzip")
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, func(nc net.Conn) {
			answer("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + string(page))(nc)
			hang(nc)
		})})
		if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Err != nil || string(res.Body) != "hello" || res.Truncated != "" || res.Timing.Total != drainTime {
			t.Errorf("%q after %v, %v", res.Body, res.Timing.Total, res.Err)
		}
	})
}
