package node_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const rawNotFound = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"

// rawWeb is a web of servers that write bytes as they please, each at an address of its own.
type rawWeb struct {
	t  *testing.T
	wg sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	listeners []net.Listener
	conns     map[net.Conn]bool
	paths     map[string][]string // requests by address, in order
	next      byte
	closed    bool
}

// rawAnswer writes the answer to a request for a path; the connection is closed after it unless it says otherwise.
type rawAnswer func(c net.Conn, path string) (keep bool)

func newRawWeb(t *testing.T) *rawWeb {
	return &rawWeb{t: t, conns: map[net.Conn]bool{}, paths: map[string][]string{}}
}

// serve starts a server at the next address and returns its authority. Requests for robots.txt are answered with 404
// unless robots answers them.
func (w *rawWeb) serve(robots, answer rawAnswer) string {
	w.next++
	address := w.listen(fmt.Sprintf("127.0.8.%d:0", w.next), func(c net.Conn, authority string) {
		in := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			path := req.URL.RequestURI()
			w.mu.Lock()
			w.paths[authority] = append(w.paths[authority], path)
			w.mu.Unlock()
			switch {
			case path == "/robots.txt" && robots == nil:
				io.WriteString(c, rawNotFound)
			case path == "/robots.txt":
				if !robots(c, path) {
					return
				}
			case !answer(c, path):
				return
			}
		}
	})
	return address
}

// listen hands every connection to a function and closes it afterwards.
func (w *rawWeb) listen(address string, handle func(c net.Conn, authority string)) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.listeners = append(w.listeners, l)
	w.mu.Unlock()
	w.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.conns[c] = true
			closed := w.closed
			w.mu.Unlock()
			w.wg.Go(func() {
				if !closed {
					handle(c, l.Addr().String())
				}
				c.Close()
				w.mu.Lock()
				delete(w.conns, c)
				w.mu.Unlock()
			})
		}
	})
	return l.Addr().String()
}

// close ends every server and waits for it.
func (w *rawWeb) close() {
	w.mu.Lock()
	w.closed = true
	for _, l := range w.listeners {
		l.Close()
	}
	for c := range w.conns {
		c.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

// asked returns the paths that a server was asked for, robots.txt left out.
func (w *rawWeb) asked(authority string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.paths[authority]), func(p string) bool { return p == "/robots.txt" })
}

// rawText answers with the same bytes always.
func rawText(text string) rawAnswer {
	return func(c net.Conn, _ string) bool { io.WriteString(c, text); return false }
}

// rawPage answers well.
func rawPage(c net.Conn, header, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n%sContent-Length: %d\r\n\r\n%s", header, len(body), body)
	return err == nil
}

// rawFlood answers with a beginning, and then more and more until the client is gone.
func rawFlood(head, more string) rawAnswer {
	block := strings.Repeat(more, 1+(32<<10)/len(more))
	return func(c net.Conn, _ string) bool {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = io.WriteString(c, block)
		}
		return false
	}
}

// rawDrip answers with a byte every now and then until the client is gone.
func rawDrip(head string) rawAnswer {
	return func(c net.Conn, _ string) bool {
		_, err := io.WriteString(c, head)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for err == nil {
			<-tick.C
			_, err = io.WriteString(c, "#")
		}
		return false
	}
}

func gzipped(t *testing.T, write func(w io.Writer)) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	write(z)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
