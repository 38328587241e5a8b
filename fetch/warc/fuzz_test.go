package warc

import (
	"bytes"
	"errors"
	"net/url"
	"testing"
)

// FuzzEncode encodes what a hostile server may have sent, and reads it back with the independent parser. The records hold
// exactly the exchange, or Encode refuses it.
func FuzzEncode(f *testing.F) {
	f.Add("http://example.org/", "HTTP/1.1 200 OK\r\nA: b\r\n\r\n", []byte("hello"), "GET / HTTP/1.1\r\n\r\n", "")
	f.Add("http://a/\r\nWARC-Type: warcinfo", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", []byte("\r\n\r\nWARC/1.1\r\n"), "", "length")
	f.Add("\x00\xff %0D", "HTTP/\n\r\n\r\n", []byte("\x1f\x8b\x08\x00"), "\n\n", "time")
	f.Add("http://a/", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", []byte{}, "GET\r\n \r\nA: b\r\n\r\n", "disconnect")
	f.Add("http://a/", "HTTP/1.1\r\nTransfer-Encoding\r\n transfer-encoding: x\r\n\r\n", []byte{0}, "GET /\r\n\r\n", "x")
	f.Fuzz(func(t *testing.T, rawURL, head string, body []byte, request, truncated string) {
		f := begin(t, testConfig())
		ex := exchange(rawURL, "")
		ex.ResponseHead, ex.Body, ex.Request, ex.Truncated = []byte(head), body, []byte(request), truncated
		if _, err := f.Encode(ex); err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatal(err)
			}
			return
		}
		f.write(ex)
		f.write(ex)
		rs := f.records()
		perExchange := 2
		if request == "" {
			perExchange = 1
		}
		if len(rs) != 2*perExchange {
			t.Fatalf("%d records", len(rs))
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

// known lists the fields that a record may have, in the spelling of textproto.
var known = map[string]bool{
	"Warc-Type": true, "Warc-Record-Id": true, "Warc-Date": true, "Warc-Target-Uri": true, "Warc-Ip-Address": true,
	"Warc-Protocol": true, "Warc-Payload-Digest": true, "Warc-Truncated": true, "Warc-Block-Digest": true,
	"Warc-Concurrent-To": true, "Warc-Profile": true, "Warc-Refers-To": true, "Warc-Refers-To-Target-Uri": true,
	"Warc-Refers-To-Date": true, "Content-Type": true, "Content-Length": true,
}
