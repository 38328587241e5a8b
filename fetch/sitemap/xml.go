package sitemap

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readXML reads a sitemap, an index of sitemaps or a feed; the root element says which. It looks at tags one by one and
// keeps no stack, so that nesting costs nothing and unclosed tags do no harm. encoding/xml knows no external entities and
// does not expand those that a file declares.
func (l *list) readXML(in *input) error {
	d := xml.NewDecoder(in)
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // decoded already
	var (
		f    format
		to   *[]string
		name xml.Name // of the element whose text is read, none if empty
		text strings.Builder
	)
	for {
		in.nextToken()
		tok, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			if to == nil {
				return fmt.Errorf("%w: no element", ErrFormat)
			}
			return nil
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if to == nil {
				if f, to = l.format(tok.Name); to == nil {
					return fmt.Errorf("%w: root element %.40q", ErrFormat, tok.Name.Local)
				}
				continue
			}
			if tok.Name != f.element && (f.dated == "" || tok.Name != xml.Name{Space: f.element.Space, Local: f.dated}) {
				continue
			}
			if f.attribute {
				if !l.add(to, href(tok.Attr)) {
					return nil
				}
				continue
			}
			name = tok.Name
			text.Reset()
		case xml.CharData:
			if name.Local != "" && text.Len() <= l.limits.MaxRefBytes+maxPadding {
				text.Write(tok)
			}
		case xml.EndElement:
			if name.Local == "" || tok.Name != name {
				continue
			}
			name = xml.Name{}
			if tok.Name != f.element {
				l.dated(text.String())
				continue
			}
			if !l.add(to, text.String()) {
				return nil
			}
		}
	}
}

// maxPadding is the white space in bytes that may stand around a URL; with more it counts as too long.
const maxPadding = 4096

// format says where the URLs of a kind of file stand.
type format struct {
	element   xml.Name
	attribute bool   // in the attribute href rather than in the text
	dated     string // the element behind it that says when the page was modified, "" where there is none
}

// format recognises a kind of file by its root element and returns the list to fill, nil if it is none. The prefix of the
// root is that of the element: <image:loc>, and <atom:link> in a feed, are other things.
func (l *list) format(root xml.Name) (format, *[]string) {
	switch strings.ToLower(root.Local) {
	case "urlset":
		return format{element: xml.Name{Space: root.Space, Local: "loc"}, dated: "lastmod"}, &l.URLs
	case "sitemapindex":
		return format{element: xml.Name{Space: root.Space, Local: "loc"}, dated: "lastmod"}, &l.Sitemaps
	case "rss":
		return format{element: xml.Name{Space: root.Space, Local: "link"}}, &l.URLs
	case "feed":
		return format{element: xml.Name{Space: root.Space, Local: "link"}, attribute: true}, &l.URLs
	}
	return format{}, nil
}

// href returns the URL of a link element of Atom if it leads to a page (RFC 4287, section 4.2.7).
func href(attrs []xml.Attr) (ref string) {
	for _, a := range attrs {
		switch {
		case a.Name.Space != "":
		case a.Name.Local == "href":
			ref = a.Value
		case a.Name.Local == "rel" && a.Value != "alternate":
			return ""
		}
	}
	return ref
}
