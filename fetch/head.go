package fetch

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headFilter drops the lines of response heads for which net/http would refuse the whole answer, though browsers only ignore them: lines
// that are no header field, such as one whose name has a typographic hyphen or that a program has printed, lengths that say nothing, and empty
// lines before the status line. Of lengths that say one thing twice it leaves one, and a status line that net/http cannot read, like "HTTP/2 200",
// it writes anew. It lets all else pass as it comes. It is for one exchange.
type headFilter struct {
	most    int64 // bytes that may pass of all heads
	passed  int64 // bytes that did
	dropped int   // bytes
	drops   bool  // the last field was dropped, and so are its continuations
	chunked bool  // there was a Transfer-Encoding of this name
	odd     bool  // a head began oddly: its connection must serve no further request
}

const (
	// maxHeld is the length of the longest line that may be dropped, and maxDropped how much is dropped of an answer, in bytes.
	maxHeld    = 4 << 10
	maxDropped = 64 << 10
)

// read adds the next head that comes from in, whose buffer has maxHeld bytes, to pass, up to the empty line. It adds the head as it comes to
// raw, unless that is nil, with lines that end in CR LF as archives want it. With an error the head is not whole. It reads no further when
// net/http will refuse what it has read.
func (h *headFilter) read(in *bufio.Reader, pass, raw *[]byte) error {
	h.chunked = false
	status, long := true, false // the current line is the first; its beginning was longer than the buffer
	for {
		line, err := in.ReadSlice('\n')
		whole := err == nil
		first := status && whole && !long
		if first && len(bytes.TrimRight(line, "\r\n")) == 0 && h.dropped+len(line) <= maxDropped {
			h.dropped, h.odd = h.dropped+len(line), true
			continue
		}
		if raw != nil {
			*raw = append(*raw, line...)
			if whole {
				*raw = append(bytes.TrimSuffix(bytes.TrimSuffix(*raw, []byte("\n")), []byte("\r")), "\r\n"...)
			}
		}
		if first {
			line = h.statusLine(line)
		}
		refused := whole && !status && !long && h.mustDrop(line)
		if refused && h.dropped+len(line) <= maxDropped {
			h.dropped += len(line)
			continue
		}
		if h.passed += int64(len(line)); h.passed > h.most {
			return errLongHead
		}
		*pass = append(*pass, line...)
		switch {
		case err != nil && err != bufio.ErrBufferFull:
			return err
		case refused, status && !long && !bytes.HasPrefix(line, []byte("HTTP/")):
			return nil // net/http will refuse it
		case !whole:
			long = true
		case status || long:
			h.drops = status // a line that begins with a blank continues nothing
			status, long = false, false
		case len(bytes.TrimRight(line, "\r\n")) == 0:
			return nil
		}
	}
}

// oddStatus is a status line as browsers read it.
var oddStatus = regexp.MustCompile(`^((?i:http)(?:/[0-9.]*)?)[ \t]+([0-9]{3})(?:[^0-9].*)?\r?\n$`)

// statusLine returns the first line of a head in a form that net/http reads, if a browser could read it.
func (h *headFilter) statusLine(line []byte) []byte {
	version, rest, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(" "))
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	_, _, known := http.ParseHTTPVersion(string(version))
	if known && len(code) == 3 {
		return line
	}
	parts := oddStatus.FindSubmatch(line)
	if parts == nil {
		return line
	}
	h.odd = true
	if _, _, known = http.ParseHTTPVersion(string(parts[1])); !known {
		parts[1] = []byte("HTTP/1.1")
	}
	return slices.Concat(parts[1], []byte(" "), parts[2], []byte("\r\n"))
}

// mustDrop reports whether a line after the status line is to be dropped. It may change the line.
func (h *headFilter) mustDrop(line []byte) bool {
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
			value = once(value)
			h.drops = h.drops || len(value) == 0 || string(value) == "-1" // which programs have for a length that they do not know
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			value = once(value)
			chunked := bytes.EqualFold(value, []byte("chunked"))
			h.drops = h.drops || len(value) == 0 || uncoded(value) || h.chunked && chunked
			h.chunked = h.chunked || chunked && !h.drops
		}
	}
	return h.drops
}

// uncoded reports whether a transfer coding is none: that which HTTP once had for this, or those of mails (RFC 2045, section 6.1), for which some
// programs take the field.
func uncoded(coding []byte) bool {
	return slices.ContainsFunc([]string{"identity", "binary", "8bit", "7bit"}, func(none string) bool { return bytes.EqualFold(coding, []byte(none)) })
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

// writeRequest writes the head of a request in the form of HTTP/1.1.
func writeRequest(b *bytes.Buffer, hr *http.Request) {
	for _, s := range [...]string{hr.Method, " ", hr.URL.RequestURI(), " HTTP/1.1\r\nHost: ", hr.Host, "\r\n"} {
		b.WriteString(s)
	}
	hr.Header.Write(b) // a buffer takes everything
	b.WriteString("\r\n")
}

// rawHeads returns the heads of a request and its answer that did not cross the connection as text in the form of HTTP/1.1, as WARC files
// contain them.
func rawHeads(hr *http.Request, resp *http.Response) (request, response []byte) {
	var in, out bytes.Buffer
	writeRequest(&in, hr)
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
	resp.Header.Write(&out)
	out.WriteString("\r\n")
	return in.Bytes(), out.Bytes()
}
