package site

import (
	"fmt"
	"slices"
	"strings"

	"proxima/fetch/blocklist"
)

// patterns are texts in which * stands for any bytes, or none. Each is kept as its parts between the asterisks.
type patterns [][]string

// maxPattern bounds the length of a pattern, in bytes. No URL is longer.
const maxPattern = 8 << 10

func parsePatterns(texts []string) (patterns, error) {
	var out patterns
	for i, text := range texts {
		switch {
		case text == "" || len(text) > maxPattern:
			return nil, fmt.Errorf("[%d]: a pattern of %d bytes", i, len(text))
		case text[0] != '/' && text[0] != '*':
			return nil, fmt.Errorf("[%d]: %q begins with neither / nor *", i, text)
		case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
			return nil, fmt.Errorf("[%d]: %q holds what URLs hold as %%XX only", i, text)
		}
		out = append(out, strings.Split(text, "*"))
	}
	return out, nil
}

// match reports whether a pattern matches a whole path.
func (p patterns) match(path string) bool {
	return slices.ContainsFunc(p, func(parts []string) bool { return blocklist.Match(parts, path) })
}
