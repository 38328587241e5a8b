package page

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/net/http/httpguts"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
)

// sniffLen is the number of first bytes that say what a body is.
const sniffLen = 1024

// IsHTML reports whether a body is HTML or XHTML. The header decides, or the first 1,024 bytes if the header is absent or
// names no type (WHATWG MIME Sniffing, sections 5 and 7). Whether a body labelled as HTML is text at all, Parse checks.
func IsHTML(contentType string, body []byte) bool {
	media := mediaType(contentType)
	switch media {
	case "text/html", xhtml:
		return true
	case "*/*", "unknown/unknown", "application/unknown":
	default:
		kind, subtype, _ := strings.Cut(media, "/")
		if httpguts.ValidHeaderFieldName(kind) && httpguts.ValidHeaderFieldName(subtype) {
			return false
		}
	}
	head := bytes.TrimPrefix(body[:min(len(body), sniffLen)], []byte("\xef\xbb\xbf"))
	media, _, _ = mime.ParseMediaType(http.DetectContentType(head))
	return media == "text/html" || media == "text/xml" && bytes.Contains(head, []byte("<html"))
}

// xhtml is the media type of pages in XML.
const xhtml = "application/xhtml+xml"

// mediaType returns the type in a Content-Type header, without parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isBinary reports whether more than one in 32 of the first 1,024 bytes is a control character that text does not have
// (a binary data byte of WHATWG MIME Sniffing, section 3). In random bytes one in ten is.
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

// label is a header and the encoding that it names.
type label struct {
	contentType string
	enc         encoding.Encoding
	name        string
}

// maxLabel is the longest header remembered, in bytes.
const maxLabel = 128

// determine is charset.DetermineEncoding with a memory of one header. Only a byte order mark overrules a header that names
// an encoding, and most servers send the same Content-Type with all pages. Parsing it costs as much as reading the links
// of a small page.
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

// labelled returns the encoding that the first meta element with a known one names. DetermineEncoding looks for it in the first 1,024
// bytes only, but browsers read a page again if they find it later (HTML standard, "changing the encoding while parsing").
func labelled(body []byte) (enc encoding.Encoding, name string) {
	for tags := (scanner{b: body}); ; {
		switch tags.next() {
		case 0:
			return nil, ""
		case atom.Meta:
		default:
			continue
		}
		label, _ := tags.value(atom.Charset)
		if pragma, _ := tags.value(atom.HttpEquiv); len(label) == 0 && bytes.EqualFold(pragma, []byte("content-type")) {
			content, _ := tags.value(atom.Content)
			_, params, _ := mime.ParseMediaType(string(content[:min(len(content), maxLabel)])) //nolint:errcheck // then there is no label
			label = []byte(params["charset"])
		}
		if enc, name = charset.Lookup(string(label[:min(len(label), maxLabel)])); strings.HasPrefix(name, "utf-16") {
			return unicode.UTF8, "utf-8" // the element could not be read in UTF-16
		}
		if enc != nil {
			return enc, name
		}
	}
}

// decode returns body in UTF-8 and the name of its encoding. That comes from a byte order mark, the header or a meta
// element, or else is UTF-8 or windows-1252. decode returns ASCII and UTF-8 as they are, with invalid bytes; toValid
// repairs the few values that leave this package.
func (ps *Parser) decode(body []byte, contentType string) (text []byte, name string) {
	enc, name, certain := ps.determine(body, contentType)
	// DetermineEncoding looks at the first bytes only, and many editors and servers write the label windows-1252 or
	// iso-8859-1 by default. A body that is all valid UTF-8 was not written in windows-1252.
	switch {
	case certain:
	case !utf8.Valid(body):
		if e, n := labelled(body); e != nil {
			enc, name = e, n
		}
	case name == "windows-1252":
		return body, "utf-8"
	}
	switch name {
	case "utf-8":
		return body, name
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
	default: // in all others, bytes without the high bit are ASCII
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

// toValid replaces invalid UTF-8 as browsers do. It copies only if there is some.
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
