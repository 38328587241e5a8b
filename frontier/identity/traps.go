package identity

import (
	"bytes"
	"strings"
)

// mostSegments bounds MaxPathSegments, so that segments fit on the stack.
const mostSegments = 64

// check reports which bound a URL breaks, or Accepted.
func (t *Traps) check(u URL) Reason {
	if strings.Count(u.Host, ".") >= t.MaxLabels {
		return TooManyLabels
	}
	path, query, _ := strings.Cut(u.Path, "?")
	if reason := t.checkPath(path); reason != Accepted {
		return reason
	}
	if query == "" {
		return Accepted
	}
	if reason := t.checkParams(query); reason != Accepted {
		return reason
	}
	if echoes(u.Name(), path, query, t.MaxEchoes) {
		return QueryLoop
	}
	return Accepted
}

// checkPath counts segments and looks for repeated ones. Source of the idea: Heritrix, PathologicalPathDecideRule and
// TooManyPathSegmentsDecideRule.
func (t *Traps) checkPath(path string) Reason {
	// The blank after a slash at the end is no segment.
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	n := strings.Count(path, "/") + 1
	if n > t.MaxPathSegments {
		return TooManySegments
	}
	if n <= t.MaxRepeatedSegments {
		return Accepted
	}
	var stack [mostSegments]string
	segments := stack[:0]
	for rest, more := path, true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		segments = append(segments, segment)
	}
	for i := 0; i+t.MaxRepeatedSegments < n; i++ {
		seen := 1
		for _, other := range segments[i+1:] {
			if other == segments[i] {
				seen++
			}
		}
		if seen > t.MaxRepeatedSegments {
			return PathLoop
		}
	}
	// A cycle of some period occurs k times in a row where period × (k-1) segments in a row equal those one period on.
	for period := 2; period*t.MaxRepeatedSegments <= n; period++ {
		equal := 0
		for i := range n - period {
			if segments[i] != segments[i+period] {
				equal = 0
				continue
			}
			if equal++; equal == period*(t.MaxRepeatedSegments-1) {
				return PathLoop
			}
		}
	}
	return Accepted
}

// checkParams counts parameters and how often each name occurs.
func (t *Traps) checkParams(query string) Reason {
	n := strings.Count(query, "&") + 1
	if n > t.MaxQueryParams {
		return TooManyParams
	}
	if n <= t.MaxRepeatedParam {
		return Accepted
	}
	// Quadratic, but over the few parameters that MaxQueryParams lets pass, and lengths differ first.
	for rest, more := query, true; more; {
		var param string
		param, rest, more = strings.Cut(rest, "&")
		name := paramName(param)
		seen := 1
		for others, left := rest, more; left; {
			var other string
			other, others, left = strings.Cut(others, "&")
			if paramName(other) == name {
				seen++
			}
		}
		if seen > t.MaxRepeatedParam {
			return QueryLoop
		}
	}
	return Accepted
}

func paramName(param string) string {
	name, _, _ := strings.Cut(param, "=")
	return name
}

// echoes reports whether a query holds the address of its own page more often than most: as the value of a parameter,
// /login?next=/login?next=/login, or after the name of its own host, encoded any number of times.
func echoes(name, path, query string, most int) bool {
	if strings.IndexByte(query, '/') < 0 && !strings.Contains(query, "2F") && !strings.Contains(query, "2f") {
		return false
	}
	var pathStack, queryStack [512]byte
	own := unescape(pathStack[:0], path)
	text := unescape(queryStack[:0], query)
	seen := 0
	for from := 0; ; {
		at := bytes.Index(text[from:], own)
		if at < 0 {
			return false
		}
		at += from
		from = at + 1
		if isEcho(text, at, at+len(own), name) {
			if seen++; seen > most {
				return true
			}
		}
	}
}

// isEcho reports whether the path found at text[at:end] is an address of the page, and not part of another.
func isEcho(text []byte, at, end int, name string) bool {
	if end < len(text) && strings.IndexByte("?&#;", text[end]) < 0 {
		return false
	}
	before := text[:at]
	if len(before) > 0 && before[len(before)-1] == '=' {
		// The root alone, ?a=/&b=/, says little.
		return end-at > 1 || end < len(text) && text[end] == '?'
	}
	for i := len(before) - 1; i >= 0 && (before[i] == ':' || '0' <= before[i] && before[i] <= '9'); i-- {
		if before[i] == ':' {
			before = before[:i]
			break
		}
	}
	return len(before) >= len(name) && string(before[len(before)-len(name):]) == name
}

// unescape decodes a text that was percent-encoded any number of times: %252F is %2F is a slash.
func unescape(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		at := i + 1
		for at+3 < len(s) && s[at:at+2] == "25" && isHex(s[at+2]) && isHex(s[at+3]) {
			at += 2
		}
		if at+1 >= len(s) || !isHex(s[at]) || !isHex(s[at+1]) {
			b = append(b, '%')
			continue
		}
		b = append(b, unhex(s[at])<<4|unhex(s[at+1]))
		i = at + 1
	}
	return b
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
