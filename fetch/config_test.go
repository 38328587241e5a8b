package fetch

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestConfig(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Config){
		"user_agent":        func(c *Config) { c.UserAgent = "a b" },
		"user_agent ":       func(c *Config) { c.UserAgent = "" },
		"accept_language":   func(c *Config) { c.AcceptLanguage = "a\nb" },
		"contact":           func(c *Config) { c.Contact = "mailto:a@b.example" },
		"contact  ":         func(c *Config) { c.Contact = "http://a.example/a b" },
		"contact   ":        func(c *Config) { c.Contact = "http://a.example/(a" },
		"contact ":          func(c *Config) { c.Contact = "http://a.example/) evil" },
		"from":              func(c *Config) { c.From = "Bot <bot@example.org>" },
		"connect_timeout":   func(c *Config) { c.ConnectTimeout = 0 },
		"tls_timeout":       func(c *Config) { c.TLSTimeout = -1 },
		"header_timeout":    func(c *Config) { c.HeaderTimeout = 0 },
		"total_timeout":     func(c *Config) { c.TotalTimeout = 0 },
		"grace_time":        func(c *Config) { c.GraceTime = 0 },
		"idle_timeout":      func(c *Config) { c.IdleTimeout = 0 },
		"min_rate":          func(c *Config) { c.MinRate = -1 },
		"max_body_bytes":    func(c *Config) { c.MaxBodyBytes = 0 },
		"max_decoded_bytes": func(c *Config) { c.MaxDecodedBytes = 1 << 40 },
		"large_bodies":      func(c *Config) { c.LargeBodies = 0 },
		"max_header_bytes":  func(c *Config) { c.MaxHeaderBytes = 1 },
		"idle_conns":        func(c *Config) { c.IdleConns = 0 },
		"max_servers":       func(c *Config) { c.MaxServers = 0 },
		"allow_prefixes":    func(c *Config) { c.AllowPrefixes = []string{"10.0.0.0"} },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := New(cfg, Deps{}); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(field)) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestNetwork(t *testing.T) {
	for class, want := range map[Class]bool{
		OK: false, Refused: true, Unreachable: true, TimeoutConnect: true, TimeoutTLS: true, TLS: true, TimeoutHeader: true,
		TimeoutTotal: false, TooSlow: false, Reset: true, EOF: true, Protocol: false, HeaderTooLarge: false, Decode: false,
		Bomb: false, ForbiddenAddress: false, NoIdentity: false, Canceled: false, Other: false,
	} {
		if class.Network() != want {
			t.Errorf("%q: %v", class, !want)
		}
	}
}

func TestIdentityOnWire(t *testing.T) {
	cfg := Default()
	cfg.Contact, cfg.From, cfg.AcceptLanguage = "https://example.org/bot", "bot@example.org", "en, *;q=0.5"
	heads := make(chan string, 1)
	c := newClient(t, cfg, Deps{Dial: serve(0, func(nc net.Conn) {
		head, _ := requestHeadOf(bufio.NewReader(nc))
		heads <- head
		_, _ = io.WriteString(nc, okHead+"hello")
	})})
	res := c.Get(t.Context(), Request{URL: "http://a.example/robots.txt", Addr: netip.MustParseAddr("8.8.8.8"), Accept: "text/plain"})
	if res.Err != nil {
		t.Fatal(res.Err)
	}
	want := "GET /robots.txt HTTP/1.1\r\nHost: a.example\r\nUser-Agent: Proxima/1.0 (+https://example.org/bot)\r\n" +
		"Accept: text/plain\r\nAccept-Encoding: gzip, br, zstd\r\nAccept-Language: en, *;q=0.5\r\nFrom: bot@example.org\r\n\r\n"
	if head := <-heads; head != want {
		t.Errorf("sent %q, want %q", head, want)
	}
}

func TestCapture(t *testing.T) {
	for _, tc := range []struct{ name, sent, want string }{
		{"as sent", "HTTP/1.1 200 ok then\r\nx-ODD:  1\r\ncontent-length: 5\r\n\r\nhello", ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n", ""},
		{"informational", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + okHead + "hello", okHead + "hello"},
		{"no full head", "HTTP/1.1 20", ""},
		{"empty", "", ""},
	} {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, answer(tc.sent))})
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
		if tc.want == "" {
			tc.want = tc.sent
		}
		if string(res.RawResponse) != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, res.RawResponse, tc.want)
		}
		res.Release()
		if res.Body != nil || res.RawResponse != nil {
			t.Errorf("%s: released, yet there", tc.name)
		}
	}
	cfg := testConfig()
	cfg.MaxBodyBytes, cfg.MaxHeaderBytes = 1000, 2000
	c := newClient(t, cfg, Deps{Dial: serve(0, flood(openHead, "a"))})
	res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
	if len(res.Body) != 1000 || len(res.RawResponse) < 1000 || len(res.RawResponse) > 3000 {
		t.Errorf("body of %d bytes, %d captured", len(res.Body), len(res.RawResponse))
	}
}
