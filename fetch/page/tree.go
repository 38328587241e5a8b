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
	slab = 64
	// keptSlabs is how many of them a tree keeps for the next page: 50 KiB.
	keptSlabs = 4
)

// tree is the sparse tree of a page: the elements that matter as children of one html element, with the attributes
// that matter. Its depth does not depend on the page.
type tree struct {
	limits Config
	root   *html.Node // the document
	body   *html.Node // its only child

	slabs []*nodes // all of the page; those from used on are free
	used  int

	links, metas              int
	based                     bool
	linksDropped, refsDropped int
}

// nodes is memory for elements with up to two attributes each; more attributes are taken from the heap.
type nodes struct {
	used  int
	nodes [slab]html.Node
	attrs [slab][2]html.Attribute
}

// clear makes the tree fit for another page; it reports whether it is worth keeping.
func (t *tree) clear() bool {
	if len(t.slabs) > keptSlabs {
		return false
	}
	for _, s := range t.slabs[:min(t.used+1, len(t.slabs))] {
		clear(s.nodes[:s.used])
		clear(s.attrs[:s.used])
		s.used = 0
	}
	t.used, t.links, t.metas, t.based, t.linksDropped, t.refsDropped = 0, 0, 0, false, 0, 0
	t.body.FirstChild, t.body.LastChild = nil, nil
	return true
}

// element returns memory for an element with n attributes.
func (t *tree) element(n int) *html.Node {
	if t.used < len(t.slabs) && t.slabs[t.used].used == slab {
		t.used++
	}
	if t.used == len(t.slabs) {
		t.slabs = append(t.slabs, new(nodes))
	}
	s := t.slabs[t.used]
	node, attrs := &s.nodes[s.used], &s.attrs[s.used]
	s.used++
	if n <= len(attrs) {
		node.Attr = attrs[:n:n]
	} else {
		node.Attr = make([]html.Attribute, n)
	}
	return node
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
	n := t.element(len(s.attrs))
	n.Type, n.DataAtom, n.Data = html.ElementNode, name, name.String()
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
		if isPlain(a.raw) {
			return a.text
		}
		if len(a.raw) <= maxEscape*t.limits.MaxRefBytes {
			a.text = toValid(unescape(a.raw))
		}
		a.text = bytes.Trim(a.text, asciiSpace)
	}
	return a.text
}

// isPlain reports that a value means what it says: visible ASCII without a character reference.
func isPlain(raw []byte) bool {
	for _, c := range raw {
		if c <= ' ' || c == '&' || c >= 0x7f {
			return false
		}
	}
	return raw != nil
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
