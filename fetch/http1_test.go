package fetch

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection serves another request only if the answer before it is over and nothing is left of it.
func TestWhatIsLeftOnAConnection(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
	refuse := func(int, http.Header, int64) error { return errTest }
	for name, c := range map[string]struct {
		answer string
		req    Request
		kept   bool
	}{
		"a length":                {okHead + "hello", Request{}, true},
		"no body":                 {"HTTP/1.1 204 No Content\r\n\r\n", Request{}, true},
		"not modified":            {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", Request{}, true},
		"nothing that is wanted":  {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Request{Wanted: refuse}, true},
		"chunks":                  {chunked + "\r\n", Request{}, true},
		"a trailer":               {chunked + "X: y\r\n\r\n", Request{}, true},
		"after early hints":       {"HTTP/1.1 103 Early Hints\r\n\r\n" + okHead + "hello", Request{}, true},
		"of HTTP/1.0, kept":       {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello", Request{}, true},
		"of HTTP/1.0":             {"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", Request{}, false},
		"to be closed":            {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", Request{}, false},
		"more than its length":    {okHead + "hello again", Request{}, false},
		"a body that none has":    {"HTTP/1.1 204 No Content\r\n\r\nhello", Request{}, false},
		"a body that is cut":      {"HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("a", 40000), Request{MaxBody: 10}, false},
		"a body not wanted":       {okHead + "hello", Request{Wanted: refuse}, false},
		"a body that was to come": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", Request{Wanted: refuse}, false},
		"a line in two pieces":    {"HTTP/1.1 200 OK\r\nContent-Le|ngth: 5\r\n\r\nhello", Request{}, true},
		"more behind that line":   {"HTTP/1.1 200 OK\r\nContent-Le|ngth: 5\r\n\r\nhello" + okHead + "wrong", Request{}, false},
		"a head that is broken":   {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", Request{}, false},
		"another protocol":        {"HTTP/1.1 101 Switching Protocols\r\n\r\n", Request{}, false},
	} {
		bubbleOf(t, name, func(t *testing.T) {
			var conns open
			cl := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, func(nc net.Conn) {
				for br := bufio.NewReader(nc); ; {
					if _, err := requestHeadOf(br); err != nil {
						return
					}
					for part := range strings.SplitSeq(c.answer, "|") {
						_, _ = io.WriteString(nc, part)
					}
				}
			}))})
			for range 3 {
				c.req.URL, c.req.Addr = "http://a.example/", testAddr
				res := cl.Get(t.Context(), c.req)
				res.Release()
			}
			synctest.Wait()
			if made, want := conns.made.Load(), map[bool]int64{true: 1, false: 3}[c.kept]; made != want || conns.Load() != map[bool]int64{true: 1}[c.kept] {
				t.Errorf("%d connections, want %d; %d are open", made, want, conns.Load())
			}
		})
	}
}

// Lines of chunks may end in a bare LF, as browsers read them. The connection is closed then, and as ever behind what is no chunk.
func TestLinesOfChunks(t *testing.T) {
	long := strings.Repeat("chunk\n", 2000)
	for body, want := range map[string]string{
		"5\nhello\n0\n\n":                                        "hello",
		"5\r\nhello\n0\r\n\r\n":                                  "hello",
		"5\r\nhello\r\n0\n\r\n":                                  "hello",
		"5\r\nhello\r\n0\r\n\n":                                  "hello",
		"2;x=y\nhe\n3 \nllo\n0\nX: y\n\n":                        "hello",
		"2\n\n\n\n1\n\r\n0\n\n":                                  "\n\n\r",
		fmt.Sprintf("%x\n%s\n0\n\n", len(long), long):            long,
		fmt.Sprintf("%X\r\n%s\n1\na\n0\n\n", len(long), long):    long + "a",
		"5\nhello" + "5\nhello\n0\n\n":                           "!hello",
		"5\nhello\n\n0\n\n":                                      "!hello",
		"-5\nhello\n0\n\n":                                       "!",
		"5\nhello\n":                                             "!hello",
		"5\nhel":                                                 "!hel",
		strings.Repeat("0", 2*maxHeld) + "5\nhello\n0\n\n":       "!",
		"5;" + strings.Repeat("x", 2*maxHeld) + "\nhello\n0\n\n": "!",
		"fffffffffffffffff\nhello\n":                             "!",
	} {
		for _, size := range []int{1, 7, 100_000} {
			var conns open
			c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, func(nc net.Conn) {
				for in := bufio.NewReader(nc); ; {
					if _, err := requestHeadOf(in); err != nil {
						return
					}
					for part := range slices.Chunk([]byte("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n"+body), size) {
						_, _ = nc.Write(part)
					}
					if strings.HasPrefix(want, "!") {
						return
					}
				}
			}))})
			for i := range int64(2) {
				res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
				whole, broken := strings.CutPrefix(want, "!")
				if string(res.Body) != whole || (res.Err != nil) != broken || conns.made.Load() != i+1 {
					t.Errorf("%.40q, in pieces of %d: %.40q, connection %d, %v", body, size, res.Body, conns.made.Load(), res.Err)
				}
				res.Release()
			}
		}
	}
}

// A connection whose exchange is over too early is not kept, even if nothing is left on it.
func TestOverWithItsAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: serve(0, answer("HTTP/1.1 204 No Content\r\n\r\n"))})
		ctx, cancel := context.WithCancel(t.Context())
		end := func(int, http.Header, int64) error {
			cancel()
			synctest.Wait()
			return nil
		}
		res := c.Get(ctx, Request{URL: "http://a.example/", Addr: testAddr, Wanted: end})
		if s, _ := c.server(testAddr); res.Status != 204 || len(s.idle) > 0 {
			t.Errorf("status %d, %v, %d idle", res.Status, res.Err, len(s.idle))
		}
	})
}

// The longest head passes, and a longer one does not, though all of it comes at once. A body that stops is told by its reason.
func TestBoundsOfAnswers(t *testing.T) {
	cfg := testConfig()
	cfg.MaxHeaderBytes = 2000
	for _, more := range []int{0, 1} {
		head := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2000-43+more) + "\r\nContent-Length: 5\r\n\r\n"
		res := newClient(t, cfg, Deps{Dial: serve(0, answer(head+"hello"))}).Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		if len(head) != 2000+more || res.Class != map[int]Class{1: HeaderTooLarge}[more] {
			t.Errorf("of %d bytes: %q, %v", len(head), res.Class, res.Err)
		}
	}
	bubble(t, func(t *testing.T) {
		c := newClient(t, cfg, Deps{Dial: serve(0, func(nc net.Conn) { answer(okHead + "he")(nc); hang(nc) })})
		if res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr}); res.Class != TooSlow || !strings.Contains(res.Err.Error(), "bytes of body") {
			t.Errorf("class %q, %v", res.Class, res.Err)
		}
	})
}

// net/http reads a head without a limit. Of one that never ends it gets only what is within the limits here, whatever it makes of its lines.
func TestHeadsWithoutEnd(t *testing.T) {
	for name, c := range map[string]struct {
		head, again string
		class       Class
	}{
		"no head":                      {"", "a", Protocol},
		"lines without a name":         {"HTTP/1.1 200 OK\r\n", ": x\r\n", Protocol},
		"continuations of no field":    {"HTTP/1.1 200 OK\r\nX: y\r\nnothing\r\n", " x\r\n", Protocol},
		"empty lengths":                {"HTTP/1.1 200 OK\r\n", "Content-Length:\r\n", Protocol},
		"what follows a line of CR":    {"HTTP/1.1 200 OK\r\nX: y\r\n\r\r\n", " x\r\n", Protocol},
		"continuations of a field":     {"HTTP/1.1 200 OK\r\nX: y\r\n", " x\r\n", HeaderTooLarge},
		"empty lines before the first": {"", "\r\n", Protocol},
	} {
		const most = 4 << 20 // or the test would need all memory, where it fails
		sent := make(chan int, 1)
		cl := newClient(t, testConfig(), Deps{Dial: serve(0, func(nc net.Conn) {
			_, _ = requestHeadOf(bufio.NewReader(nc))
			_, err := io.WriteString(nc, c.head)
			n, block := 0, []byte(strings.Repeat(c.again, 1024))
			for ; err == nil && n < most; n += len(block) {
				_, err = nc.Write(block)
			}
			sent <- n
		})})
		res := cl.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		if n := <-sent; res.Class != c.class || n >= most {
			t.Errorf("%s: class %q after %d bytes, %v", name, res.Class, n, res.Err)
		}
	}
}

// What a server sends on an idle connection is no answer to the next request. That goes to a new one, as if the server had closed the old one.
func TestNobodyAskedForIt(t *testing.T) {
	for name, late := range map[string]string{"another answer": okHead + "wrong", "a timeout": "HTTP/1.1 408 Request Timeout\r\n\r\n", "its end": "", "nothing": "-"} {
		for _, scheme := range []string{"http", "https"} {
			answered, sent := make(chan bool), make(chan bool)
			handle := func(w http.ResponseWriter, _ *http.Request) {
				nc, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				for in, more := bufio.NewReader(nc), true; more; {
					_, _ = io.WriteString(nc, okHead+"right")
					<-answered
					switch late {
					case "-":
					case "":
						nc.Close()
					default:
						_, _ = io.WriteString(nc, late)
					}
					sent <- true
					_, err := requestHeadOf(in)
					more = err == nil
				}
			}
			url, deps := tlsServer(t, false, handle)
			if scheme == "http" {
				s := httptest.NewServer(http.HandlerFunc(handle))
				defer s.Close()
				url = s.URL
			}
			c := newClient(t, testConfig(), deps)
			for i := range 3 {
				res := c.Get(t.Context(), Request{URL: url, Addr: testAddr})
				if res.Err != nil || string(res.Body) != "right" || res.Timing.Fresh != (i == 0 || late != "-") {
					t.Errorf("%s over %s, request %d: %q, fresh %v, %v", name, scheme, i, res.Body, res.Timing.Fresh, res.Err)
				}
				res.Release()
				answered <- true
				<-sent
			}
			c.Close()
		}
	}
}

// Some servers send more than the length of a body. Over TLS the rest may have come out of the socket with the body, in one record. It is no answer to the
// next request.
func TestMoreThanItsLengthInOneRecord(t *testing.T) {
	body := strings.Repeat("a", 10_000)
	for name, more := range map[string]string{"the rest of a page": strings.Repeat("</html>", 10), "another answer": okHead + "wrong", "nothing": ""} {
		url, deps := oddServer(t, &tls.Config{DynamicRecordSizingDisabled: true}, false, func(w http.ResponseWriter, _ *http.Request) {
			nc, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer nc.Close()
			for in := bufio.NewReader(nc); ; {
				fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(body), body, more)
				if _, err := requestHeadOf(in); err != nil {
					return
				}
			}
		})
		c := newClient(t, testConfig(), deps)
		for i := range 4 {
			res := c.Get(t.Context(), Request{URL: url, Addr: testAddr})
			if res.Err != nil || string(res.Body) != body || res.Timing.Fresh != (i == 0 || more != "") {
				t.Errorf("%s, request %d: %d bytes, fresh %v, %v", name, i, len(res.Body), res.Timing.Fresh, res.Err)
			}
			res.Release()
		}
		c.Close()
	}
}

// A connection that was made for HTTP/2 but speaks HTTP/1.1 is closed when its request is over, or has one already.
func TestSpareConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		made := func() (*conn, func() bool) {
			near, far := newLink(0)
			var closed atomic.Bool
			go func() { _, _ = io.Copy(io.Discard, far); closed.Store(true) }()
			return &conn{Conn: near}, func() bool { synctest.Wait(); return closed.Load() }
		}
		x := &exchange{cfg: &cfg, timer: time.NewTimer(time.Hour)}
		first, firstIsClosed := made()
		second, secondIsClosed := made()
		x.offer(first)
		x.offer(second)
		if firstIsClosed() || !secondIsClosed() || x.offered() != first || x.offered() != nil {
			t.Error("the first is not kept, or the second is not closed")
		}
		x.offer(first)
		if x.end(); !firstIsClosed() {
			t.Error("it stays open after the end")
		}
		third, thirdIsClosed := made()
		if x.offer(third); !thirdIsClosed() {
			t.Error("a late one stays open")
		}
	})
}

// A download that has ended before it begins asks nobody, and a connection that it gets too late is closed.
func TestEndedBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := newClient(t, testConfig(), Deps{Dial: (&echoing{}).dial})
		if res := c.Get(ctx, Request{URL: "http://a.example/", Addr: testAddr}); res.Class != Canceled || res.Sent {
			t.Errorf("class %q, sent %v", res.Class, res.Sent)
		}
		var x exchange
		x.within(ctx)()
		near, far := newLink(0)
		if err := x.hold(&conn{Conn: near}); err != context.Canceled {
			t.Error(err)
		}
		if n, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("read %d bytes, %v", n, err)
		}
	})
}

// While a request is on its way, a fresh one replaces the connections of the server. That of the former is closed when it ends.
func TestFreshMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e := &echoing{think: time.Second}
		var conns open
		c := newClient(t, testConfig(), Deps{Dial: conns.count(e.dial)})
		var fresh Result
		var wg sync.WaitGroup
		wg.Go(func() {
			fresh = c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Fresh: true})
		})
		time.Sleep(time.Second / 2)
		other := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		wg.Wait()
		if synctest.Wait(); fresh.Err != nil || other.Err != nil || conns.made.Load() != 2 || conns.Load() != 1 {
			t.Errorf("%v, %v; %d of %d connections are open", fresh.Err, other.Err, conns.Load(), conns.made.Load())
		}
	})
}

// A server that is silent on a kept connection is not asked once more: the time for its answer is over.
func TestKeptAndSilent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var conns open
		c := newClient(t, testConfig(), Deps{Dial: conns.count(serve(0, func(nc net.Conn) { answer(okHead + "hello")(nc); hang(nc) }))})
		for i := range 2 {
			gate, start := openFor(2-i), time.Now()
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr, Gate: gate.look})
			late := i == 1
			if (res.Class == TimeoutHeader) != late || (time.Since(start) == c.cfg.HeaderTimeout) != late || res.Timing.Fresh == late || conns.made.Load() != 1 {
				t.Errorf("request %d: class %q after %v, fresh %v, %d connections: %v", i, res.Class, time.Since(start), res.Timing.Fresh, conns.made.Load(), res.Err)
			}
		}
	})
}

// Where none may stay idle, each request has a connection of its own.
func TestNoneStaysIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := testConfig()
		cfg.IdleConns = 0
		var conns open
		c := newClient(t, cfg, Deps{Dial: conns.count((&echoing{}).dial)})
		for i := range 2 {
			res := c.Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
			if synctest.Wait(); res.Err != nil || !res.Timing.Fresh || conns.Load() != 0 {
				t.Errorf("request %d: %v, %d connections are open", i, res.Err, conns.Load())
			}
		}
	})
}

// No request over https goes out on a connection that was made for http.
func TestSchemesHaveTheirConnections(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newClient(t, testConfig(), Deps{Dial: (&echoing{}).dial})
		for _, u := range []struct {
			scheme string
			class  Class
		}{{"http", OK}, {"https", TimeoutTLS}, {"http", OK}} { // the server waits for the end of a head
			if res := c.Get(t.Context(), Request{URL: u.scheme + "://a.example:8080/", Addr: testAddr}); res.Class != u.class || res.Sent != (u.class == OK) {
				t.Errorf("%s: class %q, %v", u.scheme, res.Class, res.Err)
			}
		}
	})
}

// FuzzAnswers: what net/http makes of an answer, this client makes of it.
func FuzzAnswers(f *testing.F) {
	for _, answer := range []string{
		okHead + "hello", openHead + "until the end", "HTTP/1.0 200\r\nX: y\r\n\r\nhello", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n" + okHead + "hello", "HTTP/1.1 404 Not Found\nX: y\nX: z\n\nhello", "HTTP/1.1 200 OK\r\nX: y\r\n z\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x\r\nhello\r\n0\r\nY: z\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
	} {
		f.Add(answer)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		dial := serve(0, func(nc net.Conn) {
			if _, err := requestHeadOf(bufio.NewReader(nc)); err == nil {
				_, _ = io.WriteString(nc, sent)
			}
		})
		theirs := &http.Transport{DialContext: dial, DisableCompression: true}
		defer theirs.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := theirs.RoundTrip(req)
		if err != nil || resp.StatusCode < 200 {
			return // this client may know more
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.Header.Get("Content-Encoding") != "" {
			return
		}
		res := newClient(t, testConfig(), Deps{Dial: dial}).Get(t.Context(), Request{URL: "http://a.example/", Addr: testAddr})
		defer res.Release()
		resp.Header.Del("Content-Type") // the one that counts is left
		res.Header.Del("Content-Type")
		if res.Err != nil || res.Status != resp.StatusCode || res.Protocol != resp.Proto || string(res.Body) != string(body) || !reflect.DeepEqual(res.Header, resp.Header) {
			t.Errorf("%d %s %q %v, want %d %s %q %v: %v", res.Status, res.Protocol, res.Body, res.Header, resp.StatusCode, resp.Proto, body, resp.Header, res.Err)
		}
	})
}
