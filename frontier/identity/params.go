package identity

import (
	"slices"
	"strings"
)

// params are the parameters that are removed from the query and from the path of URLs. They are immutable.
type params struct {
	query, path names
}

// names is a set of names and, with a * at the end, of beginnings of names. They are kept by their first byte: most parameters begin with
// another one than all names, and the rest is compared with few.
type names [256][]string

func newParams(list []string) (p params) {
	for _, name := range list {
		set := &p.query
		if rest, ok := strings.CutPrefix(name, ";"); ok {
			set, name = &p.path, rest
		}
		set[name[0]] = append(set[name[0]], name)
	}
	return p
}

// has says whether the set holds the name of a parameter, which is given as "name=value" or "name".
func (n *names) has(param string) bool {
	if param == "" || n[param[0]] == nil {
		return false
	}
	name, _, _ := strings.Cut(param, "=")
	return slices.ContainsFunc(n[param[0]], func(known string) bool {
		begin, open := strings.CutSuffix(known, "*")
		return name == known || open && strings.HasPrefix(name, begin)
	})
}

// strip removes the parameters from a path with its query. The others keep their order and form. Text without such parameters is
// returned as it is, without allocation.
func (p *params) strip(s string) string {
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
