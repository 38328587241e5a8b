package robots

import (
	"cmp"
	"slices"
	"strings"
)

// rule is one Allow or Disallow line in normal form, in which `*` stands for any run of octets.
type rule struct {
	pattern string
	written string // the pattern with its escapes as written, for an Allow with needless escapes; else ""
	allow   bool
}

// end terminates every path in normal form, and every pattern that is tied to the end of the path.
const end = "$"

// robotsPath is /robots.txt in normal form.
const robotsPath = "/robots.txt" + end

func newRule(path string, allow bool) rule {
	l := rule{pattern: normalPattern(path, false), allow: allow}
	if allow && strings.Contains(path, "%") {
		if written := normalPattern(path, true); written != l.pattern {
			l.written = written
		}
	}
	return l
}

// plain reports whether the rule covers exactly the paths that begin with its pattern.
func (l rule) plain() bool { return l.written == "" && !strings.ContainsAny(l.pattern, "*"+end) }

// directory returns the Allow of a directory that an Allow of its index.html implies, as in Google's parser. A page name with an
// escape implies nothing.
func (l rule) directory() (implied rule, ok bool) {
	dirOf := func(pattern string) (string, bool) {
		dir, ok := strings.CutSuffix(strings.TrimSuffix(pattern, end), "/index.html")
		return dir + "/" + end, ok
	}
	implied.allow = true
	if implied.pattern, ok = dirOf(l.pattern); ok && l.written != "" {
		implied.written, ok = dirOf(l.written)
	}
	return implied, ok && l.allow
}

// ranked returns the distinct rules, the strongest first: the longest, and Allow among equals.
func ranked(rules []rule) []rule {
	slices.SortFunc(rules, func(a, b rule) int {
		if a.allow != b.allow && len(a.pattern) == len(b.pattern) {
			if a.allow {
				return -1
			}
			return 1
		}
		return cmp.Or(len(b.pattern)-len(a.pattern), strings.Compare(a.pattern, b.pattern), strings.Compare(a.written, b.written))
	})
	return slices.Compact(rules)
}

// verdict reports what the strongest rule says that covers the path. An Allow with needless escapes must also cover the path as
// written.
func verdict(rules []rule, path, written string) bool {
	for _, l := range rules {
		if covers(l.pattern, path) && (l.written == "" || covers(l.written, written)) {
			return l.allow
		}
	}
	return true
}

// covers reports whether a pattern matches a path from its start. The time is linear: the leftmost place of each literal is never
// worse than a later one, so nothing is tried twice.
func covers(pattern, path string) bool {
	literal, pattern, more := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(path, literal)
	for ok && more {
		literal, pattern, more = strings.Cut(pattern, "*")
		_, rest, ok = strings.Cut(rest, literal)
	}
	return ok
}

// normalPath returns the normal form of a path: octets beyond ASCII encoded and unreserved ones decoded, as RFC 9309 compares
// them. With written set, escapes of unreserved octets stay, and so do raw octets beyond ASCII, which no rule contains.
func normalPath(path string, written bool) string {
	var buffer [512]byte
	dst := buffer[:0]
	if !strings.HasPrefix(path, "/") {
		dst = append(dst, '/')
	}
	return string(append(appendNormal(dst, path, written, written), end...))
}

// normalPattern returns the normal form of the path of a rule, which is not empty. `$` means the end only if it comes last. A run of
// `*` counts as one, and a trailing `*` is dropped, since every rule covers what begins like it.
func normalPattern(path string, written bool) string {
	path, tied := strings.CutSuffix(path, end)
	dst := make([]byte, 0, len(path)+8)
	if path == "" || path[0] != '/' && path[0] != '*' {
		dst = append(dst, '/')
	}
	for i, literal := range strings.Split(path, "*") {
		if i > 0 && (len(dst) == 0 || dst[len(dst)-1] != '*') {
			dst = append(dst, '*')
		}
		dst = appendNormal(dst, literal, written, false)
	}
	switch p := string(dst); {
	case tied:
		return p + end
	case p == "*":
		return "/" // everything
	default:
		return strings.TrimSuffix(p, "*")
	}
}

// appendNormal appends s octet by octet, each as itself or as an escape in upper case. A % that begins no escape stays, so that
// `Disallow: /*%` matches what it seems to.
func appendNormal(dst []byte, s string, keepEscapes, keepRaw bool) []byte {
	const digits = "0123456789ABCDEF"
	for i := 0; i < len(s); i++ {
		c, escaped := s[i], false
		if c == '%' && i+2 < len(s) {
			if hi, lo := unhex(s[i+1]), unhex(s[i+2]); hi >= 0 && lo >= 0 {
				c, i, escaped = byte(hi<<4|lo), i+2, true
			}
		}
		switch {
		case escaped && (keepEscapes || !isUnreserved(c)), !escaped && mustEscape[c] && !(keepRaw && c >= 0x80):
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// mustEscape are the octets that do not belong into a path or query, even if only one of RFC 3986 and the WHATWG URL standard wants
// them encoded ({ } | ^ '). They include `*` and `$`, so that %2A and %24 stand for these literally (RFC 9309 section 2.2.3).
var mustEscape = func() (t [256]bool) {
	for c := range t {
		t[c] = c <= ' ' || c >= 0x7f || strings.IndexByte("\"#$'*<>\\^`{|}", byte(c)) >= 0
	}
	return t
}()

// isUnreserved is RFC 3986 section 2.3: an escape of these octets means no more than the octet.
func isUnreserved(c byte) bool { return isTokenOctet(c) || c == '~' }

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
