// Package page says what an HTML page tells a crawler: its links, its base, its character set and whether it may be
// indexed or followed. It owns reading the bytes of one page. It does not resolve links against a base, judge their
// scope or fetch anything.
//
// It is the hot path of a crawl. A sieve passes once over the bytes and lets only the few elements that matter through.
// Of a and area, nearly all of them, the link is taken on the spot: it needs no more than their attributes. The others
// become a sparse html.Node tree, one level deep whatever the nesting of the page, and goquery selects over that. A full
// parse would build a node for each element and text first; the tests hold that it finds the same links.
//
// Links are found where a reader without scripts finds them: noscript is read as markup; comments, script, style,
// title, textarea, template and the text inside of iframe, noembed and noframes are not.
package page

import (
	"bytes"
	"strings"
	"sync"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// Kind says which element a link comes from.
type Kind uint8

// The kinds of links.
const (
	Anchor    Kind = iota + 1 // a, area
	Frame                     // iframe, frame
	Canonical                 // link rel=canonical
	Next                      // link rel=next
	Refresh                   // meta http-equiv=refresh
)

// String returns the word for the kind that logs use.
func (k Kind) String() string {
	switch k {
	case Anchor:
		return "anchor"
	case Frame:
		return "frame"
	case Canonical:
		return "canonical"
	case Next:
		return "next"
	case Refresh:
		return "refresh"
	}
	return "unknown"
}

// Link is one reference to another page.
type Link struct {
	// Ref is the reference as written, in UTF-8, its entities decoded, without ASCII white space at either end, still
	// to be resolved. It is never empty, never a mere fragment and has no scheme but http and https. It may lie in the
	// body: most links of most pages are known, and a copy of each would cost more than all else that is done for it.
	Ref  []byte
	Kind Kind
	// NoFollow is set by rel=nofollow on the element.
	NoFollow bool
}

// Reasons why a body is not read as HTML.
const (
	NotHTMLType = "content_type" // the header, or the body where the header is absent, says that it is something else
	NotHTMLData = "binary"       // labelled as HTML, but the first bytes are not text
)

// Page is what one page says.
type Page struct {
	// NotHTML is the reason why the body was not read, or empty. All other fields are then zero.
	NotHTML string
	// Charset is the WHATWG name of the encoding that the body was read in, for example "utf-8" or "windows-1252".
	Charset string
	// Base is the href of the first base element that has one, without ASCII white space at either end.
	Base string
	// Links are in the order of the document, repetitions included, at most Config.MaxLinks.
	Links []Link
	// LinksDropped counts the links beyond Config.MaxLinks, RefsDropped those longer than Config.MaxRefBytes.
	LinksDropped, RefsDropped int
	// NoIndex and NoFollow are what meta elements named "robots" or after the agent ask for, taken together.
	NoIndex, NoFollow bool
}

// selector finds the elements of the sparse tree, in the order of the document.
var selector = cascadia.MustCompile("iframe[src], frame[src], link[href], meta[content], base[href]")

// Parser reads pages. It is safe for concurrent use.
type Parser struct {
	limits   Config
	readings sync.Pool // of *reading: what one page needed, the next needs too
}

// New makes a parser. Limits are taken as Config.Validate passes them.
func New(limits Config) *Parser { return &Parser{limits: limits} }

// Parse reads a page. contentType is the value of the header, which may be empty. Time and memory are linear in the
// length of body; body is not changed, and kept in Links alone, which take the place of what was in memory.
func (ps *Parser) Parse(body []byte, contentType string, memory []Link) Page {
	if !IsHTML(contentType, body) {
		return Page{NotHTML: NotHTMLType}
	}
	r, ok := ps.readings.Get().(*reading)
	if !ok {
		r = newReading(ps.limits)
	}
	text, charset := r.labels.decode(body, contentType)
	if isBinary(text) {
		ps.readings.Put(r)
		return Page{NotHTML: NotHTMLData}
	}
	p := r.read(text, memory[:0])
	p.Charset = charset
	if r.clear() {
		ps.readings.Put(r)
	}
	return p
}

// add appends a link unless the page has enough.
func (p *Page) add(limits Config, l Link) {
	if len(p.Links) >= limits.MaxLinks {
		p.LinksDropped++
		return
	}
	p.Links = append(p.Links, l)
}

// meta reads a meta element, which can be a refresh and a robots rule at once.
func (p *Page) meta(limits Config, n *html.Node) {
	content := attrOf(n, "content")
	if strings.EqualFold(attrOf(n, "http-equiv"), "refresh") {
		if ref := []byte(refreshRef(content)); crawlable(ref) {
			if len(ref) > limits.MaxRefBytes {
				p.RefsDropped++
			} else {
				p.add(limits, Link{Ref: ref, Kind: Refresh})
			}
		}
	}
	if name := attrOf(n, "name"); strings.EqualFold(name, "robots") || strings.EqualFold(name, limits.Agent) {
		noindex, nofollow := directives(content)
		p.NoIndex = p.NoIndex || noindex
		p.NoFollow = p.NoFollow || nofollow
	}
}

// crawlable reports whether a reference can lead to another page: it is not empty, not a fragment of this page, and
// has no scheme or one of http and https. Browsers drop tabs and newlines from URLs, so they cannot hide a scheme.
func crawlable(ref []byte) bool {
	if len(ref) == 0 || ref[0] == '#' {
		return false
	}
	// Most refs can be told at their first bytes.
	if ref[0] == '/' || ref[0] == '.' || bytes.HasPrefix(ref, []byte("http://")) || bytes.HasPrefix(ref, []byte("https://")) {
		return true
	}
	var scheme [6]byte
	n := 0
	for _, c := range ref {
		switch c = lower(c); {
		case c == '\t' || c == '\n' || c == '\r':
			continue
		case c == ':':
			s := scheme[:min(n, len(scheme))]
			return n == 0 || bytes.Equal(s, []byte("http")) || bytes.Equal(s, []byte("https"))
		case c >= 'a' && c <= 'z', n > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
			if n < len(scheme) {
				scheme[n] = c
			}
			n++
		default:
			return true
		}
	}
	return n > 0
}
