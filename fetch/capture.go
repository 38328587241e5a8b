package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
)

// tap records the bytes of one exchange on an HTTP/1.1 connection, up to a limit in each direction.
type tap struct {
	limit int64

	mu       sync.Mutex
	over     bool
	request  []byte
	response *[]byte // lent by the client's buffers
}

func (t *tap) wrote(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.request = t.keep(t.request, p)
	}
}

func (t *tap) read(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over { // afterwards the buffer may belong to another exchange
		*t.response = t.keep(*t.response, p)
	}
}

// size returns the length of the response so far. A nil tap has recorded nothing.
func (t *tap) size() int {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(*t.response)
}

func (t *tap) keep(to, p []byte) []byte {
	room := t.limit - int64(len(to))
	return append(to, p[:min(int64(len(p)), room)]...)
}

// restart discards what was recorded, when net/http tries again on another connection.
func (t *tap) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.request, *t.response = t.request[:0], (*t.response)[:0]
}

// end stops recording and returns the request, and the response from its final head on.
func (t *tap) end() (request, response []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	response = *t.response
	for informational(response) {
		_, after, found := bytes.Cut(response, []byte("\r\n\r\n"))
		if !found {
			break
		}
		response = after
	}
	return t.request, response
}

// informational reports whether head has a 1xx status other than 101. net/http skips those, too.
func informational(head []byte) bool {
	const line = "HTTP/1.1 1"
	return len(head) > len(line)+2 && string(head[:7]) == line[:7] && string(head[8:10]) == line[8:] &&
		string(head[10:12]) != "01"
}

// requestHead writes the head of an HTTP/2 request in the form of HTTP/1.1, as WARC files contain it.
func requestHead(r *http.Request) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\n", r.URL.RequestURI(), r.Host)
	r.Header.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}

// responseHead does the same for a response.
func responseHead(r *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", r.StatusCode, http.StatusText(r.StatusCode))
	r.Header.Write(&b)
	b.WriteString("\r\n")
	return b.Bytes()
}
