package identity

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// params are the parameters that are removed from the query and from the path of URLs. They are immutable.
type params struct {
	query, path names
	whole       [256][]string // patterns of path.Match for whole queries, by their first byte as names are
}

// names is a set of names. They are kept by their first byte: most parameters begin with another one than all names, and the rest is compared
// with few.
type names [256][]name

// name is a name, or with open the beginning of one. If digits is above 0, only a value of so many hexadecimal digits counts.
type name struct {
	text   string
	open   bool
	digits int
}

func newParams(list []string) (p params) {
	for _, entry := range list {
		if pattern, ok := strings.CutPrefix(entry, "?"); ok {
			for c := range p.whole {
				if pattern[0] == byte(c) || strings.IndexByte(`*?[\`, pattern[0]) >= 0 {
					p.whole[c] = append(p.whole[c], pattern)
				}
			}
			continue
		}
		set := &p.query
		if rest, ok := strings.CutPrefix(entry, ";"); ok {
			set, entry = &p.path, rest
		}
		var n name
		n.text, n.digits, _ = cutDigits(entry)
		n.text, n.open = strings.CutSuffix(n.text, "*")
		set[n.text[0]] = append(set[n.text[0]], n)
	}
	return p
}

// cutDigits splits "sid=32" into a name and the number of digits that its value must have, which is 1 to 99.
func cutDigits(entry string) (text string, digits int, err error) {
	text, number, sized := strings.Cut(entry, "=")
	if sized {
		if digits, err = strconv.Atoi(number); err != nil || digits < 1 || digits > 99 {
			return "", 0, fmt.Errorf("%q: what follows = must be a number of hexadecimal digits, 1 to 99", entry)
		}
	}
	return text, digits, nil
}

// has says whether the set holds a parameter, which is given as "name=value" or "name".
func (n *names) has(param string) bool {
	if param == "" || n[param[0]] == nil {
		return false
	}
	text, value, _ := strings.Cut(param, "=")
	for i := range n[param[0]] {
		known := &n[param[0]][i]
		if (text == known.text || known.open && strings.HasPrefix(text, known.text)) &&
			(known.digits == 0 || len(value) == known.digits && strings.Trim(value, "0123456789abcdefABCDEF") == "") {
			return true
		}
	}
	return false
}

// strip removes the parameters from a path with its query, and then the query if a pattern matches what is left. Text without such parameters
// is returned as it is, without allocation.
func (p *params) strip(s string) string {
	s = p.stripEach(s)
	page, query, _ := strings.Cut(s, "?")
	if query == "" {
		return s
	}
	for _, pattern := range p.whole[query[0]] {
		if same, _ := path.Match(pattern, query); same {
			return page
		}
	}
	return s
}

// stripEach removes single parameters. The others keep their order and form.
func (p *params) stripEach(s string) string {
	path, query, _ := strings.Cut(s, "?")
	shorter := p.stripPath(path)
	if len(shorter) == len(path) && !p.inQuery(query) {
		return s
	}
	var stack [512]byte
	b := append(stack[:0], shorter...)
	separator := byte('?')
	for param := range strings.SplitSeq(query, "&") {
		if !p.query.has(param) {
			b = append(append(b, separator), param...)
			separator = '&'
		}
	}
	// A question mark alone is no query.
	if len(b) == len(shorter)+1 {
		b = b[:len(shorter)]
	}
	return string(b)
}

func (p *params) inQuery(query string) bool {
	for param := range strings.SplitSeq(query, "&") {
		if p.query.has(param) {
			return true
		}
	}
	return false
}

func (p *params) stripPath(path string) string {
	for from := 0; ; {
		at := strings.IndexByte(path[from:], ';')
		if at < 0 {
			return path
		}
		at += from
		end := len(path)
		if next := strings.IndexAny(path[at+1:], ";/"); next >= 0 {
			end = at + 1 + next
		}
		from = at + 1
		if !p.path.has(path[at+1 : end]) {
			continue
		}
		// What is left of the segment must not mean another directory: /a/..;jsessionid=1/b stays.
		shorter := path[:at] + path[end:]
		if dotSegment(shorter[strings.LastIndexByte(path[:at], '/')+1:]) {
			continue
		}
		path, from = shorter, at
	}
}
