package fetch

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"proxima/fetch/sign"
)

// What a request asks for beside its URL.
func TestRequestOfItsOwn(t *testing.T) {
	cfg := testConfig()
	cfg.MaxBodyBytes, cfg.Contact = 100, "http://a.example/"
	c := newClient(t, cfg, Deps{})
	for _, l := range []struct {
		body, wire, want int64
	}{{0, 0, 100}, {50, 0, 50}, {200, 0, 200}, {0, 60, 60}, {50, 60, 50}, {200, 60, 60}, {0, 200, 100}, {0, -1, 100}} {
		if got := c.limit(&Request{MaxBody: l.body, MaxWire: l.wire}); got != l.want {
			t.Errorf("a body of at most %d, %d on the wire, is cut at %d", l.body, l.wire, got)
		}
	}
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	usual := c.headerOf(&Request{}).Clone()
	for _, r := range []struct {
		req  Request
		want map[string]string
	}{
		{Request{}, nil},
		{Request{Accept: "text/plain"}, map[string]string{"Accept": "text/plain"}},
		{Request{Agent: "other/2"}, map[string]string{"User-Agent": "other/2 (+http://a.example/)"}},
		{Request{Header: http.Header{"Cookie": {"a=b"}, "Accept": {"x/y"}}}, map[string]string{"Cookie": "a=b", "Accept": "x/y"}},
		{Request{Accept: "text/plain", Agent: "other/2", Header: http.Header{"Accept": {"x/y"}, "User-Agent": {"z"}}}, map[string]string{"Accept": "x/y", "User-Agent": "z"}},
		{Request{IfNoneMatch: `"x"`}, map[string]string{"If-None-Match": `"x"`}},
		{Request{IfModifiedSince: since}, map[string]string{"If-Modified-Since": "Sun, 01 Mar 2026 11:00:00 GMT"}},
	} {
		want := usual.Clone()
		for key, value := range r.want {
			want.Set(key, value)
		}
		if got := c.headerOf(&r.req); !maps.EqualFunc(got, want, func(a, b []string) bool { return len(a) == len(b) && a[0] == b[0] }) {
			t.Errorf("%+v has the header %v, want %v", r.req, got, want)
		}
	}
}

// The head of an answer says whether its body is wanted, and requests are signed once there is a key.
func TestWantedAndSigned(t *testing.T) {
	var signature, by, host string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signature, by, host = r.Header.Get("Signature"), r.Header.Get("Signature-Input"), r.Host
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Content-Length", "5")
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("image"))
	}))
	defer s.Close()
	cfg := testConfig()
	c := newClient(t, cfg, Deps{})
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	if err := c.SetKey(key); err != nil {
		t.Fatal(err)
	}
	asked := 0
	unwanted := errors.New("not this")
	for _, want := range []error{nil, unwanted} {
		res := c.Get(context.Background(), Request{URL: s.URL, Addr: testAddr, Wanted: func(status int, h http.Header, length int64) error {
			if asked++; status != http.StatusAccepted || h.Get("Content-Type") != "image/png" || length != 5 {
				t.Errorf("asked about %d, %v, %d bytes", status, h, length)
			}
			return want
		}})
		if body := string(res.Body); want == nil && (res.Class != OK || body != "image") || want != nil && (res.Class != Unwanted || body != "" || !errors.Is(res.Err, unwanted)) {
			t.Errorf("wanted %v: %q, %v, %v", want, body, res.Class, res.Err)
		}
		res.Release()
	}
	if asked != 2 || signature != "" {
		t.Errorf("asked %d times; signed %q", asked, signature)
	}
	cfg.SignatureAgent = "https://a.example"
	c = newClient(t, cfg, Deps{})
	for i, key := range []ed25519.PrivateKey{key, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))} {
		if err := c.SetKey(key); err != nil {
			t.Fatal(err)
		}
		res := c.Get(context.Background(), Request{URL: s.URL, Addr: testAddr})
		public := key.Public().(ed25519.PublicKey)
		bits, _ := base64.StdEncoding.DecodeString(strings.TrimSuffix(strings.TrimPrefix(signature, "sig1=:"), ":"))
		base := "\"@authority\": " + host + "\n\"signature-agent\";key=\"sig1\": \"https://a.example\"\n\"@signature-params\": " + strings.TrimPrefix(by, "sig1=")
		if res.Release(); !ed25519.Verify(public, []byte(base), bits) || !strings.Contains(by, sign.Thumbprint(public)) {
			t.Errorf("key %d: signed %q by %q", i, signature, by)
		}
	}
}

func TestIdentityOnWire(t *testing.T) {
	cfg := Default()
	cfg.Contact, cfg.From, cfg.AcceptLanguage = "https://example.org/bot", "bot@example.org", "en, *;q=0.5"
	head, _ := sent(t, cfg, Request{URL: "http://a.example/robots.txt", Addr: netip.MustParseAddr("8.8.8.8"), Accept: "text/plain"})
	want := "GET /robots.txt HTTP/1.1\r\nHost: a.example\r\nAccept: text/plain\r\nAccept-Encoding: gzip, br, zstd\r\n" +
		"Accept-Language: en, *;q=0.5\r\nFrom: bot@example.org\r\nUser-Agent: Proxima/1.0 (+https://example.org/bot)\r\n\r\n"
	if head != want {
		t.Errorf("sent %q, want %q", head, want)
	}
}

func TestCapture(t *testing.T) {
	const odd, chunked = "HTTP/1.1 200 ok then\r\nx-ODD:  1\r\ncontent-length: 5\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, tc := range []struct{ name, sent, head, body string }{
		{"as sent", odd + "hello", odd, "hello"},
		{"more than its length", odd + "hello\r\nmore", odd, "hello"},
		{"less than its length", odd + "hel", odd, "hel"},
		{"chunks", chunked + "5;x=y\r\nhello\r\n0\r\n\r\n", chunked, "hello"},
		{"cut chunk", chunked + "5\r\nhel", chunked, "hel"},
		{"informational", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okHead + "hello", okHead, "hello"},
		{"another protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\nhello", "HTTP/1.1 101 Switching Protocols\r\n\r\n", ""},
		{"LF alone", "HTTP/1.1 200 OK\nServer: x\n\nhello\r\n\r\nworld", "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", "hello\r\n\r\nworld"},
		{"no full head", "HTTP/1.1 20", "", ""},
		{"empty", "", "", ""},
	} {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, func(nc net.Conn) {
			first := len(tc.sent) / 4
			answer(tc.sent[:first])(nc)
			_, _ = io.WriteString(nc, tc.sent[first:])
		})})
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
		if string(res.RawHead) != tc.head || string(res.RawBody) != tc.body {
			t.Errorf("%s: %q and %q, want %q and %q", tc.name, res.RawHead, res.RawBody, tc.head, tc.body)
		}
		res.Release()
		if res.Body != nil || res.RawHead != nil || res.RawBody != nil {
			t.Errorf("%s: released, yet there", tc.name)
		}
	}
	cfg := testConfig()
	cfg.MaxBodyBytes, cfg.MaxHeaderBytes = 1000, 2000
	c := newClient(t, cfg, Deps{Dial: serve(0, flood(openHead, "a"))})
	longest := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2000-43) + "\r\nContent-Length: 5\r\n\r\n"
	brief := newClient(t, cfg, Deps{Dial: serve(0, answer(longest+"hello"))})
	if res := brief.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true}); len(longest) != 2000 || res.Err != nil || string(res.RawHead) != longest {
		t.Errorf("of %d bytes %d are captured, %v", len(longest), len(res.RawHead), res.Err)
	}
	res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
	if len(res.Body) != 1000 || len(res.RawBody) != 1000 || string(res.RawHead) != openHead {
		t.Errorf("body of %d bytes, %d captured, behind %q", len(res.Body), len(res.RawBody), res.RawHead)
	}
}
