package page

import (
	"slices"
	"strings"
)

// RobotsTag reads the values of X-Robots-Tag headers for an agent, a product token in upper or lower case. A value may
// name the agent it is for ("proxima: noindex"). Rules after a name are for that agent, up to the next name. All rules for
// the agent count together. RobotsTag ignores rules with an argument, such as unavailable_after.
// (Google Search Central, "Robots meta tag, data-nosnippet, and X-Robots-Tag specifications"; there is no RFC.)
func RobotsTag(header []string, agent string) (noindex, nofollow bool) {
	for _, value := range header {
		mine := true
		for rule := range strings.SplitSeq(value, ",") {
			if name, rest, ok := strings.Cut(rule, ":"); ok {
				name = strings.TrimSpace(name)
				if !isProductToken(name) || hasArgument(name) {
					continue
				}
				mine = strings.EqualFold(name, agent)
				rule = rest
			}
			if !mine {
				continue
			}
			i, f := directives(rule)
			noindex = noindex || i
			nofollow = nofollow || f
		}
	}
	return noindex, nofollow
}

// directives reads a list of robots rules, separated by commas or, as some pages do it, by white space alone.
func directives(list string) (noindex, nofollow bool) {
	for rule := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || isSpace(r) }) {
		switch {
		case strings.EqualFold(rule, "noindex"):
			noindex = true
		case strings.EqualFold(rule, "nofollow"):
			nofollow = true
		case strings.EqualFold(rule, "none"):
			noindex, nofollow = true, true
		}
	}
	return noindex, nofollow
}

// hasArgument reports whether a rule has a colon and an argument, so that it looks like the name of an agent.
func hasArgument(rule string) bool {
	return slices.Contains([]string{"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"}, strings.ToLower(rule))
}

// isProductToken reports whether s can name a robot (RFC 9309, section 2.2.1). It also allows digits and dots, which occur.
func isProductToken(s string) bool {
	if s == "" || !letter[s[0]] {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !letter[c] && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
