package warc

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// ErrInvalid is wrapped by the errors of Encode about an exchange that cannot be archived truthfully. Trying again is no use.
var ErrInvalid = errors.New("invalid exchange")

// Reasons of Exchange.Truncated (ISO 28500, WARC-Truncated).
const (
	TruncatedLength     = "length"
	TruncatedTime       = "time"
	TruncatedDisconnect = "disconnect"
)

const maxURL = 64 << 10 // bytes, far above what servers accept

// Exchange is one HTTP request and its answer. The Encoder neither changes nor keeps the slices.
type Exchange struct {
	// URL is what was requested, at most 64 KiB. Bytes that a header cannot carry are percent-encoded in the archive.
	URL string
	// Addr is the server that was dialled; left out if invalid.
	Addr netip.Addr
	// Time is when the request began.
	Time time.Time
	// Request is the head as sent: request line, header lines, blank line. If it is empty, no request record is written.
	Request []byte
	// ResponseHead is status line, header lines, blank line. HTTP/2 heads are written in the form of HTTP/1.1. The head must end in
	// CR LF CR LF and have no other blank line, or readers would see its end elsewhere.
	ResponseHead []byte
	// Body is the payload, without transfer coding (chunked), but with the content coding (gzip, br) as received. A
	// Transfer-Encoding line of the head, which is no longer true, is archived as X-Crawl-Transfer-Encoding, as other crawlers do.
	Body []byte
	// Truncated says why Body is not whole: "" (it is), "length", "time" or "disconnect".
	Truncated string
	// Protocol is its name in the IIPC's extension WARC-Protocol ("http/1.1", "h2"); "" leaves it out.
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

// isHead reports whether b is at least one line and then its only blank line. A line of white space counts as blank, as it does for
// some readers.
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

var transferEncoding = regexp.MustCompile(`(?mi)^[\t\v\f\r ]*transfer-encoding[\t\v\f\r ]*:`)

// archivedHead returns the response head with its Transfer-Encoding lines renamed.
func archivedHead(head []byte) []byte { return transferEncoding.ReplaceAll(head, []byte("X-Crawl-$0")) }

// unsafeInURI matches white space, control characters, bytes beyond ASCII, and the delimiters < > " of URIs in text.
var unsafeInURI = regexp.MustCompile(`[^!#-;=?-~]`)

// targetURI returns the URL with such bytes percent-encoded, so that it cannot end a header line and no reader trims it.
func targetURI(url string) string {
	return unsafeInURI.ReplaceAllStringFunc(url, func(s string) string {
		return "%" + strings.ReplaceAll(fmt.Sprintf("% X", s), " ", "%")
	})
}
