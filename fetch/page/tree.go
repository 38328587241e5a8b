package page

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxMetas bounds the meta elements kept of one page: pages have one or two that matter.
	maxMetas = 64
	// maxEscape is how much longer than its text a value may be in the page, because of entities and white space.
	maxEscape = 16
	// slab is the number of nodes allocated at once.
	slab = 32
)

// tree is the sparse tree of a page: the elements that matter as children of one html element, with the attributes
// that matter. Its depth does not depend on the page.
type tree struct {
	limits Config
	root   *html.Node // the document
	body   *html.Node // its only child

	nodes []html.Node // free ones
	attrs []html.Attribute

	links, metas              int
	based                     bool
	linksDropped, refsDropped int
}

func newTree(limits Config) *tree {
	t := &tree{limits: limits, root: &html.Node{Type: html.DocumentNode}}
	t.body = &html.Node{Type: html.ElementNode, DataAtom: atom.Html, Data: "html"}
	t.root.AppendChild(t.body)
	return t
}

// grow adds the elements of text that matter.
func (t *tree) grow(text []byte) {
	var buf [6]attr
	s := sieve{b: text, attrs: buf[:0]}
	for {
		switch name := s.next(); name {
		case 0:
			return
		case atom.A, atom.Area:
			t.link(&s, name, atom.Href)
		case atom.Iframe, atom.Frame:
			t.link(&s, name, atom.Src)
		case atom.Link:
			if rel := t.trimmed(s.attr(atom.Rel)); hasToken(rel, "canonical") || hasToken(rel, "next") {
				t.link(&s, name, atom.Href)
			}
		case atom.Meta:
			if t.metas < maxMetas && t.matters(&s) {
				t.metas++
				t.add(&s, name)
			}
		case atom.Base:
			if href := s.attr(atom.Href); href != nil && !t.based {
				t.based = true
				if len(t.trimmed(href)) > t.limits.MaxRefBytes {
					t.refsDropped++
					continue
				}
				t.add(&s, name)
			}
		}
	}
}

// link adds an element whose attribute key leads to another page.
func (t *tree) link(s *sieve, name, key atom.Atom) {
	a := s.attr(key)
	if a == nil {
		return
	}
	ref := t.trimmed(a)
	switch {
	case !crawlable(ref):
	case len(ref) > t.limits.MaxRefBytes:
		t.refsDropped++
	case t.links >= t.limits.MaxLinks:
		t.linksDropped++
	default:
		t.links++
		t.add(s, name)
	}
}

// matters reports whether a meta element concerns this crawler.
func (t *tree) matters(s *sieve) bool {
	if s.attr(atom.Content) == nil {
		return false
	}
	if equiv := s.attr(atom.HttpEquiv); equiv != nil && bytes.EqualFold(t.trimmed(equiv), []byte("refresh")) {
		return true
	}
	name := t.trimmed(s.attr(atom.Name))
	return bytes.EqualFold(name, []byte("robots")) || len(name) > 0 && bytes.EqualFold(name, []byte(t.limits.Agent))
}

// add appends the current tag of the sieve to the tree.
func (t *tree) add(s *sieve, name atom.Atom) {
	if len(t.nodes) == 0 {
		t.nodes = make([]html.Node, slab)
	}
	if len(t.attrs) < len(s.attrs) {
		t.attrs = make([]html.Attribute, 2*slab)
	}
	n := &t.nodes[0]
	t.nodes = t.nodes[1:]
	n.Type, n.DataAtom, n.Data = html.ElementNode, name, name.String()
	n.Attr = t.attrs[:len(s.attrs):len(s.attrs)]
	t.attrs = t.attrs[len(s.attrs):]
	for i := range s.attrs {
		n.Attr[i].Key = s.attrs[i].key.String()
		n.Attr[i].Val = string(t.trimmed(&s.attrs[i]))
	}
	t.body.AppendChild(n)
}

// trimmed returns the text of an attribute in valid UTF-8 without ASCII white space at either end. Of a value far too
// long for a link it returns the bytes as they stand: decoding them would be for nothing.
func (t *tree) trimmed(a *attr) []byte {
	if a == nil {
		return nil
	}
	if a.text == nil {
		a.text = a.raw
		if len(a.raw) <= maxEscape*t.limits.MaxRefBytes {
			a.text = toValid(unescape(a.raw))
		}
		a.text = bytes.Trim(a.text, asciiSpace)
	}
	return a.text
}

const asciiSpace = " \t\n\f\r"

// attrOf returns an attribute of a node, empty if it has none of this name.
func attrOf(n *html.Node, key string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			return n.Attr[i].Val
		}
	}
	return ""
}

// hasToken reports whether a list of words separated by ASCII white space holds the word, without regard to case.
func hasToken[T string | []byte](list T, word string) bool {
	for w := range strings.FieldsFuncSeq(string(list), func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}
