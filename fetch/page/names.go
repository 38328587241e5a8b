package page

import "golang.org/x/net/html/atom"

// Classes of bytes. A table answers at once what a chain of comparisons answers slowly, in the loops that see every byte
// of a tag.
var (
	space = class(" \n\t\r\f") // ASCII white space
	// endsName are the bytes behind the name of a tag, endsKey those behind the name of an attribute.
	endsName = class(" \n\t\r\f/>")
	endsKey  = class(" \n\t\r\f/>=")
	// endsValue are the bytes behind a value without quotation marks.
	endsValue = class(" \n\t\r\f>")
	letter    = class("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	// telling are the letters that the names in element begin with: most tags of a page are passed over by them.
	telling = class("abfilmnpstxABFILMNPSTX")
)

func class(chars string) (t [256]bool) {
	for i := range len(chars) {
		t[chars[i]] = true
	}
	return t
}

// element finds the name of an element that matters, without regard to case; it returns 0 for any other. The name begins
// with a letter. Length and first letter leave one or two names to compare.
func element(name []byte) atom.Atom {
	switch len(name)<<8 | int(name[0]|0x20) {
	case 1<<8 | 'a':
		return atom.A
	case 4<<8 | 'a':
		return same(name, "area", atom.Area)
	case 4<<8 | 'b':
		return same(name, "base", atom.Base)
	case 5<<8 | 'f':
		return same(name, "frame", atom.Frame)
	case 6<<8 | 'i':
		return same(name, "iframe", atom.Iframe)
	case 4<<8 | 'l':
		return same(name, "link", atom.Link)
	case 4<<8 | 'm':
		return same(name, "math", atom.Math) | same(name, "meta", atom.Meta) // at most one of them is not 0
	case 7<<8 | 'n':
		return same(name, "noembed", atom.Noembed)
	case 8<<8 | 'n':
		return same(name, "noframes", atom.Noframes)
	case 9<<8 | 'p':
		return same(name, "plaintext", atom.Plaintext)
	case 3<<8 | 's':
		return same(name, "svg", atom.Svg)
	case 5<<8 | 's':
		return same(name, "style", atom.Style)
	case 6<<8 | 's':
		return same(name, "script", atom.Script)
	case 5<<8 | 't':
		return same(name, "title", atom.Title)
	case 8<<8 | 't':
		return same(name, "template", atom.Template) | same(name, "textarea", atom.Textarea)
	case 3<<8 | 'x':
		return same(name, "xmp", atom.Xmp)
	}
	return 0
}

// attribute is element for the names of attributes.
func attribute(name []byte) atom.Atom {
	if len(name) == 0 {
		return 0
	}
	switch len(name)<<8 | int(name[0]|0x20) {
	case 4<<8 | 'h':
		return same(name, "href", atom.Href)
	case 3<<8 | 's':
		return same(name, "src", atom.Src)
	case 3<<8 | 'r':
		return same(name, "rel", atom.Rel)
	case 4<<8 | 'n':
		return same(name, "name", atom.Name)
	case 7<<8 | 'c':
		return same(name, "content", atom.Content)
	case 10<<8 | 'h':
		return same(name, "http-equiv", atom.HttpEquiv)
	}
	return 0
}

// same returns a if name is want, which is as long, without regard to case.
func same(name []byte, want string, a atom.Atom) atom.Atom {
	for i := range len(want) {
		if lower(name[i]) != want[i] {
			return 0
		}
	}
	return a
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func isLetter(c byte) bool { return letter[c] }

func isSpace(c byte) bool { return space[c] }
