package fetch

import (
	"bytes"
	"net/http"
	"sync"
)

// tap records the heads of one exchange on an HTTP/1.1 connection. A headFilter tells it that of the answer.
type tap struct {
	limit int64 // of the request

	mu            sync.Mutex
	over          bool // the exchange has ended
	request, head []byte
}

func (t *tap) wrote(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.request = append(t.request, p[:min(int64(len(p)), t.limit-int64(len(t.request)))]...)
	}
}

// answered records the whole head of the answer.
func (t *tap) answered(head []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.over {
		t.head = head
	}
}

// restart discards what was recorded, when net/http tries again on another connection.
func (t *tap) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.request, t.head = t.request[:0], nil
}

// end stops recording and returns what was recorded. A head without an end was not.
func (t *tap) end() (request, head []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.request, t.head
}

// informational reports whether head has a 1xx status other than 101. net/http skips those, too.
func informational(head []byte) bool {
	const line = "HTTP/1.1 1"
	return len(head) > len(line)+2 && string(head[:7]) == line[:7] && string(head[8:10]) == line[8:] &&
		string(head[10:12]) != "01"
}

// rawHead writes a head that did not cross the connection as text in the form of HTTP/1.1, as WARC files contain it.
func rawHead(begin string, h http.Header) []byte {
	b := bytes.NewBufferString(begin)
	h.Write(b) // a buffer takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}
