package warc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var day = time.Date(2026, 5, 4, 3, 2, 1, 987654321, time.UTC)

func testConfig() Config {
	return Config{Software: "proxima", Operator: "an operator <mail@example.org>", Revisits: 1000}
}

// file is a WARC file with its index, in memory.
type file struct {
	*Encoder
	t     testing.TB
	name  string
	bytes []byte
	index []string
}

func begin(t testing.TB, cfg Config) *file {
	t.Helper()
	e, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &file{Encoder: e, t: t, name: "test-1.warc.gz"}
	f.bytes = e.Info(f.name, day)
	return f
}

func (f *file) write(ex Exchange) {
	f.t.Helper()
	r, err := f.Encode(ex)
	if err != nil {
		f.t.Fatal(err)
	}
	f.store(r)
}

func (f *file) store(r *Records) {
	f.index = append(f.index, IndexLine(r.Index, int64(len(f.bytes)), f.name))
	f.bytes = append(f.bytes, r.Bytes...)
	r.Stored()
}

// save writes the file into a directory.
func (f *file) save() (path string) {
	f.t.Helper()
	path = filepath.Join(f.t.TempDir(), f.name)
	if err := os.WriteFile(path, f.bytes, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// records parses the file, and checks that it begins with its warcinfo, which is left out.
func (f *file) records() []record {
	f.t.Helper()
	rs, err := parse(f.bytes)
	if err != nil || len(rs) == 0 || rs[0].kind != "warcinfo" || rs[0].get("WARC-Filename") != f.name {
		f.t.Fatalf("the file does not begin with its warcinfo: %+v, %v", rs, err)
	}
	return rs[1:]
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

func TestRecords(t *testing.T) {
	f := begin(t, testConfig())
	ex := exchange("http://example.org/", "<p>hello")
	f.write(ex)
	rs, err := parse(f.bytes)
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
	if out, err := exec.Command("gzip", "-t", f.save()).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Log("gzip is not installed: its check is left out")
	} else if err != nil {
		t.Errorf("gzip -t: %v\n%s", err, out)
	}
}

func TestVariants(t *testing.T) {
	cases := map[string]struct {
		change func(*Exchange)
		want   map[string]string // fields of the response
		block  string
	}{
		"truncated":        {func(ex *Exchange) { ex.Truncated = TruncatedTime }, map[string]string{"WARC-Truncated": "time"}, ""},
		"IPv6":             {func(ex *Exchange) { ex.Addr = netip.MustParseAddr("2001:db8::1%eth0") }, map[string]string{"WARC-IP-Address": "2001:db8::1"}, ""},
		"mapped address":   {func(ex *Exchange) { ex.Addr = netip.MustParseAddr("::ffff:192.0.2.1") }, map[string]string{"WARC-IP-Address": "192.0.2.1"}, ""},
		"no address":       {func(ex *Exchange) { ex.Addr = netip.Addr{} }, map[string]string{"WARC-IP-Address": ""}, ""},
		"local time":       {func(ex *Exchange) { ex.Time = ex.Time.In(time.FixedZone("", 3600)) }, map[string]string{"WARC-Date": "2026-05-04T03:02:01.987654Z"}, ""},
		"header in URL":    {func(ex *Exchange) { ex.URL = "http://a/\r\nWARC-Type: warcinfo\r\n\r\n" }, map[string]string{"WARC-Type": "response", "WARC-Target-URI": "http://a/%0D%0AWARC-Type:%20warcinfo%0D%0A%0D%0A"}, ""},
		"brackets and IRI": {func(ex *Exchange) { ex.URL = "<http://ä/\"%20>" }, map[string]string{"WARC-Target-URI": "%3Chttp://%C3%A4/%22%20%3E"}, ""},
		"chunked": {func(ex *Exchange) {
			ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nA: Transfer-Encoding: b\r\ntransfer-ENCODING : x\r\n\r\n")
		}, nil, "HTTP/1.1 200 OK\r\nX-Crawl-Transfer-Encoding: chunked\r\nA: Transfer-Encoding: b\r\nX-Crawl-transfer-ENCODING : x\r\n\r\nhello"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ex := exchange("http://example.org/", "hello")
			c.change(&ex)
			f := begin(t, testConfig())
			f.write(ex)
			rs := f.records()
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
		"protocol with a space": func(ex *Exchange) { ex.Protocol = "h 2" },
		"protocol with DEL":     func(ex *Exchange) { ex.Protocol = "h\x7f2" },
		"long protocol":         func(ex *Exchange) { ex.Protocol = strings.Repeat("h", 33) },
		"year zero":             func(ex *Exchange) { ex.Time = ex.Time.AddDate(-2026, 0, 0) },
		"URL beyond 64 KiB":     func(ex *Exchange) { ex.URL = "http://a/" + strings.Repeat("a", 64<<10-8) },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			ex := exchange("http://example.org/", "hello")
			change(&ex)
			if _, err := begin(t, testConfig()).Encode(ex); !errors.Is(err, ErrInvalid) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// An exchange at all bounds is archived.
func TestExchangeAtTheBounds(t *testing.T) {
	for _, year := range []int{1, 9999} {
		ex := exchange("http://a/"+strings.Repeat("a", 64<<10-9), "hello")
		ex.Time, ex.Protocol, ex.Request = ex.Time.AddDate(year-2026, 0, 0), "!~"+strings.Repeat("h", 30), nil
		f := begin(t, testConfig())
		f.write(ex)
		if rs := f.records(); len(rs) != 1 || rs[0].get("WARC-Target-URI") != ex.URL || rs[0].get("WARC-Protocol") != ex.Protocol {
			t.Errorf("year %d: %d records", year, len(rs))
		}
	}
}

// A revisit refers to a payload, and never to another revisit, though the payload is forgotten while the revisit is written.
func TestNoRevisitOfARevisit(t *testing.T) {
	cfg := testConfig()
	cfg.Revisits = 1
	f := begin(t, cfg)
	f.write(exchange("http://a.example/", "same"))
	revisit, err := f.Encode(exchange("http://b.example/", "same"))
	if err != nil {
		t.Fatal(err)
	}
	f.write(exchange("http://c.example/", "other")) // pushes "same" out
	f.store(revisit)
	f.write(exchange("http://d.example/", "same"))
	var kinds []string
	for _, r := range f.records() {
		if r.kind != "request" {
			kinds = append(kinds, r.kind)
		}
	}
	if want := []string{"response", "response", "revisit", "response"}; !cmp.Equal(kinds, want) {
		t.Errorf("%q, want %q", kinds, want)
	}
}

func TestRevisit(t *testing.T) {
	cfg := testConfig()
	cfg.Revisits = 2
	f := begin(t, cfg)
	first := exchange("http://a.example/?q=\"", "same")
	first.Time = day.Add(-time.Hour)
	f.write(first)
	f.write(exchange("http://b.example/", "same")) // revisit
	empty := exchange("http://c.example/", "")
	f.write(empty)
	f.write(empty) // nothing to save
	cut := exchange("http://d.example/", "same")
	cut.Truncated = TruncatedLength
	f.write(cut) // says nothing about the page
	f.write(exchange("http://e.example/", "one"))
	f.write(exchange("http://f.example/", "same")) // revisit, and used again
	f.write(exchange("http://g.example/", "two"))  // pushes "one" out
	f.write(exchange("http://h.example/", "one"))
	long := exchange("http://i.example/"+strings.Repeat("i", maxRememberedURL), "three")
	f.write(long)
	f.write(long) // not remembered
	for range 2 { // remembered: its URL has 1,024 bytes
		f.write(exchange("http://j.example/"+strings.Repeat("j", 1024-17), "four"))
	}
	var got []string
	var original, revisit record
	for _, r := range f.records() {
		switch r.kind {
		case "request":
			continue
		case "revisit":
			if r.get("WARC-Target-URI") == "http://f.example/" {
				revisit = r
			}
		case "response":
			if original.kind == "" {
				original = r
			}
		}
		got = append(got, r.kind+" "+r.get("WARC-Target-URI")[7:8])
	}
	want := []string{"response a", "revisit b", "response c", "response c", "response d", "response e", "revisit f",
		"response g", "response h", "response i", "response i", "response j", "revisit j"}
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

// TestPayloadThatWasNotStored encodes a payload again that was not stored. There is nothing that a revisit could refer to.
func TestPayloadThatWasNotStored(t *testing.T) {
	f := begin(t, testConfig())
	if _, err := f.Encode(exchange("http://a.example/", "same")); err != nil {
		t.Fatal(err)
	}
	f.write(exchange("http://b.example/", "same"))
	if r := f.records()[0]; r.kind != "response" || r.get("WARC-Target-URI") != "http://b.example/" {
		t.Errorf("the first record is a %s of %s, want the response of b", r.kind, r.get("WARC-Target-URI"))
	}
}

func TestConcurrent(t *testing.T) {
	const writers, each = 8, 40
	f := begin(t, testConfig())
	var wg sync.WaitGroup
	var mu sync.Mutex
	for g := range writers {
		wg.Go(func() {
			for i := range each {
				body := strings.Repeat(fmt.Sprintf("%d.%d ", g, i%10), 50+i)
				r, err := f.Encode(exchange(fmt.Sprintf("http://example.org/%d/%d", g, i), body))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				f.store(r)
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	seen := map[string]bool{}
	rs := f.records()
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

func TestConfig(t *testing.T) {
	if _, err := New(Config{Software: "~", Operator: " ", Revisits: 1}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}); err == nil {
		t.Error("an encoder without memory is made")
	}
	for _, bad := range []string{"a\r\nb: c", "\x00", "a\x1f", "a\x7f"} {
		if _, err := New(Config{Software: bad}); err == nil || !strings.Contains(err.Error(), " software: ") {
			t.Errorf("software %q: error %v", bad, err)
		}
		if _, err := New(Config{Operator: bad}); err == nil || !strings.Contains(err.Error(), " operator: ") {
			t.Errorf("operator %q: error %v", bad, err)
		}
	}
}

// TestIndex follows each line of the index to its record.
func TestIndex(t *testing.T) {
	f := begin(t, testConfig())
	for _, u := range []string{"http://www.Example.org/B?y=2&x=1", "https://example.org:8443/ä", "http://127.0.0.1:8080",
		"http://www2.example.org/100%/a|b?c=%zz", "http://[2001:db8::1]/"} {
		ex := exchange(u, "body of "+u)
		ex.Time = ex.Time.In(time.FixedZone("elsewhere", 3600))
		ex.ResponseHead = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n")
		f.write(ex)
	}
	f.write(exchange("http://again.example/", "body of http://127.0.0.1:8080"))
	keys := []string{"org,example)/b?x=1&y=2", "org,example:8443)/%c3%a4", "1,0,0,127:8080)/", "org,example)/100%/a|b?c=%zz", "[2001:db8::1])/",
		"example,again)/"}
	for i, line := range f.index {
		var l struct{ URL, Mime, Status, Digest, Length, Offset, Filename string }
		key, rest, _ := strings.Cut(line, " ")
		at, text, _ := strings.Cut(rest, " ")
		if err := json.Unmarshal([]byte(text), &l); err != nil || key != keys[i] || at != "20260504030201" || !strings.HasSuffix(line, "}\n") {
			t.Fatalf("%v: %q, want the key %q", err, line, keys[i])
		}
		offset, _ := strconv.Atoi(l.Offset)
		length, _ := strconv.Atoi(l.Length)
		rs, err := parse(f.bytes[offset : offset+length])
		if err != nil || len(rs) != 1 || rs[0].get("WARC-Target-URI") != l.URL || rs[0].get("WARC-Payload-Digest") != "sha1:"+l.Digest {
			t.Errorf("%v: %q leads to %+v", err, line, rs)
		}
		mime := "text/html"
		if i == len(keys)-1 {
			mime = "warc/revisit"
		}
		if l.Mime != mime || l.Status != "200" || l.Filename != f.name {
			t.Errorf("%q", line)
		}
	}
}
