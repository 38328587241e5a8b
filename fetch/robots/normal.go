package robots

import "strings"

// Normalised paths and patterns hold visible ASCII only, which leaves the control characters free for a private alphabet:
// the library must never see a character that its regexps would have to quote (a quoted one counts twice in the length
// of a rule), and needs marks for the begin and the end of a path.
//
// Paths and patterns have two forms. The decoded one is what RFC 9309 compares: octets beyond ASCII encoded, unreserved ones
// decoded. The written one keeps what the author spelt: escapes of unreserved octets stay, and a raw octet beyond ASCII in a
// path, which a serialised URL cannot hold, is like no octet of a rule. Both write the hexadecimal digits in upper case.
const (
	beginMark = "\x1b"
	endMark   = "\x1a"
	rawMark   = 0x1c // stands for a raw octet beyond ASCII in a written path; no rule holds it
	firstMeta = 0x0e
	metas     = ".+?()[]" // become firstMeta, firstMeta+1, …; the other metacharacters of regexps are percent-encoded
)

// maxStars is the number of wildcards of a rule that the library is given; see compile.
const maxStars = 8

// lead opens every text that is handed to the library.
const lead = "////////" + beginMark // maxStars slashes

// robotsPath is /robots.txt in the alphabet of the package.
const robotsPath = "/robots\x0etxt" + endMark

// symbols tells what a literal octet becomes; 0 means that it is percent-encoded. Octets that RFC 3986 does not allow in a
// path or query are encoded, also where only one of RFC 3986 and the WHATWG URL standard wants it ({ } | ^ '), and so are
// literal * and $, which lets %2A and %24 name them (RFC 9309 section 2.2.3).
var symbols = func() (t [256]byte) {
	for c := byte('!'); c <= '~'; c++ {
		if !strings.ContainsRune("\"#$'*<>\\^`{|}", rune(c)) {
			t[c] = c
		}
	}
	for i, c := range []byte(metas) {
		t[c] = firstMeta + byte(i)
	}
	return t
}()

// appendText appends the path, in its decoded or its written form, to dst between lead and end mark.
func appendText(dst []byte, path string, written bool) []byte {
	path, _, _ = strings.Cut(path, "#")
	dst = append(dst, lead...)
	if !strings.HasPrefix(path, "/") {
		dst = append(dst, '/')
	}
	for i := 0; i < len(path); {
		if written && path[i] >= 0x80 {
			dst, i = append(dst, rawMark), i+1
			continue
		}
		dst, i = appendOctet(dst, path, i, written)
	}
	return append(dst, endMark...)
}

// normalPattern returns the rule path (not empty) in the alphabet of the package, decoded or as written. `*` stays the only special character; a
// final `$` becomes the end mark, others are literal. Runs of `*` are one, and a trailing one is dropped, since every rule
// matches a prefix anyway.
func normalPattern(rule string, written bool) string {
	dst := make([]byte, 0, len(rule)+8)
	if rule[0] != '/' && rule[0] != '*' {
		dst = append(dst, '/')
	}
	for i := 0; i < len(rule); {
		switch {
		case rule[i] == '*':
			if len(dst) == 0 || dst[len(dst)-1] != '*' {
				dst = append(dst, '*')
			}
			i++
		case rule[i] == '$' && i == len(rule)-1:
			dst = append(dst, endMark...)
			i++
		default:
			dst, i = appendOctet(dst, rule, i, written)
		}
	}
	p := strings.TrimSuffix(string(dst), "*")
	if p == "" {
		return "/" // `*` alone: everything
	}
	return p
}

// appendOctet appends the normal form of the octet at s[i], which three characters may spell, and returns the index after
// it; written keeps escapes of unreserved octets. A % that opens no escape stays, so that `Disallow: /*%` matches what it seems to.
func appendOctet(dst []byte, s string, i int, written bool) ([]byte, int) {
	c := s[i]
	if c == '%' && i+2 < len(s) {
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi >= 0 && lo >= 0 {
			c = byte(hi<<4 | lo)
			if isUnreserved(c) && !written {
				return append(dst, symbols[c]), i + 3
			}
			return appendEscape(dst, c), i + 3
		}
	}
	if symbols[c] == 0 {
		return appendEscape(dst, c), i + 1
	}
	return append(dst, symbols[c]), i + 1
}

func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

// isUnreserved is RFC 3986 section 2.3: an escape of these octets means no more than the octet.
func isUnreserved(c byte) bool {
	return isAlphanumeric(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isAlphanumeric(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// holdsRaw reports whether a path or query holds raw octets beyond ASCII. Those of a fragment count too, which is no harm.
func holdsRaw(path string) bool {
	for i := range len(path) {
		if path[i] >= 0x80 {
			return true
		}
	}
	return false
}
