package page

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// sieve passes over a page and stops at the start tags that matter. It divides bytes into tags, comments and raw text
// exactly as html.Tokenizer does (the tests compare them), but allocates nothing, spends no time on the attributes of
// other elements and is not slowed down by tags with a million attributes.
type sieve struct {
	b   []byte
	pos int
	// templates counts the template elements and foreign the svg and math elements that are open.
	templates, foreign int
	// attrs are those attributes of the current tag that matter, first of each name, in the order of the tag.
	attrs []attr
}

// attr is one attribute as it stands in the page.
type attr struct {
	key  atom.Atom
	raw  []byte // the value, without quotation marks
	text []byte // the value decoded, once it was asked for
}

// next returns the next start tag that matters, 0 at the end of the page. Its attributes are valid until the next call.
func (s *sieve) next() atom.Atom {
	for {
		i := bytes.IndexByte(s.b[s.pos:], '<')
		if i < 0 || s.pos+i+1 >= len(s.b) {
			s.pos = len(s.b)
			return 0
		}
		s.pos += i + 1
		switch c := s.b[s.pos]; {
		case isLetter(c):
			if name := s.start(); name != 0 {
				return name
			}
		case c == '/':
			s.pos++
			s.end()
		case c == '!':
			s.pos++
			if bytes.HasPrefix(s.b[s.pos:], []byte("--")) {
				s.pos = endOfComment(s.b, s.pos+2)
			} else {
				s.pos = after(s.b, s.pos, '>')
			}
		case c == '?':
			s.pos = after(s.b, s.pos, '>')
		}
	}
}

// start reads a start tag from its name on. It returns 0 if the element does not matter here.
func (s *sieve) start() atom.Atom {
	name := s.name()
	wanted := false
	switch name {
	case atom.A, atom.Area, atom.Base, atom.Frame, atom.Iframe, atom.Link, atom.Meta:
		wanted = s.templates == 0
	}
	closed, ok := s.attributes(wanted)
	if !ok {
		return 0
	}
	switch name {
	case atom.Template:
		s.templates++
	case atom.Svg, atom.Math:
		if !closed {
			s.foreign++
		}
	case atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp, atom.Iframe, atom.Noembed, atom.Noframes, atom.Plaintext:
		// In SVG and MathML an element can close itself; in HTML it cannot, and what follows is its text.
		if !closed || s.foreign == 0 {
			s.pos = endOfRawText(s.b, s.pos, name)
		}
	}
	if !wanted {
		return 0
	}
	return name
}

// end reads an end tag from behind the "</" on.
func (s *sieve) end() {
	if s.pos >= len(s.b) || !isLetter(s.b[s.pos]) {
		s.pos = after(s.b, s.pos, '>')
		return
	}
	name := s.name()
	if _, ok := s.attributes(false); !ok {
		return
	}
	switch name {
	case atom.Template:
		s.templates = max(0, s.templates-1)
	case atom.Svg, atom.Math:
		s.foreign = max(0, s.foreign-1)
	}
}

// name reads the name of a tag. Names that HTML does not know are 0.
func (s *sieve) name() atom.Atom {
	from := s.pos
	b, p := s.b, s.pos
	for p < len(b) && !endsName[b[p]] {
		p++
	}
	s.pos = p
	return lookup(b[from:p])
}

// attributes reads from behind the name of a tag to behind its ">" and keeps the attributes that matter, if wanted.
// closed says that the tag ends in "/>", ok that it ended at all.
func (s *sieve) attributes(wanted bool) (closed, ok bool) {
	s.attrs = s.attrs[:0]
	b, p := s.b, s.pos
	valueEnd := -1
	for {
		for p < len(b) && isSpace(b[p]) {
			p++
		}
		if p >= len(b) {
			break
		}
		if b[p] == '>' {
			s.pos = p + 1
			return b[p-1] == '/' && p != valueEnd, true
		}
		// A name may begin with "=", and is empty before a "/".
		from := p
		for p < len(b) && !isSpace(b[p]) && b[p] != '/' && b[p] != '>' && (b[p] != '=' || p == from) {
			p++
		}
		key := b[from:p]
		for p < len(b) && isSpace(b[p]) {
			p++
		}
		a := attr{}
		switch {
		case p >= len(b):
		case b[p] == '/':
			p++
		case b[p] == '=':
			p++
			for p < len(b) && isSpace(b[p]) {
				p++
			}
			switch {
			case p >= len(b), b[p] == '>':
			case b[p] == '"', b[p] == '\'':
				n := bytes.IndexByte(b[p+1:], b[p])
				if n < 0 {
					p = len(b)
					break
				}
				a.raw = b[p+1 : p+1+n]
				p += n + 2
			default:
				from := p
				for p < len(b) && !isSpace(b[p]) && b[p] != '>' {
					p++
				}
				a.raw = b[from:p]
				valueEnd = p
			}
		}
		if wanted {
			s.keep(key, a)
		}
	}
	s.pos = len(b)
	return false, false
}

// keep notes an attribute of the current tag if it matters and is the first of its name.
func (s *sieve) keep(key []byte, a attr) {
	switch a.key = lookup(key); a.key {
	case atom.Href, atom.Src, atom.Rel, atom.Name, atom.Content, atom.HttpEquiv:
		if s.attr(a.key) == nil {
			s.attrs = append(s.attrs, a)
		}
	}
}

// attr returns an attribute of the current tag, nil if it has none of this name.
func (s *sieve) attr(key atom.Atom) *attr {
	for i := range s.attrs {
		if s.attrs[i].key == key {
			return &s.attrs[i]
		}
	}
	return nil
}

// endsName are the bytes behind the name of a tag.
var endsName = [256]bool{' ': true, '\n': true, '\t': true, '\r': true, '\f': true, '/': true, '>': true}

// wantedFirst are the letters that the names in lookup begin with: most names of a page are turned away by them.
var wantedFirst = [256]bool{'a': true, 'b': true, 'c': true, 'f': true, 'h': true, 'i': true, 'l': true, 'm': true,
	'n': true, 'p': true, 'r': true, 's': true, 't': true, 'x': true}

// lookup finds the name of an element or attribute that matters, without regard to case; it returns 0 for any other.
func lookup(name []byte) atom.Atom {
	var buf [10]byte
	if len(name) > len(buf) || len(name) == 0 || !wantedFirst[lower(name[0])] {
		return 0
	}
	for i, c := range name {
		buf[i] = lower(c)
	}
	switch string(buf[:len(name)]) {
	case "a":
		return atom.A
	case "area":
		return atom.Area
	case "base":
		return atom.Base
	case "frame":
		return atom.Frame
	case "iframe":
		return atom.Iframe
	case "link":
		return atom.Link
	case "math":
		return atom.Math
	case "meta":
		return atom.Meta
	case "noembed":
		return atom.Noembed
	case "noframes":
		return atom.Noframes
	case "plaintext":
		return atom.Plaintext
	case "script":
		return atom.Script
	case "style":
		return atom.Style
	case "svg":
		return atom.Svg
	case "template":
		return atom.Template
	case "textarea":
		return atom.Textarea
	case "title":
		return atom.Title
	case "xmp":
		return atom.Xmp
	case "content":
		return atom.Content
	case "href":
		return atom.Href
	case "http-equiv":
		return atom.HttpEquiv
	case "name":
		return atom.Name
	case "rel":
		return atom.Rel
	case "src":
		return atom.Src
	}
	return 0
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func isLetter(c byte) bool { c = lower(c); return c >= 'a' && c <= 'z' }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// after returns the place behind the next c from pos on, the end if there is none.
func after(b []byte, pos int, c byte) int {
	if i := bytes.IndexByte(b[pos:], c); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}
