package page

import (
	"bytes"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
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
// XML of any kind is a page if its root element says so.
func IsHTML(contentType string, body []byte) bool {
	media := mediaType(contentType)
	switch media {
	case "text/html", xhtml:
		return true
	case "application/xml", "text/xml":
		text, _ := decode(body, contentType)
		return rootIsHTML(text)
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

// rootIsHTML reports whether the root element of XML is html in the namespace of XHTML, which the doctypes of XHTML imply.
func rootIsHTML(body []byte) bool {
	for tokens, doctype := html.NewTokenizer(bytes.NewReader(body)), false; ; {
		switch tokens.Next() {
		case html.DoctypeToken:
			doctype = bytes.Contains(tokens.Raw(), []byte("//DTD XHTML "))
		case html.StartTagToken, html.SelfClosingTagToken:
			root := tokens.Token()
			return root.DataAtom == atom.Html &&
				(doctype || slices.Contains(root.Attr, html.Attribute{Key: "xmlns", Val: "http://www.w3.org/1999/xhtml"}))
		case html.ErrorToken:
			return false
		}
	}
}

// mediaType returns the type in a Content-Type header, without parameters.
func mediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isBinary reports whether more than one in 32 of the first 1,024 bytes is a control character that text does not have
// (a binary data byte of WHATWG MIME Sniffing, section 3). In random bytes one in ten is. A PDF may begin with a long table in text.
func isBinary(text []byte) bool {
	head := text[:min(len(text), sniffLen)]
	if bytes.HasPrefix(head, []byte("%PDF-")) {
		return true
	}
	controls := 0
	for _, c := range head {
		if c < ' ' && c != '\t' && c != '\n' && c != '\f' && c != '\r' && c != 0x1b {
			controls++
		}
	}
	return controls*32 > len(head)
}

// maxLabel is the longest name of an encoding in an element that is read, in bytes.
const maxLabel = 128

// determine is charset.DetermineEncoding without its parser, which takes as long as reading the links of a small page: only a byte order mark
// overrules a header that names an encoding.
func determine(body []byte, contentType string) (enc encoding.Encoding, name string, certain bool) {
	label := labelIn(contentType, "charset")
	if len(body) == 0 || body[0] < 0xef { // the first byte of any byte order mark, and hardly of anything else
		if label == "utf-8" { // most are
			return unicode.UTF8, label, true
		}
		if enc, name = charset.Lookup(label); enc != nil {
			return enc, name, true
		}
	}
	return charset.DetermineEncoding(body, "text/html; charset="+label)
}

// labelIn returns the name of an encoding in a Content-Type, where key is "charset", or in an XML declaration, where it is "encoding"; "" if
// there is none (HTML standard, "algorithm for extracting a character encoding from a meta element"). It reads the first charset of those that
// package mime refuses for what stands beside it.
func labelIn(text, key string) string {
	for rest := strings.ToLower(text); ; {
		var found bool
		if _, rest, found = strings.Cut(rest, key); !found {
			return ""
		}
		label, ok := strings.CutPrefix(strings.TrimLeft(rest, asciiSpace), "=")
		if !ok {
			continue
		}
		label = strings.TrimLeft(label, asciiSpace)
		if label != "" && (label[0] == '"' || label[0] == '\'') {
			if label, _, found = strings.Cut(label[1:], label[:1]); !found {
				return ""
			}
			return label
		}
		if end := strings.IndexAny(label, asciiSpace+";"); end >= 0 {
			label = label[:end]
		}
		return label
	}
}

// labelled returns the encoding that the first meta element with a known one names, or else the XML declaration. DetermineEncoding looks for
// the former in the first 1,024 bytes only, but browsers read a page again if they find it later (HTML standard, "changing the encoding while
// parsing").
func labelled(body []byte) (enc encoding.Encoding, name string) {
	known := func(label string) bool {
		if enc, name = charset.Lookup(label); strings.HasPrefix(name, "utf-16") {
			enc, name = unicode.UTF8, "utf-8" // the label could not be read in UTF-16
		}
		return enc != nil
	}
	for tags := (scanner{b: body}); ; {
		switch tags.next() {
		case 0:
			if declaration, _, _ := bytes.Cut(body[:min(len(body), sniffLen)], []byte(">")); bytes.HasPrefix(declaration, []byte("<?xml")) {
				known(labelIn(string(declaration), "encoding"))
			}
			return enc, name
		case atom.Meta:
		default:
			continue
		}
		raw, _ := tags.value(atom.Charset)
		label := string(raw[:min(len(raw), maxLabel)])
		if pragma, _ := tags.value(atom.HttpEquiv); label == "" && bytes.EqualFold(pragma, []byte("content-type")) {
			content, _ := tags.value(atom.Content)
			label = labelIn(string(content[:min(len(content), maxLabel)]), "charset")
		}
		if known(label) {
			return enc, name
		}
	}
}

// decode returns body in UTF-8 and the name of its encoding. That comes from a byte order mark, the header or a meta
// element, or else is UTF-8 or windows-1252. decode returns ASCII and UTF-8 as they are, with invalid bytes; toValid
// repairs the few values that leave this package.
func decode(body []byte, contentType string) (text []byte, name string) {
	enc, name, certain := determine(body, contentType)
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

// inCharset returns a reference with the text beyond ASCII of its query percent-encoded in an encoding, that of the page, as browsers send it
// (URL standard, "percent-encode after encoding"). All else, and a query on a page in UTF-16, is sent in UTF-8.
func inCharset(ref []byte, name string) []byte {
	rest, _, _ := bytes.Cut(ref, []byte("#"))
	path, query, _ := bytes.Cut(rest, []byte("?"))
	if !bytes.ContainsFunc(query, func(c rune) bool { return c >= utf8.RuneSelf }) {
		return ref
	}
	enc, name := charset.Lookup(name)
	if enc == nil || strings.HasPrefix(name, "utf-") || name == "replacement" {
		return ref
	}
	query, err := enc.NewEncoder().Bytes(append(bytes.Clone(query), ' ')) // the blank ends an escape sequence of ISO-2022-JP
	if err != nil {
		return ref
	}
	const digits = "0123456789ABCDEF"
	out, unknown := slices.Concat(path, []byte("?")), false // what the encoding has not is written as &#1234;
	for i, c := range query[:len(query)-1] {
		unknown = unknown && (c >= '0' && c <= '9' || c == '#' || c == ';') || c == '&' && query[i+1] == '#'
		if c >= 0x7f || c == 0x1b || c == '#' || unknown && (c == '&' || c == ';') {
			out = append(out, '%', digits[c>>4], digits[c&15])
		} else {
			out = append(out, c)
		}
	}
	return append(out, ref[len(rest):]...)
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
