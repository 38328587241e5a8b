package fetch

import (
	"net/http"
	"testing"
)

// Of several types the last counts, with the charset of an earlier one of the same type. What is no type does not count.
func TestSeveralContentTypes(t *testing.T) {
	for head, want := range map[string]string{
		"Content-Type: text/html;charset=utf-8\r\n":                                                   "text/html;charset=utf-8",
		"Content-Type: application/octet-stream\r\nContent-Type: text/html\r\n":                       "text/html",
		"Content-Type: text/html\r\nContent-Type: text/html; charset=koi8-r\r\n":                      "text/html; charset=koi8-r",
		"Content-Type: text/html; charset=koi8-r\r\nContent-Type: Text/HTML\r\n":                      "text/html; charset=koi8-r",
		"Content-Type: text/html; charset=koi8-r\r\nContent-Type: text/html; charset=utf-8\r\n":       "text/html; charset=utf-8",
		"Content-Type: text/plain; charset=koi8-r, text/html\r\n":                                     "text/html",
		"Content-Type: text/html; charset=utf-8, text/html\r\n":                                       "text/html; charset=utf-8",
		"Content-Type: text/html\r\nContent-Type: */*\r\nContent-Type: \r\nContent-Type: nothing\r\n": "text/html",
		"Content-Type: html\r\nContent-Type: none\r\n":                                                "html",
		"Content-Type: text/html charset=utf-8\r\n":                                                   "text/html charset=utf-8",
		"": "",
	} {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, answer("HTTP/1.1 200 OK\r\n"+head+"Content-Length: 5\r\n\r\nhello"))})
		wanted := ""
		res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true, Wanted: func(_ int, h http.Header, _ int64) error {
			wanted = h.Get("Content-Type")
			return nil
		}})
		if got := res.Header.Get("Content-Type"); got != want || wanted != want || res.Err != nil {
			t.Errorf("%q: %q, and asked whether %q is wanted, %v", head, got, wanted, res.Err)
		}
		if string(res.RawHead) != "HTTP/1.1 200 OK\r\n"+head+"Content-Length: 5\r\n\r\n" {
			t.Errorf("%q: captured %q", head, res.RawHead)
		}
	}
}
