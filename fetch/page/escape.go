package page

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// unescape decodes the character references of the value of an attribute, and the line ends and zero bytes that the
// HTML standard replaces. It makes no copy where there are none.
func unescape(raw []byte) []byte {
	if bytes.IndexByte(raw, 0) >= 0 {
		raw = bytes.ReplaceAll(raw, []byte{0}, []byte("\uFFFD"))
	}
	if bytes.IndexByte(raw, '\r') >= 0 {
		raw = bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n"))
		raw = bytes.ReplaceAll(raw, []byte("\r"), []byte("\n"))
	}
	i := bytes.IndexByte(raw, '&')
	if i < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for ; i >= 0; i = bytes.IndexByte(raw, '&') {
		out = append(out, raw[:i]...)
		raw = raw[i:]
		n := reference(raw)
		out = appendReference(out, raw[:n], n < len(raw) && raw[n] == '=')
		raw = raw[n:]
	}
	return append(out, raw...)
}

// reference returns the length of what may be a character reference at the start of b: "&", a name or "#" and a number,
// and ";" if present.
func reference(b []byte) int {
	n := 1
	if n < len(b) && b[n] == '#' {
		n++
	}
	for n < len(b) && (isLetter(b[n]) || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	if n < len(b) && b[n] == ';' {
		n++
	}
	return n
}

// appendReference appends the text that a reference in an attribute stands for. In text "&notit;" is "¬it;" and "&not="
// is "¬="; in an attribute, where they are more likely a part of a URL, they are what they are.
func appendReference(out, ref []byte, beforeEquals bool) []byte {
	closed := ref[len(ref)-1] == ';'
	switch {
	case string(ref) == "&amp;":
		return append(out, '&')
	case len(ref) == 1:
		return append(out, ref...)
	case ref[1] == '#':
		return append(out, html.UnescapeString(string(ref))...)
	case !closed && beforeEquals:
		return append(out, ref...)
	}
	text := html.UnescapeString(string(ref))
	// Where only the beginning was a name, the rest of it is left over: the ";", or more than the one character for which
	// each name without ";" stands.
	if closed && strings.HasSuffix(text, ";") && string(ref) != "&semi;" || !closed && utf8.RuneCountInString(text) != 1 {
		return append(out, ref...)
	}
	return append(out, text...)
}
