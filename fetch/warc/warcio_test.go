package warc

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// warcioVersion is the release of the npm package warcio, which other projects read archives with.
const warcioVersion = "2.4.11"

// warcio returns the paths of node and of the package. It installs the package once, in the user's cache directory.
func warcio(t *testing.T) (node, module string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("node is not installed: %v", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	dir := filepath.Join(cache, "proxima-test", "warcio-"+warcioVersion)
	module = filepath.Join(dir, "node_modules", "warcio", "dist", "index.js")
	if _, err := os.Stat(module); err == nil {
		return node, module
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skipf("npm is not installed: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	install := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts",
		"warcio@"+warcioVersion)
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("npm cannot install warcio %s: %v\n%s", warcioVersion, err, out)
	}
	return node, module
}

// TestReadByWarcio reads an archive with warcio, and compares the index with that of warcio.
func TestReadByWarcio(t *testing.T) {
	node, module := warcio(t)
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
	}
	for _, ex := range exchanges {
		f.write(ex)
	}
	path := f.save()
	read := exec.CommandContext(t.Context(), node, "testdata/read.mjs", module, path)
	var complaints bytes.Buffer // warcio warns of records whose length is wrong
	read.Stderr = &complaints
	out, err := read.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("node: %v\n%s", err, &complaints)
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
	if kinds["warcinfo"] != 1 || kinds["request"] != 5 || kinds["response"] != 5 || kinds["revisit"] != 1 {
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

	indexed := exec.CommandContext(t.Context(), node, "testdata/index.mjs", module, path)
	if out, err = indexed.Output(); err != nil {
		t.Fatalf("node: %v", err)
	}
	theirs := slices.Sorted(strings.Lines(string(out)))
	ours := slices.Sorted(slices.Values(f.index))
	if len(theirs) != len(ours) {
		t.Fatalf("warcio indexes %d records, we %d", len(theirs), len(ours))
	}
	for i, line := range ours {
		// JSON texts are compared by what they say: the writings of what is not UTF-8 differ.
		for j, text := range []string{line, theirs[i]} {
			key, fields, _ := strings.Cut(text, " {")
			var l map[string]string
			if err := json.Unmarshal([]byte("{"+fields), &l); err != nil {
				t.Fatalf("%v: %q", err, text)
			}
			if delete(l, "mime"); j == 0 {
				line = fmt.Sprint(key, l)
			} else if got := fmt.Sprint(key, l); got != line {
				t.Errorf("warcio: %s\nours:   %s", got, line)
			}
		}
	}
}
