package warc

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// ErrInvalid is wrapped by the errors of Encode about an exchange that cannot be archived truthfully: the same
// exchange will fail again.
var ErrInvalid = errors.New("invalid exchange")

// Reasons of Exchange.Truncated (ISO 28500, WARC-Truncated).
const (
	TruncatedLength     = "length"
	TruncatedTime       = "time"
	TruncatedDisconnect = "disconnect"
)

// maxURL (bytes) is far above what servers accept.
const maxURL = 64 << 10

// Exchange is one HTTP request and its answer. The Encoder neither changes nor keeps the slices.
type Exchange struct {
	// URL that was requested. Bytes that a header cannot carry are percent-encoded in the archive. At most 64 KiB.
	URL string
	// Addr of the server that was dialled; left out if invalid.
	Addr netip.Addr
	// Time when the request began.
	Time time.Time
	// Request is the head as sent: request line, header lines, blank line. Empty: no request record is written.
	Request []byte
	// ResponseHead is status line, header lines, blank line. HTTP/2 heads are written in the form of HTTP/1.1. A head
	// that does not end in CR LF CR LF, or has a blank line before, is ErrInvalid: readers would put the border between
	// head and payload elsewhere.
	ResponseHead []byte
	// Body is the payload: the transfer coding (chunked) is removed, the content coding (gzip, br) is as received. Since
	// the body is no longer chunked, a Transfer-Encoding line of the head is archived under the name
	// X-Crawl-Transfer-Encoding, as other crawlers do.
	Body []byte
	// Truncated says why Body is not whole: "" (it is), "length", "time" or "disconnect".
	Truncated string
	// Protocol as the IIPC's extension WARC-Protocol names it ("http/1.1", "h2"); "" leaves it out.
	Protocol string
}

func (ex *Exchange) validate() error {
	if ex.URL == "" || len(ex.URL) > maxURL {
		return fmt.Errorf("%w: URL of %d bytes", ErrInvalid, len(ex.URL))
	}
	// The standard's dates have four digits for the year.
	if y := ex.Time.UTC().Year(); ex.Time.IsZero() || y < 1 || y > 9999 {
		return fmt.Errorf("%w: time %v", ErrInvalid, ex.Time)
	}
	if !bytes.HasPrefix(ex.ResponseHead, []byte("HTTP/")) {
		return fmt.Errorf("%w: response head without a status line", ErrInvalid)
	}
	if !isHead(ex.ResponseHead) {
		return fmt.Errorf("%w: response head does not end at its first blank line", ErrInvalid)
	}
	if len(ex.Request) > 0 && !isHead(ex.Request) {
		return fmt.Errorf("%w: request head does not end at its first blank line", ErrInvalid)
	}
	switch ex.Truncated {
	case "", TruncatedLength, TruncatedTime, TruncatedDisconnect:
	default:
		return fmt.Errorf("%w: truncated %q", ErrInvalid, ex.Truncated)
	}
	if len(ex.Protocol) > 32 || strings.ContainsFunc(ex.Protocol, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return fmt.Errorf("%w: protocol %q", ErrInvalid, ex.Protocol)
	}
	return nil
}

// isHead reports whether b is one line or more and then its only blank line. White space alone makes a line blank, as
// some readers have it.
func isHead(b []byte) bool {
	lines, ok := bytes.CutSuffix(b, []byte("\r\n\r\n"))
	if !ok {
		return false
	}
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			return false
		}
	}
	return true
}

// archivedHead is the response head with its Transfer-Encoding lines renamed; b itself where there are none.
func archivedHead(b []byte) []byte {
	const name, archived = "transfer-encoding", "X-Crawl-"
	var out []byte
	done := 0
	for pos := 0; pos < len(b); {
		end := pos + bytes.IndexByte(b[pos:], '\n') + 1
		key, _, ok := bytes.Cut(b[pos:end], []byte(":"))
		if ok && bytes.EqualFold(bytes.TrimSpace(key), []byte(name)) {
			out = append(append(out, b[done:pos]...), archived...)
			done = pos
		}
		pos = end
	}
	if out == nil {
		return b
	}
	return append(out, b[done:]...)
}

// targetURI is the URL in ASCII without white space, control characters and the delimiters < > " of URIs in text: it
// cannot end a header line, and no reader trims it.
func targetURI(url string) string {
	unsafe := func(c byte) bool { return c <= ' ' || c >= 0x7f || c == '<' || c == '>' || c == '"' }
	n := 0
	for i := range len(url) {
		if unsafe(url[i]) {
			n++
		}
	}
	if n == 0 {
		return url
	}
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(url)+2*n)
	for i := range len(url) {
		if c := url[i]; unsafe(c) {
			out = append(out, '%', hex[c>>4], hex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}
