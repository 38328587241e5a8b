package blocklist

import (
	"errors"
	"fmt"
	"strings"
)

// glob is a pattern in which * stands for any run of bytes, the empty one included.
type glob struct {
	text  string
	parts []string // what stands between the asterisks; at least one
}

// parseGlob takes patterns for whole URLs. Scheme and host are brought to lower case, as they are in URLs.
func parseGlob(text string) (*glob, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("pattern of %d bytes, not 1 to %d", len(text), maxPattern)
	}
	// It would match nothing, and nobody would notice.
	if strings.ContainsFunc(text, func(r rune) bool { return r >= 0x80 }) {
		return nil, errors.New("pattern with bytes beyond ASCII, which URLs hold as xn-- and %XX")
	}
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return nil, errors.New("pattern without scheme: begin it with *://")
	}
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	text = lowerASCII(scheme) + "://" + lowerASCII(authority) + path
	return &glob{text: text, parts: strings.Split(text, "*")}, nil
}

// match reports whether the pattern covers all of s, in time linear in both: each part between two asterisks is best
// taken where it first occurs, so nothing is ever tried again.
func (g *glob) match(s string) bool {
	first, rest := g.parts[0], g.parts[1:]
	if len(rest) == 0 {
		return s == first
	}
	if !strings.HasPrefix(s, first) {
		return false
	}
	s = s[len(first):]
	for _, part := range rest[:len(rest)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, rest[len(rest)-1])
}

func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, s)
}
