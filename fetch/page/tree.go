package page

import (
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// slab is the number of nodes allocated at once.
	slab = 16
	// keptSlabs is how many of them a tree keeps for the next page: 13 KiB.
	keptSlabs = 4
)

// tree is the sparse tree of a page: the elements that matter, but for the anchors, as children of one html element, with
// the attributes that matter. Its depth does not depend on the page.
type tree struct {
	root *html.Node // the document
	body *html.Node // its only child

	slabs []*nodes // all of the page; those from used on are free
	used  int
	twigs []twig // the children of body
}

// twig is one element with its place.
type twig struct {
	node    *html.Node
	anchors int // how many stand before it in the page
}

// nodes is memory for elements with up to two attributes each; more attributes are taken from the heap.
type nodes struct {
	used  int
	nodes [slab]html.Node
	attrs [slab][2]html.Attribute
}

// plant makes the tree of an empty page.
func (t *tree) plant() {
	t.root = &html.Node{Type: html.DocumentNode}
	t.body = &html.Node{Type: html.ElementNode, DataAtom: atom.Html, Data: "html"}
	t.root.AppendChild(t.body)
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
	t.used, t.twigs = 0, t.twigs[:0]
	t.body.FirstChild, t.body.LastChild = nil, nil
	return true
}

// element appends an element with room for n attributes, which stands behind so many anchors.
func (t *tree) element(name atom.Atom, n, anchors int) *html.Node {
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
	node.Type, node.DataAtom, node.Data = html.ElementNode, name, name.String()
	t.body.AppendChild(node)
	t.twigs = append(t.twigs, twig{node, anchors})
	return node
}

// attrOf returns an attribute of a node, empty if it has none of this name.
func attrOf(n *html.Node, key string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == key {
			return n.Attr[i].Val
		}
	}
	return ""
}
