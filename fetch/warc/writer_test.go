package warc

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var day = time.Date(2026, 5, 4, 3, 2, 1, 987654321, time.UTC)

func testDeps() Deps {
	return Deps{Now: func() time.Time { return day }, Rand: rand.NewChaCha8([32]byte{1})}
}

func testConfig(dir string) Config {
	c := Default()
	c.Dir = dir
	c.Operator = "an operator <mail@example.org>"
	return c
}

func open(t testing.TB, cfg Config) *Writer {
	t.Helper()
	w, err := Open(cfg, testDeps())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func exchange(url, body string) Exchange {
	return Exchange{
		URL:          url,
		Addr:         netip.MustParseAddr("192.0.2.7"),
		Time:         day,
		Request:      []byte("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
		ResponseHead: []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
		Body:         []byte(body),
		Protocol:     "http/1.1",
	}
}

func write(t testing.TB, w *Writer, ex Exchange) {
	t.Helper()
	if err := w.Write(ex); err != nil {
		t.Fatal(err)
	}
}

func closeWriter(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	w := open(t, testConfig(dir))
	ex := exchange("http://example.org/", "<p>hello")
	write(t, w, ex)
	closeWriter(t, w)

	names := archive(t, dir)
	if len(names) != 1 || !strings.Contains(names[0], "/proxima-20260504030201987-00001-") {
		t.Fatalf("files: %v", names)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	rs, err := parse(b)
	if err != nil || len(rs) != 3 {
		t.Fatalf("%d records, %v", len(rs), err)
	}
	info, response, request := rs[0], rs[1], rs[2]
	want := "software: proxima\r\nformat: WARC File Format 1.1\r\n" +
		"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\n" +
		"operator: an operator <mail@example.org>\r\nrobots: RFC 9309\r\n"
	if string(info.block) != want || info.get("Content-Type") != "application/warc-fields" {
		t.Errorf("warcinfo: %q", info.block)
	}
	if got := string(response.block); got != string(ex.ResponseHead)+string(ex.Body) {
		t.Errorf("response: %q", got)
	}
	if !bytes.Equal(request.block, ex.Request) {
		t.Errorf("request: %q", request.block)
	}
	for _, c := range []struct {
		r          record
		name, want string
	}{
		{response, "WARC-Type", "response"},
		{request, "WARC-Type", "request"},
		{response, "WARC-Target-URI", "http://example.org/"},
		{request, "WARC-Target-URI", "http://example.org/"},
		{response, "WARC-Date", "2026-05-04T03:02:01.987654Z"},
		{request, "WARC-Date", "2026-05-04T03:02:01.987654Z"},
		{response, "WARC-IP-Address", "192.0.2.7"},
		{request, "WARC-IP-Address", "192.0.2.7"},
		{response, "WARC-Protocol", "http/1.1"},
		{response, "Content-Type", "application/http;msgtype=response"},
		{request, "Content-Type", "application/http;msgtype=request"},
		{request, "WARC-Concurrent-To", response.get("WARC-Record-ID")},
		{response, "WARC-Payload-Digest", sha1Label(ex.Body)},
		{response, "WARC-Truncated", ""},
	} {
		if got := c.r.get(c.name); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.r.kind, c.name, got, c.want)
		}
	}
	if out, err := exec.Command("gzip", "-t", names[0]).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Log("gzip is not installed: its check is left out")
	} else if err != nil {
		t.Errorf("gzip -t: %v\n%s", err, out)
	}
}

func TestVariants(t *testing.T) {
	const digest256 = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" // of "hello"
	cases := map[string]struct {
		change func(*Config, *Exchange)
		want   map[string]string // fields of the response
		block  string
	}{
		"truncated":        {func(_ *Config, ex *Exchange) { ex.Truncated = TruncatedTime }, map[string]string{"WARC-Truncated": "time"}, ""},
		"IPv6":             {func(_ *Config, ex *Exchange) { ex.Addr = netip.MustParseAddr("2001:db8::1%eth0") }, map[string]string{"WARC-IP-Address": "2001:db8::1"}, ""},
		"mapped address":   {func(_ *Config, ex *Exchange) { ex.Addr = netip.MustParseAddr("::ffff:192.0.2.1") }, map[string]string{"WARC-IP-Address": "192.0.2.1"}, ""},
		"no address":       {func(_ *Config, ex *Exchange) { ex.Addr = netip.Addr{} }, map[string]string{"WARC-IP-Address": ""}, ""},
		"SHA-256":          {func(c *Config, _ *Exchange) { c.Digest = SHA256 }, map[string]string{"WARC-Payload-Digest": digest256}, ""},
		"local time":       {func(_ *Config, ex *Exchange) { ex.Time = ex.Time.In(time.FixedZone("", 3600)) }, map[string]string{"WARC-Date": "2026-05-04T03:02:01.987654Z"}, ""},
		"header in URL":    {func(_ *Config, ex *Exchange) { ex.URL = "http://a/\r\nWARC-Type: warcinfo\r\n\r\n" }, map[string]string{"WARC-Type": "response", "WARC-Target-URI": "http://a/%0D%0AWARC-Type:%20warcinfo%0D%0A%0D%0A"}, ""},
		"brackets and IRI": {func(_ *Config, ex *Exchange) { ex.URL = "<http://ä/\"%20>" }, map[string]string{"WARC-Target-URI": "%3Chttp://%C3%A4/%22%20%3E"}, ""},
		"chunked": {func(_ *Config, ex *Exchange) {
			ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: Transfer-Encoding: b\r\ntransfer-ENCODING : x\r\n\r\n")
		}, nil, "HTTP/1.1 200 OK\r\nX-Crawl-Transfer-Encoding: chunked\r\nA: Transfer-Encoding: b\r\nX-Crawl-transfer-ENCODING : x\r\n\r\nhello"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg, ex := testConfig(dir), exchange("http://example.org/", "hello")
			c.change(&cfg, &ex)
			w := open(t, cfg)
			write(t, w, ex)
			closeWriter(t, w)
			rs := readAll(t, dir)
			if len(rs) != 2 {
				t.Fatalf("%d records", len(rs))
			}
			for name, want := range c.want {
				if got := rs[0].get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if c.block != "" && string(rs[0].block) != c.block {
				t.Errorf("block %q", rs[0].block)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	cases := map[string]func(*Exchange){
		"no URL":                func(ex *Exchange) { ex.URL = "" },
		"endless URL":           func(ex *Exchange) { ex.URL = "http://a/" + strings.Repeat("a", maxURL) },
		"no time":               func(ex *Exchange) { ex.Time = time.Time{} },
		"year of five digits":   func(ex *Exchange) { ex.Time = ex.Time.AddDate(10000, 0, 0) },
		"no head":               func(ex *Exchange) { ex.ResponseHead = nil },
		"not HTTP":              func(ex *Exchange) { ex.ResponseHead = []byte("ICY 200 OK\r\n\r\n") },
		"head without end":      func(ex *Exchange) { ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\nA: b\r\n") },
		"head ends in LF":       func(ex *Exchange) { ex.ResponseHead = []byte("HTTP/1.1 200 OK\n\n") },
		"two heads":             func(ex *Exchange) { ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n") },
		"blank line of LF":      func(ex *Exchange) { ex.ResponseHead = []byte("HTTP/1.1 200 OK\n\nA: b\r\n\r\n") },
		"line of spaces":        func(ex *Exchange) { ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\n \t\r\nA: b\r\n\r\n") },
		"request without end":   func(ex *Exchange) { ex.Request = []byte("GET / HTTP/1.1\r\n") },
		"empty request head":    func(ex *Exchange) { ex.Request = []byte("\r\n\r\n") },
		"unknown truncation":    func(ex *Exchange) { ex.Truncated = "length\r\nA: b" },
		"protocol with a field": func(ex *Exchange) { ex.Protocol = "h2\r\nA: b" },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			w := open(t, testConfig(dir))
			ex := exchange("http://example.org/", "hello")
			change(&ex)
			if err := w.Write(ex); !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v", err)
			}
			closeWriter(t, w)
			if names := archive(t, dir); len(names) != 0 {
				t.Errorf("files %v", names)
			}
		})
	}
}

func TestRevisit(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.RevisitEntries = 2
	w := open(t, cfg)
	first := exchange("http://a.example/?q=\"", "same")
	first.Time = day.Add(-time.Hour)
	write(t, w, first)
	write(t, w, exchange("http://b.example/", "same")) // revisit
	empty := exchange("http://c.example/", "")
	write(t, w, empty)
	write(t, w, empty) // nothing to save
	cut := exchange("http://d.example/", "same")
	cut.Truncated = TruncatedLength
	write(t, w, cut) // says nothing about the page
	write(t, w, exchange("http://e.example/", "one"))
	write(t, w, exchange("http://f.example/", "same")) // revisit, and used again
	write(t, w, exchange("http://g.example/", "two"))  // pushes "one" out
	write(t, w, exchange("http://h.example/", "one"))
	long := exchange("http://i.example/"+strings.Repeat("i", maxRememberedURL), "three")
	write(t, w, long)
	write(t, w, long) // not remembered
	closeWriter(t, w)

	var got []string
	var original, revisit record
	for _, r := range readAll(t, dir) {
		switch r.kind {
		case "request":
			continue
		case "revisit":
			revisit = r
		case "response":
			if original.kind == "" {
				original = r
			}
		}
		got = append(got, r.kind+" "+r.get("WARC-Target-URI")[7:8])
	}
	want := []string{"response a", "revisit b", "response c", "response c", "response d", "response e", "revisit f",
		"response g", "response h", "response i", "response i"}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if string(revisit.block) != string(first.ResponseHead) {
		t.Errorf("block of the revisit: %q", revisit.block)
	}
	for name, want := range map[string]string{
		"WARC-Profile":              "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest",
		"WARC-Refers-To":            original.get("WARC-Record-ID"),
		"WARC-Refers-To-Target-URI": "http://a.example/?q=%22",
		"WARC-Refers-To-Date":       original.get("WARC-Date"),
		"WARC-Payload-Digest":       sha1Label([]byte("same")),
		"WARC-Truncated":            "length",
		"WARC-Target-URI":           "http://f.example/",
	} {
		if got := revisit.get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestPayloadThatWasNotStored: what a write that failed would have archived is no original that a revisit could refer to.
func TestPayloadThatWasNotStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	w := open(t, testConfig(dir))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(exchange("http://a.example/", "same")); err == nil {
		t.Fatal("written to nowhere")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, w, exchange("http://b.example/", "same"))
	closeWriter(t, w)
	if r := readAll(t, dir)[0]; r.kind != "response" || r.get("WARC-Target-URI") != "http://b.example/" {
		t.Errorf("the first record is a %s of %s, want the response of b", r.kind, r.get("WARC-Target-URI"))
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.MaxFileBytes = 3000
	w := open(t, cfg)
	noise := rand.NewChaCha8([32]byte{2})
	sizes := []int{100, 100, 2500, 10, 9000, 9000, 10}
	for i, n := range sizes {
		body := make([]byte, n)
		noise.Read(body)
		write(t, w, exchange(fmt.Sprintf("http://example.org/%d", i), string(body)))
	}
	closeWriter(t, w)
	if err := w.Write(exchange("http://example.org/", "late")); !errors.Is(err, ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	closeWriter(t, w)

	var got []int // exchanges in each file
	for _, name := range archive(t, dir) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := parse(b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, len(rs)/2)
		if int64(len(b)) > cfg.MaxFileBytes && len(rs) != 3 {
			t.Errorf("%s: %d bytes, %d records", name, len(b), len(rs))
		}
	}
	if d := cmp.Diff([]int{2, 1, 1, 1, 1, 1}, got); d != "" {
		t.Error(d)
	}
	readAll(t, dir)
}

func TestConcurrent(t *testing.T) {
	const writers, each = 8, 40
	dir := t.TempDir()
	cfg := testConfig(dir)
	cfg.MaxFileBytes = 20_000
	w := open(t, cfg)
	var wg sync.WaitGroup
	for g := range writers {
		wg.Go(func() {
			for i := range each {
				body := strings.Repeat(fmt.Sprintf("%d.%d ", g, i%10), 50+i)
				if err := w.Write(exchange(fmt.Sprintf("http://example.org/%d/%d", g, i), body)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	closeWriter(t, w)

	seen := map[string]bool{}
	rs := readAll(t, dir)
	for i := 0; i+1 < len(rs); i += 2 {
		page, request := rs[i], rs[i+1]
		if request.get("WARC-Concurrent-To") != page.get("WARC-Record-ID") {
			t.Errorf("records %d and %d do not belong together", i, i+1)
		}
		seen[page.get("WARC-Target-URI")] = true
	}
	if len(rs) != 2*writers*each || len(seen) != writers*each {
		t.Errorf("%d records, %d URLs", len(rs), len(seen))
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, revisits := range []bool{false, true} {
		b.Run(fmt.Sprintf("revisits=%v", revisits), func(b *testing.B) {
			cfg := testConfig(b.TempDir())
			if !revisits {
				cfg.RevisitEntries = 0
			}
			w := open(b, cfg)
			var page strings.Builder
			noise := rand.New(rand.NewPCG(1, 2))
			for page.Len() < 60_000 {
				fmt.Fprintf(&page, "<li><a href=\"/item/%d\">Item number %d</a></li>\n", noise.IntN(1e6), noise.IntN(1e3))
			}
			ex := exchange("http://example.org/", page.String())
			b.SetBytes(int64(len(ex.Body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(ex); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
