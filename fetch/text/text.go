// Package text says what an HTML page tells a reader: title, description, language and main text, without navigation,
// scripts and advertisements. Of the text it makes a Fingerprint, by which two versions of a page can be told to say
// the same although a counter or a date differs, and two pages of different URLs to be nearly alike (Near).
//
// The page is read once, as a stream of tags: no tree is built, so time and memory are linear in the page whatever is
// nested in what (html.Parse, and with it goquery, refuses pages nested deeper than 512). The main text is found by
// what has proved itself on such a stream: words and link density of each block (Kohlschütter and others, "Boilerplate
// detection using shallow text features", 2010), and the names that pages give to what is no content (Readability's).
//
// Whether a page may be indexed is for package page to say, which reads it anyway.
package text

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
)

// Bounds on what one page yields. The longest book chapters have 100 kB.
const (
	maxText        = 1 << 20
	maxTitle       = 1 << 10
	maxDescription = 4 << 10
)

// Document is what one page says. All its texts are valid UTF-8 with single spaces.
type Document struct {
	// Title is that of the title element, else of og:title, else the first h1.
	Title string
	// Description is what the page says of itself in a meta element.
	Description string
	// Language is the first part of a language tag, in lower case ("en"): by the lang attribute, else by the words,
	// else empty.
	Language string
	// Text is the main text, a line for each block.
	Text string
	// Words is the number of words in it. Every two characters of scripts without spaces count as one.
	Words int
	// Fingerprint is that of title and text.
	Fingerprint Fingerprint
}

// Extract reads a page in an encoding, by its WHATWG name ("utf-8"), as package page has found it. Any body is read;
// one without a word has a fingerprint of its bytes.
func Extract(body []byte, encoding string) Document {
	r := read(decode(body, encoding), true)
	if r.kept < fewWords && r.named > manyWords {
		// The name of a wrapper around everything, such as "with-menu", must not cost the whole page.
		r = read(decode(body, encoding), false)
	}
	d := r.document()
	if d.Fingerprint == (Fingerprint{}) {
		d.Fingerprint = OfBytes(body)
	}
	return d
}

// decode returns a body in UTF-8, which may hold invalid bytes.
func decode(body []byte, encoding string) []byte {
	if enc, name := charset.Lookup(encoding); enc != nil && name != "utf-8" {
		if text, err := enc.NewDecoder().Bytes(body); err == nil {
			return text
		}
	}
	return body
}

// clean returns a text with single spaces, of at most max bytes, cut between characters.
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
