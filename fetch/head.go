package fetch

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headFilter drops the lines of response heads for which net/http would refuse the whole answer, though browsers only ignore them: lines
// that are no header field, such as one whose name has a typographic hyphen or that a program has printed, and lengths that say nothing. Of
// lengths that say one thing twice it leaves one. It lets all else pass as it comes. It is for one exchange.
type headFilter struct {
	part    headPart
	line    []byte  // the beginning of the current line; that of a field is held back
	long    bool    // the current line is too long for that
	interim bool    // the head is informational, and another follows
	drops   bool    // the last field was dropped, and so are its continuations
	chunked bool    // there was a Transfer-Encoding
	dropped int     // bytes
	passed  int     // bytes of heads
	kept    *[]byte // gets the head that is not informational, unless nil
	raw     []byte  // the head so far for it, with lines that end in CR LF as archives want it
}

// headPart is what a headFilter reads.
type headPart uint8

const (
	inStatus headPart = iota
	inFields
	inBody
)

const (
	// maxHeld is the length of the longest line that is held back, and maxDropped how much is dropped of an answer, in bytes.
	maxHeld    = 4 << 10
	maxDropped = 64 << 10
)

// filter returns what may pass of the next bytes of a response, and of those held back before. It may change b, and return a part of it.
func (h *headFilter) filter(b []byte) []byte {
	out := b[:0]
	if h.part == inFields && !h.long && len(h.line) > 0 { // they are held back
		out = make([]byte, 0, len(h.line)+len(b))
	}
	for h.part != inBody && len(b) > 0 {
		n := bytes.IndexByte(b, '\n') + 1
		whole := n > 0
		if !whole {
			n = len(b)
		}
		held := h.part == inFields && !h.long
		if len(h.line) <= maxHeld {
			h.line = append(h.line, b[:n]...)
		}
		if h.kept != nil {
			h.raw = append(h.raw, b[:n]...)
		}
		if !held {
			h.passed += n
			out = append(out, b[:n]...) // the last look at b[:n], which this may overwrite
		}
		b = b[n:]
		switch {
		case whole:
			if held && !h.refuses(h.line) {
				h.passed += len(h.line)
				out = append(out, h.line...)
			}
			h.endLine()
		case held && len(h.line) > maxHeld:
			h.passed += len(h.line)
			out, h.long = append(out, h.line...), true
		}
	}
	return append(out, b...)
}

// endLine goes on to the next line.
func (h *headFilter) endLine() {
	if h.kept != nil {
		h.raw = append(bytes.TrimSuffix(bytes.TrimSuffix(h.raw, []byte("\n")), []byte("\r")), "\r\n"...)
	}
	switch {
	case h.part == inStatus:
		h.part, h.interim, h.chunked = inFields, informational(h.line), false
		h.drops = true // a line that begins with a blank continues nothing
	case h.long:
		h.drops = false
	case len(bytes.TrimRight(h.line, "\r\n")) > 0:
	case h.interim:
		h.part, h.raw = inStatus, h.raw[:0]
	default:
		if h.kept != nil {
			*h.kept = h.raw
		}
		*h = headFilter{part: inBody, passed: h.passed} // it stays with an idle connection, and needs no memory there
	}
	h.line, h.long = h.line[:0], false
}

// refuses reports whether a line after the status line is dropped.
func (h *headFilter) refuses(line []byte) bool {
	text := bytes.TrimRight(line, "\r\n")
	if len(text) == 0 {
		return false
	}
	if text[0] != ' ' && text[0] != '\t' {
		name, value, found := bytes.Cut(text, []byte(":"))
		h.drops = !found || len(name) == 0 || slices.ContainsFunc(name, func(c byte) bool { return c != ' ' && !httpguts.IsTokenRune(rune(c)) }) ||
			slices.ContainsFunc(value, func(c byte) bool { return c < ' ' && c != '\t' || c == 0x7f })
		switch value = bytes.TrimSpace(value); {
		case bytes.EqualFold(name, []byte("content-length")):
			h.drops = h.drops || len(once(value)) == 0
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			value = once(value)
			h.drops = h.drops || len(value) == 0 || bytes.EqualFold(value, []byte("identity")) ||
				h.chunked && bytes.EqualFold(value, []byte("chunked"))
			h.chunked = true
		}
	}
	if h.dropped += len(line); !h.drops || h.dropped > maxDropped {
		h.dropped -= len(line)
		return false
	}
	return true
}

// once returns a list, or what is said more than once if it says nothing else: the rest is blank then (RFC 9112, section 6.3). Proxies join lines
// to such lists.
func once(list []byte) []byte {
	first, rest, _ := bytes.Cut(list, []byte(","))
	first = bytes.TrimSpace(first)
	for more := range bytes.SplitSeq(rest, []byte(",")) {
		if more = bytes.TrimSpace(more); len(more) > 0 && !bytes.EqualFold(more, first) {
			return list
		}
	}
	copy(list[len(first):], bytes.Repeat([]byte(" "), len(list)-len(first)))
	return first
}

// mediaType returns the one that counts of several Content-Types, as browsers choose it: the last that names a type, unless one of the same type
// before it has a charset that it lacks (Fetch standard, "extract a MIME type"). It returns "" if none names a type.
func mediaType(values []string) (best string) {
	name := func(value string) string {
		kind, _, _ := strings.Cut(value, ";")
		return strings.ToLower(strings.TrimSpace(kind))
	}
	hasCharset := func(value string) bool { return strings.Contains(strings.ToLower(value), "charset") }
	for value := range strings.SplitSeq(strings.Join(values, ","), ",") {
		if kind := name(value); CheckTypes([]string{kind}) == nil && (kind != name(best) || hasCharset(value) || !hasCharset(best)) {
			best = strings.TrimSpace(value)
		}
	}
	return best
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
