package warc

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"proxima/scripts/archive"
)

// TestReadByWarcio reads an archive with warcio, and compares the index with that of warcio.
func TestReadByWarcio(t *testing.T) {
	warcio, err := archive.FindWarcio(t.Context())
	if err != nil {
		t.Skip(err)
	}
	f := begin(t, testConfig())
	hostile := exchange("http://example.org/\r\nWARC-Type: warcinfo\r\n\r\nä", "a\r\n\r\nWARC/1.1\r\nWARC-Type: warcinfo\r\n\r\n\x00\xff\x1f\x8b\x08")
	hostile.ResponseHead = []byte("HTTP/1.1 404 \xffNot here\r\nX-A: \xe4\x00\x01\r\nTransfer-Encoding: chunked\r\n\r\n")
	hostile.Truncated = TruncatedDisconnect
	coded := exchange("https://example.org/coded", "\x1f\x8b\x08not gzip at all")
	coded.ResponseHead = []byte("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
	alone := exchange("http://example.org/alone", "no request")
	alone.Request = nil
	exchanges := []Exchange{
		exchange("http://example.org/", strings.Repeat("hello ", 1000)),
		hostile,
		coded,
		alone,
		exchange("http://example.org/again", strings.Repeat("hello ", 1000)),
		exchange("http://example.org/empty", ""),
		exchange("http://example.org/100%/a|b?c=%zz", "stray"),
		exchange("http://[2001:db8::1]/", "IPv6"),
	}
	for _, ex := range exchanges {
		f.write(ex)
	}
	path := f.save()
	out, err := warcio.Run(t.Context(), "testdata/read.mjs", path)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Version string
		Headers map[string]string
		Status  string
		Payload []byte
		SHA1    string
	}
	kinds := map[string]int{}
	var pages []line
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var l line
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		if l.Version != "WARC/1.1" {
			t.Errorf("version %q", l.Version)
		}
		kind := l.Headers["warc-type"]
		kinds[kind]++
		if kind == "response" || kind == "revisit" {
			pages = append(pages, l)
		}
	}
	if kinds["warcinfo"] != 1 || kinds["request"] != 7 || kinds["response"] != 7 || kinds["revisit"] != 1 {
		t.Fatalf("records %v", kinds)
	}
	for i, ex := range exchanges {
		l := pages[i]
		if got := l.Headers["warc-target-uri"]; got != targetURI(ex.URL) {
			t.Errorf("URL %q, want %q", got, targetURI(ex.URL))
		}
		if got := l.Headers["warc-ip-address"]; got != "192.0.2.7" {
			t.Errorf("%s: address %q", ex.URL, got)
		}
		body := ex.Body
		if l.Headers["warc-type"] == "revisit" {
			body = nil
			if first := pages[0].Headers; l.Headers["warc-refers-to"] != first["warc-record-id"] ||
				l.Headers["warc-refers-to-date"] != first["warc-date"] ||
				l.Headers["warc-payload-digest"] != first["warc-payload-digest"] {
				t.Errorf("revisit: %v", l.Headers)
			}
		}
		if sum := sha1.Sum(body); !bytes.Equal(l.Payload, body) || l.SHA1 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: payload %q, want %q", ex.URL, l.Payload, body)
		}
	}
	if got := pages[1].Headers["warc-truncated"]; got != TruncatedDisconnect {
		t.Errorf("truncated %q", got)
	}
	if !strings.HasPrefix(pages[1].Status, "HTTP/1.1 404") {
		t.Errorf("status %q", pages[1].Status)
	}

	if out, err = warcio.Run(t.Context(), "testdata/index.mjs", path); err != nil {
		t.Fatal(err)
	}
	theirs, err := archive.IndexFields(slices.Collect(strings.Lines(string(out))), "mime")
	ours, e := archive.IndexFields(f.index, "mime")
	if d := cmp.Diff(theirs, ours); d != "" || err != nil || e != nil {
		t.Errorf("%v, %v, (-warcio +ours)\n%s", err, e, d)
	}
}
