package page

import (
	"bytes"
	"slices"

	"github.com/PuerkitoBio/goquery"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

const (
	// maxMetas bounds the meta elements kept of one page: pages have one or two that matter.
	maxMetas = 64
	// maxEscape is how much longer than its text a value may be in the page, because of entities and white space.
	maxEscape = 16
	// keptLinks is the longest list of links whose memory is kept for the next page: 100 KiB.
	keptLinks = 4 << 10
)

// reading is one page while it is read, with memory that the next page uses again.
type reading struct {
	limits Config
	labels labels
	tree   tree

	anchors       []Link // in the order of the document
	links, metas  int    // links of all elements
	based         bool
	dropped, long int // links beyond the number, and refs beyond the length, that are allowed
}

func newReading(limits Config) *reading {
	r := &reading{limits: limits}
	r.tree.plant()
	return r
}

// clear makes the reading fit for another page; it reports whether it is worth keeping.
func (r *reading) clear() bool {
	clear(r.anchors)
	r.anchors, r.links, r.metas, r.based, r.dropped, r.long = r.anchors[:0], 0, 0, false, 0, 0
	return r.tree.clear() && cap(r.anchors) <= keptLinks
}

// read reads a page in UTF-8, or nearly. Its links go behind links.
func (r *reading) read(text []byte, links []Link) Page {
	r.sift(text)
	p := Page{LinksDropped: r.dropped, RefsDropped: r.long}
	if len(r.tree.twigs) == 0 {
		p.Links = append(links, r.anchors...)
		return p
	}
	p.Links = slices.Grow(links, min(len(r.anchors)+len(r.tree.twigs), r.limits.MaxLinks))
	anchors, twigs := r.anchors, r.tree.twigs
	done := 0
	until := func(at int) {
		for _, l := range anchors[done:at] {
			p.add(r.limits, l)
		}
		done = at
	}
	for _, n := range goquery.NewDocumentFromNode(r.tree.root).FindMatcher(selector).Nodes {
		for twigs[0].node != n { // what the selector did not want
			twigs = twigs[1:]
		}
		until(twigs[0].anchors)
		p.element(r.limits, n)
	}
	until(len(anchors))
	return p
}

// element takes what an element of the tree says into the page.
func (p *Page) element(limits Config, n *html.Node) {
	switch n.DataAtom {
	case atom.Iframe, atom.Frame:
		p.add(limits, Link{Ref: []byte(attrOf(n, "src")), Kind: Frame})
	case atom.Link:
		rel := attrOf(n, "rel")
		kind := Next
		if hasToken(rel, "canonical") {
			kind = Canonical
		}
		p.add(limits, Link{Ref: []byte(attrOf(n, "href")), Kind: kind, NoFollow: hasToken(rel, "nofollow")})
	case atom.Meta:
		p.meta(limits, n)
	case atom.Base:
		p.Base = attrOf(n, "href")
	}
}

// sift takes the links of the anchors of text, and lets its other elements that matter grow in the tree.
func (r *reading) sift(text []byte) {
	s := sieve{b: text}
	for {
		switch name := s.next(); name {
		case 0:
			return
		case atom.A, atom.Area:
			if ref := r.ref(&s, atom.Href); ref != nil {
				rel, ok := s.value(atom.Rel)
				nofollow := ok && hasToken(r.trimmed(rel), "nofollow")
				r.anchors = append(r.anchors, Link{Ref: ref, Kind: Anchor, NoFollow: nofollow})
			}
		case atom.Iframe, atom.Frame:
			if r.ref(&s, atom.Src) != nil {
				r.grow(&s, name)
			}
		case atom.Link:
			rel, _ := s.value(atom.Rel)
			rel = r.trimmed(rel)
			if (hasToken(rel, "canonical") || hasToken(rel, "next")) && r.ref(&s, atom.Href) != nil {
				r.grow(&s, name)
			}
		case atom.Meta:
			if r.metas < maxMetas && r.matters(&s) {
				r.metas++
				r.grow(&s, name)
			}
		case atom.Base:
			if href, ok := s.value(atom.Href); ok && !r.based {
				r.based = true
				if len(r.trimmed(href)) > r.limits.MaxRefBytes {
					r.long++
					continue
				}
				r.grow(&s, name)
			}
		}
	}
}

// ref returns what the attribute key of the current tag refers to, and counts it; nil if that is no link to be kept.
func (r *reading) ref(s *sieve, key atom.Atom) []byte {
	ref, ok := s.value(key)
	if !ok {
		return nil
	}
	ref = r.trimmed(ref)
	switch {
	case !crawlable(ref):
	case len(ref) > r.limits.MaxRefBytes:
		r.long++
	case r.links >= r.limits.MaxLinks:
		r.dropped++
	default:
		r.links++
		return ref
	}
	return nil
}

// matters reports whether a meta element concerns this crawler.
func (r *reading) matters(s *sieve) bool {
	if !s.has(atom.Content) {
		return false
	}
	if equiv, _ := s.value(atom.HttpEquiv); bytes.EqualFold(r.trimmed(equiv), []byte("refresh")) {
		return true
	}
	name, _ := s.value(atom.Name)
	name = r.trimmed(name)
	return bytes.EqualFold(name, []byte("robots")) || len(name) > 0 && bytes.EqualFold(name, []byte(r.limits.Agent))
}

// grow adds the current tag of the sieve to the tree.
func (r *reading) grow(s *sieve, name atom.Atom) {
	attrs := s.attrs()
	n := r.tree.element(name, len(attrs), len(r.anchors))
	for i := range attrs {
		n.Attr[i].Key = attrs[i].key.String()
		n.Attr[i].Val = string(r.trimmed(s.raw(&attrs[i])))
	}
}

// trimmed returns the text of a value in valid UTF-8 without ASCII white space at either end. Of a value far too long for
// a link it returns the bytes as they stand: decoding them would be for nothing.
func (r *reading) trimmed(raw []byte) []byte {
	if isPlain(raw) {
		return raw
	}
	if len(raw) <= maxEscape*r.limits.MaxRefBytes {
		raw = toValid(unescape(raw))
	}
	return bytes.Trim(raw, asciiSpace)
}
