package page

import (
	"bytes"

	"golang.org/x/net/html/atom"
)

// endOfComment returns the place after the comment whose text begins at pos. It ends with "-->" or "--!>", or at once if the
// text begins with ">" or "->" (HTML standard, comment states).
func endOfComment(b []byte, pos int) int {
	if bytes.HasPrefix(b[pos:], []byte(">")) {
		return pos + 1
	}
	if bytes.HasPrefix(b[pos:], []byte("->")) {
		return pos + 2
	}
	for p := pos; p < len(b); {
		p = after(b, p, '>')
		if text := b[pos:p]; bytes.HasSuffix(text, []byte("-->")) || bytes.HasSuffix(text, []byte("--!>")) {
			return p
		}
	}
	return len(b)
}

// endOfRawText returns the place of the end tag that closes the element whose text begins at pos. Without one it is the end
// of the page.
func endOfRawText(b []byte, pos int, name atom.Atom) int {
	switch name {
	case atom.Plaintext:
		return len(b)
	case atom.Script:
		return endOfScript(b, pos)
	}
	for {
		i := bytes.IndexByte(b[pos:], '<')
		if i < 0 {
			return len(b)
		}
		pos += i + 1
		if pos < len(b) && b[pos] == '/' && opens(b[pos+1:], name.String()) {
			return pos - 1
		}
	}
}

// endOfScript is endOfRawText for scripts. In a script, "<!--" hides the end tag of a nested "<script>" (HTML standard,
// script data states). As in html.Tokenizer, a "<" before anything but a letter or "/" ends that.
func endOfScript(b []byte, p int) int {
	const (
		plain = iota
		escaped
		doubleEscaped
	)
	state, dashes := plain, 0
	for p < len(b) {
		if state == plain {
			i := bytes.IndexByte(b[p:], '<')
			if i < 0 {
				return len(b)
			}
			p += i
		}
		c := b[p]
		p++
		switch {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			state = plain
		}
		dashes = 0
		if c != '<' || p >= len(b) {
			continue
		}
		closing := b[p] == '/' && opens(b[p+1:], "script")
		switch {
		case closing && state == doubleEscaped:
			p += len("/script>")
			state = escaped
		case closing:
			return p - 1
		case b[p] == '/' || state == doubleEscaped:
		case state == plain:
			if bytes.HasPrefix(b[p:], []byte("!--")) {
				p += len("!--")
				state, dashes = escaped, 2
			}
		case opens(b[p:], "script"):
			p += len("script>")
			state = doubleEscaped
		case !letter[b[p]]:
			state = plain
		}
	}
	return len(b)
}

// opens reports whether b begins with the whole name of a tag, in upper or lower case.
func opens(b []byte, name string) bool {
	if len(b) <= len(name) {
		return false
	}
	for i := range len(name) {
		if lower(b[i]) != name[i] {
			return false
		}
	}
	c := b[len(name)]
	return space[c] || c == '/' || c == '>'
}
