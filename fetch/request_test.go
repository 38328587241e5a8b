package fetch

import (
	"context"
	"crypto/ed25519"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// Every number is taken at its bounds, and refused beyond them.
func TestConfigBounds(t *testing.T) {
	cfg := Default()
	for name, n := range map[string]struct {
		set        func(int64)
		least, top int64
	}{
		"min_rate": {func(n int64) { cfg.MinRate = n }, 0, 1 << 40}, "max_body_bytes": {func(n int64) { cfg.MaxBodyBytes = n }, 1, 1 << 31},
		"max_decoded_bytes": {func(n int64) { cfg.MaxDecodedBytes = n }, 1, 1 << 31}, "large_bodies": {func(n int64) { cfg.LargeBodies = int(n) }, 1, 1 << 20},
		"max_header_bytes": {func(n int64) { cfg.MaxHeaderBytes = n }, 1024, 1 << 30}, "idle_conns": {func(n int64) { cfg.IdleConns = int(n) }, 1, 1 << 20},
		"max_servers": {func(n int64) { cfg.MaxServers = int(n) }, 1, 1 << 24}, "max_size": {func(n int64) { cfg.MaxSize = n }, 0, 1 << 31},
		"timeout": {func(n int64) { cfg.IdleTimeout = time.Duration(n) }, 1, 1 << 40},
	} {
		for _, c := range []struct {
			n    int64
			good bool
		}{{n.least - 1, false}, {n.top + 1, name == "timeout"}, {n.top, true}, {n.least, true}} {
			n.set(c.n)
			if err := cfg.Validate(); (err == nil) != c.good {
				t.Errorf("%s %d: %v", name, c.n, err)
			}
		}
	}
	for name, bad := range map[string]func(*Config){
		"signature agent": func(c *Config) { c.SignatureAgent = "http://a b" }, "content types": func(c *Config) { c.ContentTypes = []string{"text"} },
		"contact without a host": func(c *Config) { c.Contact = "http://" }, "contact of another scheme": func(c *Config) { c.Contact = "ftp://a.example/" },
	} {
		cfg := Default()
		if bad(&cfg); cfg.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	cfg = Default()
	for _, known := range []struct {
		contact, from string
		want          bool
	}{{"", "", false}, {"http://a.example/", "", false}, {"", "a@b.example", false}, {"http://a.example/", "a@b.example", true}} {
		if cfg.Contact, cfg.From = known.contact, known.from; cfg.identified() != known.want || cfg.Validate() != nil {
			t.Errorf("%+v: %v", known, !known.want)
		}
	}
}

func TestNamesOfAgentsAndTypes(t *testing.T) {
	for agent, good := range map[string]bool{"a": true, "a/1": true, "": false, "a b": false, "a/ 1": false, "/1": false, "a/": true} {
		if err := CheckAgent(agent); (err == nil) != good {
			t.Errorf("%q: %v", agent, err)
		}
	}
	for of, good := range map[string]bool{"text/html": true, "text/*": true, "text": false, "*/*": false, "text/": false, "/html": false, "te xt/html": false, "text/ht ml": false} {
		if err := CheckTypes([]string{"a/b", of}); (err == nil) != good {
			t.Errorf("%q: %v", of, err)
		}
	}
}

// What a request asks for beside its URL.
func TestRequestOfItsOwn(t *testing.T) {
	cfg := testConfig()
	cfg.MaxBodyBytes, cfg.Contact = 100, "http://a.example/"
	c := newClient(t, cfg, Deps{})
	for _, l := range []struct {
		body, wire, want int64
	}{{0, 0, 100}, {50, 0, 50}, {200, 0, 200}, {0, 60, 60}, {50, 60, 50}, {0, 200, 100}, {0, -1, 100}} {
		if got := c.limit(&Request{MaxBody: l.body, MaxWire: l.wire}); got != l.want {
			t.Errorf("a body of at most %d, %d on the wire, is cut at %d", l.body, l.wire, got)
		}
	}
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	usual := c.headerOf(&Request{})
	for _, r := range []struct {
		req  Request
		want map[string]string
	}{
		{Request{}, nil},
		{Request{Accept: "text/plain"}, map[string]string{"Accept": "text/plain"}},
		{Request{Agent: "other/2"}, map[string]string{"User-Agent": "other/2 (+http://a.example/)"}},
		{Request{Header: http.Header{"Cookie": {"a=b"}, "Accept": {"x/y"}}}, map[string]string{"Cookie": "a=b", "Accept": "x/y"}},
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
	var signature string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signature = r.Header.Get("Signature")
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
	if err := c.SetKey(key); err != nil {
		t.Fatal(err)
	}
	res := c.Get(context.Background(), Request{URL: s.URL, Addr: testAddr})
	if res.Release(); signature == "" {
		t.Error("not signed")
	}
}

// The ports that browsers block, by their sum and number as the Fetch standard has them, and those beside them.
func TestBadPortsAreThoseOfTheStandard(t *testing.T) {
	count, sum := 0, 0
	for port := range 1 << 16 {
		if BadPort(uint16(port)) {
			count, sum = count+1, sum+port
		}
	}
	if count != len(badPorts) || count != 83 || sum != 115595 {
		t.Errorf("%d ports, %d in all", count, sum)
	}
}
