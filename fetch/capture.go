package fetch

import (
	"bytes"
	"net/http"
	"sync"
)

// tap records the heads of one exchange on an HTTP/1.1 connection, up to a limit in each direction.
type tap struct {
	limit int64

	mu       sync.Mutex
	over     bool // the exchange has ended; response may belong to another
	headed   bool // the head of the response is complete; its body follows
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
	if !t.over && !t.headed {
		*t.response = t.keep(*t.response, p)
	}
}

// head stops recording the response.
func (t *tap) head() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.headed = true
}

func (t *tap) keep(to, p []byte) []byte {
	room := t.limit - int64(len(to))
	return append(to, p[:min(int64(len(p)), room)]...)
}

// restart discards what was recorded, when net/http tries again on another connection.
func (t *tap) restart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.headed, t.request, *t.response = false, t.request[:0], (*t.response)[:0]
}

// end stops recording and returns the request, and the final head of the response.
func (t *tap) end() (request, head []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	return t.request, finalHead(*t.response)
}

// finalHead returns the head that a response begins with, without informational ones and with its blank line. Lines end in CR LF as archives
// want it, even if the server ends them with LF alone. It returns nil if the head has no end.
func finalHead(response []byte) []byte {
	head := make([]byte, 0, 512)
	for line := range bytes.Lines(response) {
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		head = append(append(head, line...), "\r\n"...)
		switch {
		case len(line) > 0:
		case informational(head):
			head = head[:0]
		default:
			return head
		}
	}
	return nil
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
