package page

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// sniffLen is the number of first bytes that say what a body is.
const sniffLen = 1024

// IsHTML reports whether a body is HTML or XHTML: by the header, or by the first 1,024 bytes where the header is absent
// or says nothing (WHATWG MIME Sniffing, sections 5 and 7). Whether a body labelled as HTML is text is Parse's to find.
func IsHTML(contentType string, body []byte) bool {
	media, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(media)) {
	case "text/html", "application/xhtml+xml":
		return true
	case "", "*/*", "unknown/unknown", "application/unknown":
	default:
		return false
	}
	head := bytes.TrimPrefix(body[:min(len(body), sniffLen)], []byte("\xef\xbb\xbf"))
	media, _, _ = mime.ParseMediaType(http.DetectContentType(head))
	return media == "text/html" || media == "text/xml" && bytes.Contains(head, []byte("<html"))
}

// isBinary reports whether the first 1,024 bytes of a text hold too many control characters that text does not have (the
// binary data bytes of WHATWG MIME Sniffing, section 3): more than one in 32. Random bytes have one in ten.
func isBinary(text []byte) bool {
	head := text[:min(len(text), sniffLen)]
	controls := 0
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\f' && c != '\r' && c != 0x1b {
			controls++
		}
	}
	return controls*32 > len(head)
}

// label is the encoding that a header named.
type label struct {
	contentType string
	enc         encoding.Encoding
	name        string
}

// maxLabel is the longest header remembered, in bytes.
const maxLabel = 128

// determine is charset.DetermineEncoding. A header that names an encoding is overruled by a byte order mark alone, so what
// the last one named is remembered: most servers send one Content-Type with all their pages, and parsing it costs as much
// as reading the links of a small page.
func (ps *Parser) determine(body []byte, contentType string) (enc encoding.Encoding, name string, certain bool) {
	marked := len(body) > 0 && body[0] >= 0xef // the first byte of any byte order mark, and hardly of anything else
	if last := ps.label.Load(); !marked && last != nil && contentType == last.contentType {
		return last.enc, last.name, true
	}
	enc, name, certain = charset.DetermineEncoding(body, contentType)
	if certain && !marked && len(contentType) <= maxLabel {
		ps.label.Store(&label{strings.Clone(contentType), enc, name})
	}
	return enc, name, certain
}

// decode returns body in UTF-8 with the name of the encoding found: byte order mark, header, meta element, and UTF-8 or
// windows-1252, whichever it can be. Bytes that are ASCII or UTF-8 are returned as they are, invalid ones included:
// toValid sees to the few that leave this package.
func (ps *Parser) decode(body []byte, contentType string) (text []byte, name string) {
	enc, name, certain := ps.determine(body, contentType)
	// Only the first 1,024 bytes were looked at, and a label windows-1252 or iso-8859-1 is the default of many editors
	// and servers: text that is valid UTF-8 all through was not written in windows-1252.
	if !certain && name == "windows-1252" && utf8.Valid(body) {
		return body, "utf-8"
	}
	switch name {
	case "utf-8":
		return body, name
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
	default: // all others are ASCII where the high bit is not set
		if !slices.ContainsFunc(body, func(c byte) bool { return c >= utf8.RuneSelf }) {
			return body, name
		}
	}
	text, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		return body, "utf-8"
	}
	return text, name
}

// toValid replaces invalid UTF-8 as browsers do, without a copy where there is none.
func toValid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	valid, err := unicode.UTF8.NewDecoder().Bytes(b)
	if err != nil {
		return bytes.ToValidUTF8(b, []byte("\uFFFD"))
	}
	return valid
}
