package fetch

import (
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
		head, res := sent(t, testConfig(), Request{URL: tc.url, Addr: testAddr, Capture: true})
		want := "GET " + tc.line + " HTTP/1.1\r\nHost: " + tc.host + "\r\n"
		if !strings.HasPrefix(head, want) {
			t.Errorf("%s: sent %q, want %q", tc.url, head, want)
		}
		if string(res.RawRequest) != head {
			t.Errorf("%s: captured %q, sent %q", tc.url, res.RawRequest, head)
		}
	}
}

// A URL has up to 16 KiB of visible ASCII. What is none is not dialled.
func TestBadURL(t *testing.T) {
	const most = 16 << 10
	long := "http://a.example/" + strings.Repeat("x", most)
	for _, u := range []string{long[:most], "http://a.example/!", "http://a.example/~", "http://a.example:65535/"} {
		if _, err := target(u); err != nil {
			t.Errorf("%.50q of %d bytes: %v", u, len(u), err)
		}
	}
	for _, u := range []string{
		"", "http", "http://", "http:///x", "ftp://a.example/", "//a.example/", "http://a.example/a b", "http://a.example/\r\nX: y",
		"http://a.example/\x00", "http://é.example/", "HTTP://a.example/", "http://u@/x", "http://a.example:x/", "http://a.example:99999/",
		long[:most+1], "javascript:alert(1)", "http://a.example/\x7f", "http://a.example/ ", "http://a.example:65536/",
	} {
		var conns open
		c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, hang))})
		res := c.Get(t.Context(), Request{URL: u, Addr: testAddr})
		if res.Class != Other || res.Err == nil || res.Status != 0 || res.Timing.Start.IsZero() || conns.made.Load() > 0 {
			t.Errorf("%.50q: class %q, err %v, %d dials", u, res.Class, res.Err, conns.made.Load())
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
