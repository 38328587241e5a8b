package page

import "strings"

// Refresh returns the URL in a Refresh header or in the content of a meta refresh, such as `5; url='next.html'` (HTML standard, "shared
// declarative refresh steps"). It is "" for a page that refreshes itself.
func Refresh(content string) string {
	s := strings.TrimLeft(content, asciiSpace)
	rest := strings.TrimLeft(s, "0123456789")
	if len(rest) == len(s) && !strings.HasPrefix(rest, ".") {
		return "" // no time
	}
	rest = strings.TrimLeft(rest, "0123456789.")
	s = strings.TrimLeft(rest, asciiSpace)
	if strings.HasPrefix(s, ";") || strings.HasPrefix(s, ",") {
		s = s[1:]
	} else if len(s) == len(rest) {
		return ""
	}
	s = strings.TrimLeft(s, asciiSpace)
	// "url=" may be missing; a word that only begins like it is the URL itself.
	if len(s) >= 3 && strings.EqualFold(s[:3], "url") {
		if after, ok := strings.CutPrefix(strings.TrimLeft(s[3:], asciiSpace), "="); ok {
			s = strings.TrimLeft(after, asciiSpace)
		}
	}
	if s != "" && (s[0] == '\'' || s[0] == '"') {
		quote := s[:1]
		s, _, _ = strings.Cut(s[1:], quote)
	}
	return strings.Trim(s, asciiSpace)
}
