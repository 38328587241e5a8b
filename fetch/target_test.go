package fetch

import (
	"bufio"
	"context"
	"net"
	"strings"
	"testing"
)

func TestURLUnchangedOnWire(t *testing.T) {
	for _, tc := range []struct{ url, line, host string }{
		{"http://a.example/", "/", "a.example"},
		{"http://a.example/?", "/?", "a.example"},
		{"http://a.example/?a|b[]={}^'`\"", "/?a|b[]={}^'`\"", "a.example"},
		{"http://a.example/a|b/[c]/'d'/%zz/%", "/a|b/[c]/'d'/%zz/%", "a.example"},
		{"http://a.example/%c3%a9%C3%A9%2f%2F%41", "/%c3%a9%C3%A9%2f%2F%41", "a.example"},
		{"http://a.example//b//c?d#e", "//b//c?d", "a.example"},
		{"http://a.example//b/%2F?", "//b/%2F?", "a.example"},
		{"http://a.example//b|%zz?q", "http://a.example//b|%zz?q", "a.example"}, // absolute form
		{"http://a.example/a:b@c;d=1,2!$&()*+~", "/a:b@c;d=1,2!$&()*+~", "a.example"},
		{"http://a.example:8080/*", "/*", "a.example:8080"},
		{"http://u:p@a.example/x", "/x", "a.example"},
		{"http://u@v@a.example/x", "/x", "a.example"},
		{"http://xn--bcher-kva.example/x", "/x", "xn--bcher-kva.example"},
		{"http://a_b.example./x\\y", "/x\\y", "a_b.example."},
		{"http://[2001:db8::1]:81/?x=http://b/?#f", "/?x=http://b/?", "[2001:db8::1]:81"},
		{"http://a.example?x", "/?x", "a.example"},
	} {
		heads := make(chan string, 1)
		c := newClient(t, testConfig(), Deps{Dial: serve(0, func(nc net.Conn) {
			head, _ := requestHeadOf(bufio.NewReader(nc))
			heads <- head
			_, _ = nc.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n"))
		})})
		res := c.Get(t.Context(), Request{URL: tc.url, Addr: testAddr, Capture: true})
		if res.Err != nil || res.Status != 204 {
			t.Errorf("%s: %+v", tc.url, res.Err)
			continue
		}
		head := <-heads
		want := "GET " + tc.line + " HTTP/1.1\r\nHost: " + tc.host + "\r\n"
		if !strings.HasPrefix(head, want) {
			t.Errorf("%s: sent %q, want %q", tc.url, head, want)
		}
		if string(res.RawRequest) != head {
			t.Errorf("%s: captured %q, sent %q", tc.url, res.RawRequest, head)
		}
		for _, h := range []string{"User-Agent: Proxima/1.0\r\n", "Accept-Encoding: gzip, br, zstd\r\n", "Accept: text/html"} {
			if strings.Count(head, h) != 1 {
				t.Errorf("%s: %q in %q", tc.url, h, head)
			}
		}
	}
}

func TestBadURL(t *testing.T) {
	for _, u := range []string{
		"", "http", "http://", "http:///x", "ftp://a.example/", "//a.example/", "http://a.example/a b", "http://a.example/\r\nX: y",
		"http://a.example/\x00", "http://é.example/", "HTTP://a.example/", "http://u@/x", "http://a.example:x/", "http://a.example:99999/",
		"http://a.example/" + strings.Repeat("x", maxURL), "javascript:alert(1)",
	} {
		c := newClient(t, testConfig(), Deps{Dial: func(context.Context, string, string) (net.Conn, error) {
			t.Errorf("%.50q is dialled", u)
			return nil, errTest
		}})
		if res := c.Get(t.Context(), Request{URL: u, Addr: testAddr}); res.Class != Other || res.Err == nil || res.Status != 0 || res.Timing.Start.IsZero() {
			t.Errorf("%.50q: class %q, err %v", u, res.Class, res.Err)
		}
	}
}

// A URL has up to 16 KiB of visible ASCII.
func TestURLsAtTheBounds(t *testing.T) {
	for url, fine := range map[string]bool{
		"http://a.example/" + strings.Repeat("x", 16<<10-17): true, "http://a.example/" + strings.Repeat("x", 16<<10-16): false,
		"http://a.example/!": true, "http://a.example/~": true, "http://a.example/\x7f": false, "http://a.example/ ": false,
		"http://a.example:65535/": true, "http://a.example:65536/": false,
	} {
		if _, err := target(url); (err == nil) != fine {
			t.Errorf("%.40q of %d bytes: %v", url, len(url), err)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"http://a.example//b|c?d#e", "https://a/%zz", "http://[::1]:1/?", "http://a//%2f/", "http://a*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := target(raw)
		if err != nil {
			return
		}
		// What goes over the wire is the tail of the URL, byte for byte.
		rest, _, _ := strings.Cut(raw, "#")
		uri := strings.TrimPrefix(u.RequestURI(), u.Scheme+"://"+u.Host)
		if !strings.HasSuffix(rest, uri) && !strings.HasSuffix(rest, strings.TrimPrefix(uri, "/")) {
			t.Fatalf("%q is sent as %q", raw, uri)
		}
		if !strings.HasPrefix(uri, "/") || strings.ContainsAny(uri, " \r\n") || strings.ContainsAny(u.Host, "@/ ?#\r\n") || u.Host == "" {
			t.Fatalf("%q: host %q, uri %q", raw, u.Host, uri)
		}
	})
}
