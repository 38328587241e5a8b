package page

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// scanner passes over a page and stops at the start tags that matter. It divides bytes into tags, comments and raw text
// exactly as html.Tokenizer does; the tests compare them. But it allocates nothing, spends little time on other elements,
// and is not slowed down by tags with a million attributes.
type scanner struct {
	b   []byte
	pos int
	// xml means that any element may close itself. In HTML only those of SVG and MathML can.
	xml bool
	// templates counts the template elements whose content is not shown, and foreign the svg and math elements, that are open.
	templates, foreign int
	// attrs holds the attributes of the current tag that matter, n of them, in the order of the tag, the first of each name.
	attrs [10]attr // as many as func attribute knows
	n     int
}

// attr is one attribute. It holds places in the page, because slices would cost the garbage collector time.
type attr struct {
	key      atom.Atom
	from, to int // the value, without quotation marks
}

// next returns the next start tag that matters, or 0 at the end of the page. Its attributes are valid until the next call.
func (s *scanner) next() atom.Atom {
	b := s.b
	for {
		if s.pos < len(b) && b[s.pos] != '<' { // tags often follow each other
			s.pos = after(b, s.pos, '<') - 1
		}
		if s.pos++; s.pos >= len(b) {
			s.pos = len(b)
			return 0
		}
		switch c := b[s.pos]; {
		case letter[c]:
			found := atom.Atom(0)
			if name := s.name(); telling[c] {
				found = element(name)
			}
			if found == 0 {
				s.attributes(false)
			} else if s.start(found) {
				return found
			}
		case c == '/' && s.pos+1 < len(b) && letter[b[s.pos+1]]:
			s.pos++
			if name := s.name(); s.pos < len(b) && b[s.pos] == '>' && s.templates|s.foreign == 0 {
				s.pos++
			} else {
				s.end(name)
			}
		case c == '/' && s.pos+1 < len(b): // an end tag without a name is a comment
			s.pos = after(b, s.pos+1, '>')
		case c == '!' && bytes.HasPrefix(b[s.pos:], []byte("!--")):
			s.pos = endOfComment(b, s.pos+len("!--"))
		case c == '!', c == '?':
			s.pos = after(b, s.pos, '>')
		}
	}
}

func (s *scanner) name() []byte {
	b, p := s.b, s.pos+1
	for p < len(b) && !endsName[b[p]] {
		p++
	}
	name := b[s.pos:p]
	s.pos = p
	return name
}

// start reads the rest of a start tag after its name. It reports whether the element matters here.
func (s *scanner) start(name atom.Atom) bool {
	wanted := false
	switch name {
	case atom.A, atom.Area, atom.Base, atom.Frame, atom.Iframe, atom.Link, atom.Meta:
		wanted = s.templates == 0
	}
	closed, ok := s.attributes(wanted || name == atom.Template)
	if !ok || closed && s.xml {
		return ok && wanted
	}
	switch name {
	case atom.Template:
		if s.templates > 0 || !s.shadow() {
			s.templates++
		}
	case atom.Svg, atom.Math:
		if !closed {
			s.foreign++
		}
	case atom.Script, atom.Style, atom.Textarea, atom.Title, atom.Xmp, atom.Iframe, atom.Noembed, atom.Noframes, atom.Plaintext:
		// In HTML what follows is its text.
		if !closed || s.foreign == 0 {
			s.pos = endOfRawText(s.b, s.pos, name)
		}
	}
	return wanted
}

// shadow reports whether the current tag, of a template, begins a declarative shadow tree. What is in it is shown, so it counts as if it stood
// in the element around it.
func (s *scanner) shadow() bool {
	mode, _ := s.value(shadowRootMode)
	mode = unescape(mode)
	return bytes.EqualFold(mode, []byte("open")) || bytes.EqualFold(mode, []byte("closed"))
}

// end reads the rest of an end tag after its name. The tag matters only while a template, svg or math element is open.
func (s *scanner) end(name []byte) {
	if _, ok := s.attributes(false); !ok || s.templates|s.foreign == 0 {
		return
	}
	switch element(name) {
	case atom.Template:
		s.templates = max(0, s.templates-1)
	case atom.Svg, atom.Math:
		s.foreign = max(0, s.foreign-1)
	}
}

// attributes reads the rest of a tag after its name, with its ">". If wanted, it keeps the attributes that matter. closed
// reports that the tag ends in "/>", ok that it ends at all.
func (s *scanner) attributes(wanted bool) (closed, ok bool) {
	s.n = 0
	b, p := s.b, s.pos
	if p < len(b) && b[p] == '>' { // most tags
		s.pos = p + 1
		return false, true
	}
	valueEnd := -1 // end of a value without quotation marks; a "/" before it closes nothing
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
				value, end = p+1, len(b)
				if n := bytes.IndexByte(b[value:], b[p]); n >= 0 {
					end = value + n
				}
				p = end + 1
			default:
				value = p
				for p < len(b) && !endsValue[b[p]] {
					p++
				}
				end, valueEnd = p, p
			}
		}
		if wanted {
			if key := attribute(key); key != 0 {
				if _, twice := s.value(key); !twice {
					s.attrs[s.n] = attr{key, value, end}
					s.n++
				}
			}
		}
	}
	s.pos = len(b)
	return false, false
}

// value returns the value of an attribute of the current tag as it stands in the page. ok is false if the tag has no such
// attribute.
func (s *scanner) value(key atom.Atom) (raw []byte, ok bool) {
	for i := range s.attrs[:s.n] {
		if a := &s.attrs[i]; a.key == key {
			return s.b[a.from:a.to], true
		}
	}
	return nil, false
}

// after returns the place after the next c from pos on, or the end if there is none.
func after(b []byte, pos int, c byte) int {
	if i := bytes.IndexByte(b[pos:], c); i >= 0 {
		return pos + i + 1
	}
	return len(b)
}

// Classes of bytes. In loops that see every byte of a tag, a table is faster than a chain of comparisons.
var (
	space     = class(asciiSpace)
	endsName  = class(asciiSpace + "/>")        // after the name of a tag
	endsKey   = class(asciiSpace + "/>=")       // after the name of an attribute
	endsValue = class(asciiSpace + ">")         // after a value without quotation marks
	telling   = class("abfilmnpstxABFILMNPSTX") // first letters of the elements in func start; most tags have others
	letter    = class("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
)

func class(chars string) (t [256]bool) {
	for i := range len(chars) {
		t[chars[i]] = true
	}
	return t
}

// element finds an element by its name, in upper or lower case. It returns 0 for one that package atom does not know, and for short names
// that do not matter: nearly all tags have one of these, or are links.
func element(name []byte) atom.Atom {
	if len(name) < len("svg") {
		if len(name) == 1 && lower(name[0]) == 'a' {
			return atom.A
		}
		return 0
	}
	var low [len("plaintext")]byte // no element that matters has a longer name
	return atom.Lookup(fold(low[:0], name))
}

// Names of attributes that package atom does not know.
const (
	xlinkHref atom.Atom = iota + 1
	shadowRootMode
)

// attribute finds an attribute that matters by its name. It returns 0 for any other.
func attribute(name []byte) atom.Atom {
	switch len(name) {
	case len("src"), len("href"), len("charset"), len("hreflang"), len("http-equiv"), len("shadowrootmode"):
	default: // "class", "id", "title"
		return 0
	}
	if string(name) == "href" {
		return atom.Href
	}
	var low [len("shadowrootmode")]byte
	name = fold(low[:0], name)
	switch key := atom.Lookup(name); key {
	case atom.Href, atom.Src, atom.Rel, atom.Name, atom.Content, atom.Charset, atom.HttpEquiv, atom.Hreflang:
		return key
	}
	switch string(name) {
	case "xlink:href":
		return xlinkHref
	case "shadowrootmode":
		return shadowRootMode
	}
	return 0
}

// fold appends a name in lower case to low. It returns nil for a name longer than all that matter.
func fold(low, name []byte) []byte {
	if len(name) > cap(low) {
		return nil
	}
	for _, c := range name {
		low = append(low, lower(c))
	}
	return low
}

func isSpace(r rune) bool { return r < 0x80 && space[r] }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
