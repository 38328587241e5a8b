// Package text extracts what an HTML page tells a reader: title, language and main text, without
// navigation, scripts and advertisements. From the text it computes a Fingerprint. Two versions of a page that differ
// only in a counter or a date have the same fingerprint. Pages of different URLs that are nearly alike have similar
// ones (Near).
//
// What a page says of itself is looked up by goquery in a tree of those elements of its first 256 KiB that tell it. The text is read as a
// stream of tags, so time and memory are linear in the page, however deeply its elements are nested (html.Parse, and with it goquery,
// refuses more than 512 levels). The main text is found by the number of words and the link density of each block (Kohlschütter and
// others, "Boilerplate detection using shallow text features", 2010), and by the class names that pages give to other things (as
// Readability does).
//
// Package page finds out whether a page may be indexed.
package text

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// Bounds on what is kept of one page, in bytes. The longest book chapters have 100 kB.
const (
	maxText  = 1 << 20
	maxTitle = 1 << 10
)

// Document is what one page tells a reader. All its texts are valid UTF-8 with single spaces.
type Document struct {
	// Title is that of the title element, else of og:title, else the first h1.
	Title string
	// Language is the first part of a language tag, in lower case ("en"). It comes from the lang attribute, else from
	// the words. It is empty if neither tells.
	Language string
	// Text is the main text, one line for each block.
	Text string
	// Words is the number of words in Text. Two characters of a script without spaces count as one word.
	Words int
	// Fingerprint is that of title and text.
	Fingerprint Fingerprint
}

// Extract reads a page. encoding is the WHATWG name ("utf-8") that package page has found; in XML any element may close itself. Extract
// accepts any body; one without a word gets the fingerprint of its bytes.
func Extract(body []byte, encoding string, xml bool) Document {
	page := decode(body, encoding)
	r := read(page, true, xml)
	if r.kept < fewWords && r.named > manyWords {
		// An element around the whole page may have a name such as "sidebar".
		r = read(page, false, xml)
	}
	d := r.document(readHead(page, xml))
	if d.Fingerprint == (Fingerprint{}) {
		d.Fingerprint = OfBytes(body)
	}
	return d
}

// decode converts a body to UTF-8, without a byte order mark. The result may hold invalid bytes.
func decode(body []byte, encoding string) []byte {
	if enc, name := charset.Lookup(encoding); enc != nil && name != "utf-8" {
		if text, err := enc.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF"))
}

// clean returns a text with single spaces. It cuts it between characters to at most that many bytes.
func clean(text []byte, most int) string {
	text = bytes.ToValidUTF8(text[:min(len(text), 4*most)], []byte("\uFFFD"))
	s := strings.Join(strings.Fields(string(text)), " ")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
