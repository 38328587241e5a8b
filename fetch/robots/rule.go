package robots

import (
	"cmp"
	"slices"
	"strings"
)

// rule is one Allow or Disallow line.
type rule struct {
	pattern string // decoded
	written string // as written, where that is an Allow with escapes of unreserved octets; else ""
	allow   bool
}

func newRule(path string, allow bool) rule {
	l := rule{pattern: normalPattern(path, false), allow: allow}
	if allow && strings.Contains(path, "%") {
		if written := normalPattern(path, true); written != l.pattern {
			l.written = written
		}
	}
	return l
}

// directory returns the Allow of a directory that an Allow of its index.html implies. An escape within the name of the page
// implies nothing.
func (l rule) directory() (rule, bool) {
	const page = "/index\x0ehtml"
	dir, ok := strings.CutSuffix(strings.TrimSuffix(l.pattern, endMark), page)
	if !ok || !l.allow {
		return rule{}, false
	}
	implied := rule{pattern: dir + "/" + endMark, allow: true}
	if l.written != "" {
		if dir, ok = strings.CutSuffix(strings.TrimSuffix(l.written, endMark), page); !ok {
			return rule{}, false
		}
		implied.written = dir + "/" + endMark
	}
	return implied, true
}

// speltRules returns the distinct rules, the strongest first, if there is an Allow with needless escapes among them. Hardly
// any file has one. Its Allow is no part of the answer unless the path spells it the same way, and then what it overrules
// does count: that depends on the path, so one group built beforehand cannot tell.
func speltRules(rules []rule) []rule {
	if !slices.ContainsFunc(rules, func(l rule) bool { return l.written != "" }) {
		return nil
	}
	spelt := slices.Clone(rules)
	slices.SortFunc(spelt, func(a, b rule) int {
		if a.allow != b.allow && len(a.pattern) == len(b.pattern) {
			if a.allow {
				return -1
			}
			return 1
		}
		return cmp.Or(len(b.pattern)-len(a.pattern), strings.Compare(a.pattern, b.pattern), strings.Compare(a.written, b.written))
	})
	return slices.Compact(spelt)
}

// speltAllows decides by the first of the rules that covers the path, given in both forms without its lead. An Allow with
// needless escapes must cover both.
func speltAllows(rules []rule, path, written string) bool {
	for _, l := range rules {
		if covers(l.pattern, path) && (l.written == "" || covers(l.written, written)) {
			return l.allow
		}
	}
	return true
}

// anyCovers reports whether one of the encoded patterns matches the encoded path. The time is linear in the patterns and
// in the path: taking the leftmost place of every literal is never worse than a later one, so nothing is tried twice.
func anyCovers(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return covers(p, path) })
}

func covers(pattern, path string) bool {
	literal, pattern, more := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(path, literal)
	for ok && more {
		literal, pattern, more = strings.Cut(pattern, "*")
		_, rest, ok = strings.Cut(rest, literal)
	}
	return ok
}
