// Package page reads what an HTML page tells a crawler: its links, its base, its character set and whether it may be
// indexed or followed. It does not resolve links against the base, judge their scope or fetch anything.
//
// Reading pages is the hot path of a crawl. So the package has a scanner of its own, which passes once over the bytes and
// stops only at the few elements that matter. It finds the tags that html.Tokenizer finds, and the links that goquery
// selects from the full tree of the page; the tests compare both. It is twenty times as fast as the tree.
//
// The scanner finds the links that a reader without scripts sees. It reads noscript as markup. It skips comments, script,
// style, title, textarea, template (but not shadow trees) and the text inside iframe, noembed and noframes.
package page

import (
	"bytes"
	"encoding/binary"
	"strings"

	"golang.org/x/net/html/atom"
)

// Link is one reference to another page.
type Link struct {
	// Ref is the reference as written: in UTF-8, with entities decoded, without ASCII white space at either end, and not
	// resolved. The text beyond ASCII of a query is percent-encoded in the encoding of the page, unless that is UTF-8. Ref
	// is never empty and never a mere fragment. Its scheme, if any, is http or https. Ref may be a slice of the body: most
	// links are known already, and a copy of each would cost more than all other work on it.
	Ref []byte
	// NoFollow is set by rel=nofollow on the element.
	NoFollow bool
}

// Reasons why a body is not read as HTML.
const (
	NotHTMLType = "content_type" // another type, by the header, or without a header by the body
	NotHTMLData = "binary"       // labelled as HTML, but the first bytes are not text
)

// Page is what one page tells a crawler.
type Page struct {
	// NotHTML is the reason why the body was not read, or empty. All other fields are then zero.
	NotHTML string
	// Charset is the WHATWG name of the encoding that the body was read in, for example "utf-8" or "windows-1252".
	Charset string
	// XML means that the page is sent as XHTML or XML, so that any element may close itself.
	XML bool
	// Base is the href of the first base element that has one, without ASCII white space at either end.
	Base string
	// Links are in the order of the document, repetitions included, at most Config.MaxLinks.
	Links []Link
	// LinksDropped counts the links beyond Config.MaxLinks, RefsDropped those longer than Config.MaxRefBytes.
	LinksDropped, RefsDropped int
	// NoIndex and NoFollow are set if any meta element named "robots" or after the agent asks for it.
	NoIndex, NoFollow bool
}

// Config bounds what one page may yield.
type Config struct {
	// MaxLinks is the number of links kept of one page, some 100 bytes each. Later ones are only counted.
	MaxLinks int `toml:"-"`
	// MaxRefBytes is the length of the longest link kept, in bytes. Longer ones are dropped and counted: most are traps,
	// and servers refuse URLs beyond some 8,000 bytes.
	MaxRefBytes int `toml:"-"`
	// Agent is the product token of fetch.user_agent, without version ("proxima"). Robots directives may name it, in upper
	// or lower case.
	Agent string `toml:"-"`
}

// Default returns the configuration for the open web.
func Default() Config {
	return Config{MaxLinks: 10_000, MaxRefBytes: 4096, Agent: "proxima"}
}

// Parse reads a page within limits. contentType is the value of the header, which may be empty. Time and memory are linear in the
// length of body. Parse does not change body; Links may refer to it. Links are stored in memory, whose old content is
// lost, if there is room.
func (limits Config) Parse(body []byte, contentType string, memory []Link) Page {
	if !IsHTML(contentType, body) {
		return Page{NotHTML: NotHTMLType}
	}
	text, charset := decode(body, contentType)
	if isBinary(text) {
		return Page{NotHTML: NotHTMLData}
	}
	media := mediaType(contentType)
	xml := media == xhtml || strings.HasSuffix(media, "/xml")
	r := reading{limits: &limits, tags: scanner{b: text, xml: xml}, page: Page{Charset: charset, XML: xml, Links: memory[:0]}}
	for {
		name := r.tags.next()
		if name == 0 {
			return r.page
		}
		r.element(name)
	}
}

// reading is the state while one page is read.
type reading struct {
	limits *Config
	tags   scanner
	page   Page
	based  bool // there was a base element with an href
}

func (r *reading) element(name atom.Atom) {
	switch name {
	case atom.A, atom.Area:
		href, ok := r.tags.value(atom.Href)
		if !ok && r.tags.foreign > 0 { // in SVG
			href, ok = r.tags.value(xlinkHref)
		}
		if ok {
			r.add(r.trimmed(href), true)
		}
	case atom.Iframe, atom.Frame:
		r.add(r.value(atom.Src), false)
	case atom.Link:
		_, translated := r.tags.value(atom.Hreflang)
		if rel := r.value(atom.Rel); hasToken(rel, "canonical") || hasToken(rel, "next") || translated && hasToken(rel, "alternate") {
			r.add(r.value(atom.Href), true)
		}
	case atom.Meta:
		r.meta()
	case atom.Base:
		href, ok := r.tags.value(atom.Href)
		if !ok || r.based {
			return
		}
		r.based = true
		if base := r.trimmed(href); len(base) <= r.limits.MaxRefBytes {
			r.page.Base = string(base)
		} else {
			r.page.RefsDropped++
		}
	}
}

// meta reads a meta element, which can be a refresh and a robots rule at once.
func (r *reading) meta() {
	refresh := bytes.EqualFold(r.value(atom.HttpEquiv), []byte("refresh"))
	name := r.value(atom.Name)
	robots := bytes.EqualFold(name, []byte("robots")) || bytes.EqualFold(name, []byte(r.limits.Agent))
	if !refresh && !robots {
		return
	}
	content := string(r.value(atom.Content))
	if refresh {
		r.add([]byte(Refresh(content)), false)
	}
	if robots {
		noindex, nofollow := directives(content)
		r.page.NoIndex = r.page.NoIndex || noindex
		r.page.NoFollow = r.page.NoFollow || nofollow
	}
}

// Refresh returns the URL in a Refresh header or in the content of a meta refresh, such as `5; url='next.html'` (HTML standard, "shared
// declarative refresh steps"). It is "" for a page that refreshes itself.
func Refresh(content string) string {
	s := strings.TrimLeft(content, asciiSpace)
	rest := strings.TrimLeft(s, "0123456789")
	if len(rest) == len(s) && !strings.HasPrefix(rest, ".") {
		return "" // no time
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	s = strings.TrimLeft(rest, asciiSpace)
	if strings.HasPrefix(s, ";") || strings.HasPrefix(s, ",") {
		s = s[1:]
	} else if len(s) == len(rest) {
		return ""
	}
	s = strings.TrimLeft(s, asciiSpace)
	// "url=" may be missing; a word that only begins like it is the URL itself.
	if len(s) >= 3 && strings.EqualFold(s[:3], "url") {
		if after, ok := strings.CutPrefix(strings.TrimLeft(s[3:], asciiSpace), "="); ok {
			s = strings.TrimLeft(after, asciiSpace)
		}
	}
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		quote := s[:1]
		s, _, _ = strings.Cut(s[1:], quote)
	}
	return strings.Trim(s, asciiSpace)
}

// add appends a link of the current tag, unless it cannot lead to a page, is too long, or the page has enough links. related means that
// the rel attribute of the tag says something about the link.
func (r *reading) add(ref []byte, related bool) {
	if r.page.Charset != "utf-8" && len(ref) <= r.limits.MaxRefBytes {
		ref = inCharset(ref, r.page.Charset)
	}
	switch {
	case !crawlable(ref):
	case len(ref) > r.limits.MaxRefBytes:
		r.page.RefsDropped++
	case len(r.page.Links) >= r.limits.MaxLinks:
		r.page.LinksDropped++
	default:
		nofollow := false
		if rel, ok := r.tags.value(atom.Rel); ok && related {
			nofollow = hasToken(r.trimmed(rel), "nofollow")
		}
		r.page.Links = append(r.page.Links, Link{Ref: ref, NoFollow: nofollow})
	}
}

// value returns an attribute of the current tag as text, empty where there is none.
func (r *reading) value(key atom.Atom) []byte {
	raw, _ := r.tags.value(key)
	return r.trimmed(raw)
}

const asciiSpace = " \t\n\f\r"

// maxEscape is how many times longer than its text a value may be in the page, because of entities and white space.
const maxEscape = 16

// trimmed returns the text of a value in valid UTF-8 without ASCII white space at either end. It does not decode a value
// that is far too long for a link.
func (r *reading) trimmed(raw []byte) []byte {
	if isPlain(raw) {
		return raw
	}
	if len(raw) <= maxEscape*r.limits.MaxRefBytes {
		raw = toValid(unescape(raw))
	}
	return bytes.Trim(raw, asciiSpace)
}

// isPlain reports whether a value needs no decoding: it is visible ASCII without a character reference. Most values are.
func isPlain(raw []byte) bool {
	const each = 0x0101010101010101
	for ; len(raw) >= 8; raw = raw[8:] { // eight at a time; any of these sums has a high bit if one of the bytes is not plain
		w := binary.LittleEndian.Uint64(raw)
		if (w|(w-each*(' '+1))|(w+each*(0x80-0x7f))|((w^each*'&')-each))&(each*0x80) != 0 {
			return false
		}
	}
	for _, c := range raw {
		if c <= ' ' || c == '&' || c >= 0x7f {
			return false
		}
	}
	return true
}

// crawlable reports whether a reference can lead to another page: it is not empty, not a fragment of this page, and
// has no scheme or one of http and https. Browsers drop tabs and newlines from URLs, so they cannot hide a scheme.
func crawlable(ref []byte) bool {
	if len(ref) == 0 || ref[0] == '#' {
		return false
	}
	// The first bytes of most references are enough.
	if ref[0] == '/' || ref[0] == '.' || bytes.HasPrefix(ref, []byte("http://")) || bytes.HasPrefix(ref, []byte("https://")) {
		return true
	}
	var scheme []byte
	for _, c := range ref {
		switch c = lower(c); {
		case c == '\t' || c == '\n' || c == '\r':
		case c == ':':
			return len(scheme) == 0 || string(scheme) == "http" || string(scheme) == "https"
		case letter[c], len(scheme) > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
			scheme = append(scheme, c)
		default:
			return true
		}
	}
	return len(scheme) > 0
}

// hasToken reports whether a list of words separated by ASCII white space holds the word, which is in ASCII, without
// regard to case.
func hasToken(list []byte, word string) bool {
	for token := range bytes.FieldsFuncSeq(list, isSpace) {
		if len(token) == len(word) && bytes.EqualFold(token, []byte(word)) {
			return true
		}
	}
	return false
}
