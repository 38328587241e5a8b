package sitemap

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// readXML reads a sitemap, an index of sitemaps or a feed, as the root element says. It handles tags one by one without a
// stack, so nested tags cost nothing and unclosed ones do no harm. encoding/xml reads no external entities, and does not
// expand those that a file declares.
func (l *list) readXML(in *input) error {
	if head, _ := in.Peek(headLen); bytes.HasPrefix(head, []byte("<?xml ")) { // the decoder refuses version 1.1
		if i := bytes.Index(head, []byte("?>")); i >= 0 {
			_, _ = in.Discard(i + len("?>")) // never fails: it is buffered
		}
	}
	d := xml.NewDecoder(in)
	d.Strict = false
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // decoded already
	var (
		f    format
		to   *[]string
		name xml.Name // of the element whose text is being read, else empty
		text strings.Builder
	)
	for {
		in.token = 0
		tok, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			if to == nil {
				return fmt.Errorf("%w: no element", ErrFormat)
			}
			return nil
		}
		if err != nil && to == nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err != nil {
			return err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			switch {
			case to == nil:
				if f, to = l.format(tok); to == nil {
					return fmt.Errorf("%w: root element %.40q", ErrFormat, tok.Name.Local)
				}
			case tok.Name == f.entry:
				l.last, l.date = "", time.Time{}
			case tok.Name == f.element && f.attribute:
				if !l.add(to, href(tok.Attr)) {
					return nil
				}
			case tok.Name == f.element, tok.Name == f.dated:
				name = tok.Name
				text.Reset()
			}
		case xml.CharData:
			if name.Local != "" && text.Len() <= l.limits.MaxRefBytes+maxPadding {
				text.Write(tok)
			}
		case xml.EndElement:
			if tok.Name != name {
				continue
			}
			name = xml.Name{}
			if tok.Name == f.dated {
				l.dated(text.String())
			} else if !l.add(to, text.String()) {
				return nil
			}
		}
	}
}

// maxPadding is how many bytes of white space may surround a URL. With more it counts as too long.
const maxPadding = 4096

// format says where a kind of file has its URLs.
type format struct {
	element   xml.Name
	attribute bool     // the URL is in the attribute href rather than in the text
	dated     xml.Name // the element beside it with the time of the last change, if there is one
	entry     xml.Name // the element around both
}

// format recognises a kind of file by its root element. It returns the list to fill, or nil for an unknown kind. The element
// must have the prefix of the root: <image:loc> is no page, and neither is <atom:link> in a feed of RSS. That of RSS 1.0 has
// none, or the one that the root declares for it.
func (l *list) format(root xml.StartElement) (format, *[]string) {
	named := func(local string) xml.Name { return xml.Name{Space: root.Name.Space, Local: local} }
	switch strings.ToLower(root.Name.Local) {
	case "urlset":
		return format{element: named("loc"), dated: named("lastmod"), entry: named("url")}, &l.URLs
	case "sitemapindex":
		return format{element: named("loc"), dated: named("lastmod"), entry: named("sitemap")}, &l.Sitemaps
	case "rss":
		return format{element: named("link")}, &l.URLs
	case "rdf":
		return format{element: xml.Name{Space: prefixOfRSS(root.Attr), Local: "link"}}, &l.URLs
	case "feed":
		return format{element: named("link"), attribute: true}, &l.URLs
	}
	return format{}, nil
}

// prefixOfRSS returns the prefix of the elements of RSS 1.0, "" if they have none.
func prefixOfRSS(attrs []xml.Attr) (prefix string) {
	for _, a := range attrs {
		switch {
		case a.Value != "http://purl.org/rss/1.0/":
		case a.Name.Space == "xmlns":
			prefix = a.Name.Local
		case a.Name.Space == "" && a.Name.Local == "xmlns":
			return ""
		}
	}
	return prefix
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
