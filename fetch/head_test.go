package fetch

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Browsers ignore the lines of a head that are none, and lengths that say nothing. All else is as it comes, in whatever pieces that is.
func TestHeadsWithOddLines(t *testing.T) {
	const body = "hello"
	for name, c := range map[string]struct {
		head  string // without the status line
		class Class
	}{
		"a typographic hyphen":       {"Strict\u2010Transport\u2010Security: max-age=1\r\nContent-Length: 5\r\n", OK},
		"what a program has printed": {"Warning\r\nContent-Length: 5\r\n", OK},
		"a second status line":       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", OK},
		"no name":                    {": x\nContent-Length: 5\n", OK},
		"a control character":        {"Y: a\x00b\r\nContent-Length: 5\r\n", OK},
		"a continuation of nothing":  {"\tx: y\r\nContent-Length: 5\r\n", OK},
		"continuations":              {"nothing\r\n x: z\r\nX:\r\n y\r\nContent-Length: 5\r\n", OK},
		"an empty length":            {"Content-Length:\r\n", OK},
		"no transfer coding":         {"Transfer-Encoding: Identity\r\nContent-Length: 5\r\n", OK},
		"a length that is unknown":   {"Content-Length: -1\r\n", OK},
		"a length below zero":        {"Content-Length: -2\r\n", Protocol},
		"a length with more":         {"Content-Length: 5;\r\n", Protocol},
		"an unknown length twice":    {"Content-Length: -1,-1\r\nContent-Length: 5\r\n", OK},
		"codings of mails":           {"Transfer-Encoding: binary\r\nTransfer-Encoding: 8Bit, 8bit\r\ntransfer-encoding: 7bit\r\nContent-Length: 5\r\n", OK},
		"no coding at all":           {"Transfer-Encoding: a\x00b\r\nContent-Length: 5\r\n", OK},
		"a blank in a name":          {"Y : x\r\nContent-Length: 5\r\n", OK},
		"a long line":                {"Y: " + strings.Repeat("y", 2*maxHeld) + "\r\nnothing\r\nContent-Length: 5\r\n", OK},
		"little that is none":        {strings.Repeat("Y: "+strings.Repeat("y", 1000)+"\r\n", 50) + strings.Repeat("nothing\r\n", 3000) + "Content-Length: 5\r\n", OK},
		"much that is none":          {strings.Repeat("nothing\r\n", 10_000) + "Content-Length: 5\r\n", Protocol},
		"a long one that is none":    {strings.Repeat("y", 2*maxHeld) + "\r\nContent-Length: 5\r\n", Protocol},
		"two lengths":                {"Content-Length: 5\r\nContent-Length: 6\r\n", Protocol},
		"a list of one length":       {"Content-Length: 5, 5,5\r\n", OK},
		"a list of two lengths":      {"Content-Length: 5, 5, 6\r\n", Protocol},
		"a length and nothing":       {"Content-Length: 5,\r\n", OK},
		"another transfer coding":    {"Transfer-Encoding: magic\r\n", Protocol},
		"an empty transfer coding":   {"Transfer-Encoding:\r\nContent-Length: 5\r\n", OK},
	} {
		const hints = "HTTP/1.1 103 Early Hints\r\nnothing\r\nLink: </x>\r\n\r\n"
		for _, interim := range []string{"", hints, hints + hints} {
			answer := interim + "HTTP/1.1 200 OK\r\n" + c.head + "X: y\r\n\r\n" + body
			for _, size := range []int{1, 7, len(answer)} {
				cl := newClient(t, testConfig(), Deps{Dial: serve(0, func(nc net.Conn) {
					if _, err := requestHeadOf(bufio.NewReader(nc)); err != nil {
						return
					}
					for part := range slices.Chunk([]byte(answer), size) {
						if _, err := nc.Write(part); err != nil {
							return
						}
					}
				})})
				res := cl.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
				if res.Class != c.class || c.class == OK && (string(res.Body) != body || strings.TrimSpace(res.Header.Get("X")) != "y" && !strings.Contains(c.head, "X:")) {
					t.Errorf("%s, in pieces of %d: class %q, body %q, %v, %v", name, size, res.Class, res.Body, res.Header, res.Err)
				}
				sent := strings.ReplaceAll("HTTP/1.1 200 OK\r\n"+c.head+"X: y\r\n\r\n", "\r", "")
				if c.class == OK && string(res.RawHead) != strings.ReplaceAll(sent, "\n", "\r\n") {
					t.Errorf("%s, behind %q in pieces of %d: captured %.100q", name, interim, size, res.RawHead)
				}
			}
		}
	}
}

// Each of the answers on one connection has a filter of its own, and twice chunked is chunked, as it is behind a coding that says nothing.
func TestHeadsOfOneConnection(t *testing.T) {
	heads := []string{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked, Chunked",
		"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"}
	var conns open
	c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, func(nc net.Conn) {
		in := bufio.NewReader(nc)
		for _, head := range heads {
			if _, err := requestHeadOf(in); err == nil {
				_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nnothing\r\n"+head+"\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
			}
		}
	}))})
	for _, head := range heads {
		if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Err != nil || string(res.Body) != "hello" {
			t.Errorf("%q: %q, %v", head, res.Body, res.Err)
		}
	}
	if n := conns.made.Load(); n != 1 {
		t.Errorf("%d dials", n)
	}
}

// Browsers also read status lines that net/http refuses, and ignore empty lines before them. The connection is closed then.
func TestOddStatusLines(t *testing.T) {
	for first, class := range map[string]Class{
		"HTTP/2 200\r\n":                 OK,
		"HTTP/2 200 OK\n":                OK,
		"HTTP/1.10 200 OK\r\n":           OK,
		"http/1.1 200 OK\r\n":            OK,
		"HTTP 200 OK\r\n":                OK,
		"HTTP/1.1 200OK\r\n":             OK,
		"HTTP/1.1\t200\tOK\r\n":          OK,
		"\r\nHTTP/1.1 200 OK\r\n":        OK,
		"\n\r\n\nHTTP/1.1 200 OK\r\n":    OK,
		"\r\nHTTP/2 200\r\n":             OK,
		"HTTP/2 103\r\n\r\nHTTP/2 200\n": OK,
		"HTTP/1.1 2000 OK\r\n":           Protocol,
		"HTTP/1.1 OK\r\n":                Protocol,
		"HTTP/1.1 20\r\n":                Protocol,
		"HTTPS/1.1 200 OK\r\n":           Protocol,
		" \r\nHTTP/1.1 200 OK\r\n":       Protocol,
		"ICY 200 OK\r\n":                 Protocol,
	} {
		for _, fields := range []string{"Content-Length: 5\r\nX: y\r\n\r\nhello", "Transfer-Encoding: chunked\r\nX: y\r\n\r\n5\r\nhello\r\n0\r\n\r\n"} {
			for _, size := range []int{1, 7, 1000} {
				var conns open
				c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, func(nc net.Conn) {
					in := bufio.NewReader(nc)
					for range 2 {
						_, _ = requestHeadOf(in)
						for part := range slices.Chunk([]byte(first+fields), size) {
							_, _ = nc.Write(part)
						}
					}
				}))})
				for i := range int64(2) {
					res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Capture: true})
					if res.Class != class || class == OK && (res.Status != 200 || string(res.Body) != "hello" || res.Header.Get("X") != "y") || conns.made.Load() != i+1 {
						t.Errorf("%q, in pieces of %d: class %q, status %d, body %q, connection %d, %v", first, size, res.Class, res.Status, res.Body, conns.made.Load(), res.Err)
					}
					_, last, again := strings.Cut(first, "\r\n\r\n")
					if !again {
						last = strings.TrimLeft(first, "\r\n")
					}
					head, _, _ := strings.Cut(strings.TrimRight(last, "\r\n")+"\r\n"+fields, "\r\n\r\n")
					if class == OK && string(res.RawHead) != head+"\r\n\r\n" {
						t.Errorf("%q, in pieces of %d: captured %q", first, size, res.RawHead)
					}
				}
			}
		}
	}
}

// FuzzHeadFilter: what net/http reads passes as it comes, a whole head is captured, and it makes no difference in what pieces it comes.
func FuzzHeadFilter(f *testing.F) {
	for _, s := range []string{"HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\nbody", "HTTP/1.0 200 OK\nx y: z\nnothing\n\n\n", "HTTP/1.1 204 \r\nTransfer-Encoding: chunked\r\nContent-Length: \r\n",
		"HTTP/1.1 103 Early\r\nx\r\n\r\nHTTP/1.1 200 OK\r\nx\r\n\r\n", "SSH-2.0-x\r\n\r\n",
		"\r\nHTTP/2 200\r\nX: y\r\n\r\n"} {
		f.Add([]byte(s), uint16(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, size uint16) {
		read := func(r io.Reader) (got, raw []byte, err error) {
			from := bufio.NewReaderSize(r, maxHeld)
			err = (&headFilter{most: 1 << 30}).read(from, &got, &raw)
			rest, _ := io.ReadAll(from)
			return append(got, rest...), raw, err
		}
		got, whole, err := read(bytes.NewReader(in))
		var pieces []io.Reader
		for piece := range slices.Chunk(in, int(size)+1) {
			pieces = append(pieces, bytes.NewReader(piece))
		}
		parts, raw, late := read(io.MultiReader(pieces...))
		if !bytes.Equal(got, parts) || !bytes.Equal(raw, whole) || late != err {
			t.Errorf("%q, captured %q, %v; in pieces of %d: %q, %q, %v", got, whole, err, size+1, parts, raw, late)
		}
		if want := firstHead(in); err == nil && !bytes.Equal(whole, want) {
			t.Errorf("the head is %q, captured %q", want, whole)
		}
		if _, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(in)), nil); err == nil && !bytes.Equal(got, in) {
			t.Errorf("%q is now %q", in, got)
		}
	})
}

// firstHead returns the head of a response, with lines that end in CR LF, or the first line if it is not in HTTP.
func firstHead(response []byte) (head []byte) {
	for line := range bytes.Lines(response) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		status := head == nil
		if status && len(bytes.TrimRight(line, "\r")) == 0 {
			continue
		}
		head = slices.Concat(head, line, []byte("\r\n"))
		if status && !bytes.HasPrefix(new(headFilter).statusLine(slices.Concat(line, []byte("\n"))), []byte("HTTP/")) || !status && len(bytes.TrimRight(line, "\r")) == 0 {
			break
		}
	}
	return head
}

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
