package page

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// sieve passes over a page and stops at the start tags that matter. It divides bytes into tags, comments and raw text
// exactly as html.Tokenizer does (the tests compare them), but allocates nothing, spends little time on other elements
// and is not slowed down by tags with a million attributes.
type sieve struct {
	b   []byte
	pos int
	// templates counts the template elements and foreign the svg and math elements that are open.
	templates, foreign int
	// kept are the first n attributes of the current tag that matter, first of each name, in the order of the tag.
	kept [6]attr // as many as attribute knows
	n    int
}

// attr is one attribute as it stands in the page. A place costs the garbage collector nothing, where a slice does.
type attr struct {
	key      atom.Atom
	from, to int // the value, without quotation marks
}

// next returns the next start tag that matters, 0 at the end of the page. Its attributes are valid until the next call.
func (s *sieve) next() atom.Atom {
	b, p := s.b, s.pos
	for {
		if p < len(b) && b[p] != '<' { // tags often follow each other
			i := bytes.IndexByte(b[p:], '<')
			if i < 0 {
				break
			}
			p += i
		}
		p++
		if p >= len(b) {
			break
		}
		c, tag := b[p], p // tag is where the name of a start or end tag begins
		switch {
		case letter[c]:
		case c == '/':
			if tag++; tag >= len(b) || !letter[b[tag]] {
				p = after(b, tag, '>')
				continue
			}
		case c == '!':
			if p++; bytes.HasPrefix(b[p:], []byte("--")) {
				p = endOfComment(b, p+2)
			} else {
				p = after(b, p, '>')
			}
			continue
		case c == '?':
			p = after(b, p, '>')
			continue
		default:
			continue
		}
		for p = tag + 1; p < len(b) && !endsName[b[p]]; p++ {
		}
		if c == '/' {
			if s.templates > 0 || s.foreign > 0 {
				s.pos = p
				s.end(element(b[tag:p]))
				p = s.pos
				continue
			}
		} else if telling[c] {
			if name := element(b[tag:p]); name != 0 {
				s.pos = p
				if s.start(name) {
					return name
				}
				p = s.pos
				continue
			}
		}
		// A tag that does not matter.
		if p < len(b) && b[p] == '>' {
			p++
			continue
		}
		s.pos = p
		s.attributes(false)
		p = s.pos
	}
	s.pos = len(b)
	return 0
}

// start reads a start tag from behind its name on. It reports whether the element matters here.
func (s *sieve) start(name atom.Atom) bool {
	wanted := false
	switch name {
	case atom.A, atom.Area, atom.Base, atom.Frame, atom.Iframe, atom.Link, atom.Meta:
		wanted = s.templates == 0
	}
	closed, ok := s.attributes(wanted)
	if !ok {
		return false
	}
	switch name {
	case atom.A:
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
	return wanted
}

// end reads an end tag from behind its name on. It matters only where a template, svg or math element is open.
func (s *sieve) end(name atom.Atom) {
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

// attributes reads from behind the name of a tag to behind its ">" and keeps the attributes that matter, if wanted.
// closed says that the tag ends in "/>", ok that it ended at all.
func (s *sieve) attributes(wanted bool) (closed, ok bool) {
	s.n = 0
	b, p := s.b, s.pos
	valueEnd := -1
	for {
		for p < len(b) && space[b[p]] {
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
		if b[p] == '=' {
			p++
		}
		for p < len(b) && !endsKey[b[p]] {
			p++
		}
		key := b[from:p]
		for p < len(b) && space[b[p]] {
			p++
		}
		value, end := 0, 0
		switch {
		case p >= len(b):
		case b[p] == '/':
			p++
		case b[p] == '=':
			p++
			for p < len(b) && space[b[p]] {
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
				value, end = p+1, p+1+n
				p += n + 2
			default:
				value = p
				for p < len(b) && !endsValue[b[p]] {
					p++
				}
				end, valueEnd = p, p
			}
		}
		if wanted {
			if key := attribute(key); key != 0 && !s.has(key) {
				s.kept[s.n] = attr{key, value, end}
				s.n++
			}
		}
	}
	s.pos = len(b)
	return false, false
}

// attrs are the attributes of the current tag that matter.
func (s *sieve) attrs() []attr { return s.kept[:s.n] }

// has reports whether the current tag has an attribute.
func (s *sieve) has(key atom.Atom) bool {
	_, ok := s.value(key)
	return ok
}

// value returns the value of an attribute of the current tag as it stands in the page; ok is false if the tag has none
// of this name.
func (s *sieve) value(key atom.Atom) (raw []byte, ok bool) {
	for i := range s.attrs() {
		if a := &s.kept[i]; a.key == key {
			return s.raw(a), true
		}
	}
	return nil, false
}

// raw is the value of an attribute as it stands in the page.
func (s *sieve) raw(a *attr) []byte { return s.b[a.from:a.to] }

// after returns the place behind the next c from pos on, the end if there is none.
func after(b []byte, pos int, c byte) int {
	if i := bytes.IndexByte(b[pos:], c); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}
