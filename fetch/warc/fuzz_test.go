package warc

import (
	"bytes"
	"errors"
	"net/url"
	"testing"
)

// FuzzWrite writes what a hostile server may have sent, and reads it back with the independent parser: the records are
// what was written, or nothing was.
func FuzzWrite(f *testing.F) {
	f.Add("http://example.org/", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", []byte("hello"), "GET / HTTP/1.1\r\n\r\n", "")
	f.Add("http://a/\r\nWARC-Type: warcinfo", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("\r\n\r\nWARC/1.1\r\n"), "", "length")
	f.Add("\x00\xff %0D", "HTTP/\n\r\n\r\n", []byte("\x1f\x8b\x08\x00"), "\n\n", "time")
	f.Add("http://a/", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", []byte{}, "GET\r\n \r\nA: b\r\n\r\n", "disconnect")
	f.Add("http://a/", "HTTP/1.1\r\nTransfer-Encoding\r\n transfer-encoding: x\r\n\r\n", []byte{0}, "GET /\r\n\r\n", "x")
	f.Fuzz(func(t *testing.T, rawURL, head string, body []byte, request, truncated string) {
		dir := t.TempDir()
		w := open(t, testConfig(dir))
		ex := exchange(rawURL, "")
		ex.ResponseHead, ex.Body, ex.Request, ex.Truncated = []byte(head), body, []byte(request), truncated
		err := w.Write(ex)
		again := w.Write(ex)
		closeWriter(t, w)
		rs := readAll(t, dir)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || !errors.Is(again, ErrInvalid) || len(rs) != 0 {
				t.Fatalf("%d records after %v, %v", len(rs), err, again)
			}
			return
		}
		perExchange := 2
		if request == "" {
			perExchange = 1
		}
		if again != nil || len(rs) != 2*perExchange {
			t.Fatalf("%d records, %v", len(rs), again)
		}
		response, second := rs[0], rs[perExchange]
		if response.kind != "response" || !bytes.Equal(response.payload(), body) {
			t.Fatalf("%s with payload %q", response.kind, response.payload())
		}
		if got := bytes.ReplaceAll(response.block, []byte("X-Crawl-"), nil); !bytes.Equal(got, bytes.ReplaceAll([]byte(head+string(body)), []byte("X-Crawl-"), nil)) {
			t.Fatalf("block %q", response.block)
		}
		if bytes.Equal(response.block, second.block) != (len(body) == 0 || truncated != "") {
			t.Fatalf("the second time: %s", second.kind)
		}
		if uri, err := url.PathUnescape(response.get("WARC-Target-URI")); err == nil {
			if want, err := url.PathUnescape(rawURL); err == nil && uri != want {
				t.Fatalf("URL %q, want %q", uri, want)
			}
		}
		for _, r := range rs {
			for name := range r.fields {
				if !known[name] {
					t.Fatalf("field %s", name)
				}
			}
		}
		if request != "" && string(rs[1].block) != request {
			t.Fatalf("request %q", rs[1].block)
		}
	})
}

// known are the fields that a record may have, in the form of textproto.
var known = map[string]bool{
	"Warc-Type": true, "Warc-Record-Id": true, "Warc-Date": true, "Warc-Target-Uri": true, "Warc-Ip-Address": true,
	"Warc-Protocol": true, "Warc-Payload-Digest": true, "Warc-Truncated": true, "Warc-Block-Digest": true,
	"Warc-Concurrent-To": true, "Warc-Profile": true, "Warc-Refers-To": true, "Warc-Refers-To-Target-Uri": true,
	"Warc-Refers-To-Date": true, "Content-Type": true, "Content-Length": true,
}

// FuzzWholeMembers compares the repair with compress/gzip: what it keeps are whole members, and no whole one follows.
func FuzzWholeMembers(f *testing.F) {
	b, _, ends := small(f)
	f.Add(b)
	f.Add(b[:len(b)-3])
	f.Add(b[:ends[1]+20])
	f.Add(append(bytes.Clone(b[:ends[0]]), "\x00\x00\x1f\x8b\x08"...))
	f.Fuzz(func(t *testing.T, left []byte) {
		kept, err := wholeMembers(bytes.NewReader(left))
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		for want < len(left) {
			n := memberLength(left[want:])
			if n == 0 {
				break
			}
			want += n
		}
		if kept != int64(want) {
			t.Fatalf("kept %d of %d bytes, want %d", kept, len(left), want)
		}
	})
}
