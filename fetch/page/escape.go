package page

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// unescape decodes the character references in the value of an attribute. It also replaces line ends and zero bytes as the
// HTML standard demands. It copies only if there is something to replace.
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
	for n < len(b) && (letter[b[n]] || b[n] >= '0' && b[n] <= '9') {
		n++
	}
	if n < len(b) && b[n] == ';' {
		n++
	}
	return n
}

// appendReference appends the text that a reference in an attribute stands for. In text, "&notit;" is "¬it;" and "&not="
// is "¬=". In an attribute they stay as they are, because they are more likely part of a URL.
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
	// If only the beginning of the reference was a name, text holds the rest of it too: a ";", or more than the one
	// character that each name without ";" stands for.
	if closed && strings.HasSuffix(text, ";") && string(ref) != "&semi;" || !closed && utf8.RuneCountInString(text) != 1 {
		return append(out, ref...)
	}
	return append(out, text...)
}
