package identity

import (
	"bytes"
	"strings"
)

// What a URL may look like. Lower bounds leave endless sites earlier, and lose more pages of unusual ones.
const (
	// maxURLBytes bounds the length of a URL. Long URLs cost memory and disk, and few pages worth having need above 2,000.
	maxURLBytes = 2048
	// maxLabels bounds the labels of a name. Some name servers answer for any number.
	maxLabels = 10
	// maxPathSegments bounds the segments of a path.
	maxPathSegments = 32
	// maxRepeatedSegments is how often one segment may occur in a path. A cycle of two or more segments may occur one time less
	// in a row: /a/a/a and /a/b/a/b pass, /a/a/a/a and /a/b/a/b/a/b do not.
	maxRepeatedSegments = 3
	// maxQueryParams bounds the parameters of a query.
	maxQueryParams = 32
	// maxRepeatedParam is how often one name of a parameter may occur in a query.
	maxRepeatedParam = 5
	// maxEchoes is how often a URL may hold its own address in its query. One is common: /login?next=/login. Pages that wrap
	// their own address again and again have more.
	maxEchoes = 1
)

// checkTraps returns the bound that a URL breaks, or Accepted.
func checkTraps(u URL) Reason {
	if strings.Count(u.Host, ".") >= maxLabels {
		return TooManyLabels
	}
	path, query, _ := strings.Cut(u.Path, "?")
	if reason := checkPath(path); reason != Accepted {
		return reason
	}
	if query == "" {
		return Accepted
	}
	if reason := checkParams(query); reason != Accepted {
		return reason
	}
	if echoes(u.Name(), path, query) {
		return QueryLoop
	}
	return Accepted
}

// checkPath counts segments and looks for repeated ones, as PathologicalPathDecideRule and TooManyPathSegmentsDecideRule of Heritrix do.
func checkPath(path string) Reason {
	// What follows a slash at the end is no segment.
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	n := strings.Count(path, "/") + 1
	if n > maxPathSegments {
		return TooManySegments
	}
	var stack [maxPathSegments]string
	segments := stack[:0]
	for segment := range strings.SplitSeq(path, "/") {
		segments = append(segments, segment)
	}
	if repeats(segments, maxRepeatedSegments) {
		return PathLoop
	}
	// A cycle occurs k times in a row if period × (k-1) successive segments equal the segments one period later.
	for period := 2; period*maxRepeatedSegments <= n; period++ {
		equal := 0
		for i := range n - period {
			if segments[i] != segments[i+period] {
				equal = 0
				continue
			}
			if equal++; equal == period*(maxRepeatedSegments-1) {
				return PathLoop
			}
		}
	}
	return Accepted
}

func checkParams(query string) Reason {
	if strings.Count(query, "&") >= maxQueryParams {
		return TooManyParams
	}
	var stack [maxQueryParams]string
	names := stack[:0]
	for param := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(param, "=")
		names = append(names, name)
	}
	if repeats(names, maxRepeatedParam) {
		return QueryLoop
	}
	return Accepted
}

// repeats says whether one of some parts occurs more than most times. It is quadratic, but the bounds above leave few parts.
func repeats(parts []string, most int) bool {
	for i := 0; i+most < len(parts); i++ {
		seen := 1
		for _, other := range parts[i+1:] {
			if other == parts[i] {
				seen++
			}
		}
		if seen > most {
			return true
		}
	}
	return false
}

// echoes says whether a query holds the address of its own page more often than maxEchoes: as the value of a parameter, as in
// /login?next=/login?next=/login, or after the name of its own host. The address may be encoded any number of times.
func echoes(name, path, query string) bool {
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
			if seen++; seen > maxEchoes {
				return true
			}
		}
	}
}

// isEcho says whether the path found at text[at:end] is an address of the page, and not a part of another address.
func isEcho(text []byte, at, end int, name string) bool {
	if end < len(text) && strings.IndexByte("?&#;", text[end]) < 0 {
		return false
	}
	before := text[:at]
	if len(before) > 0 && before[len(before)-1] == '=' {
		// The root alone is common in queries: ?a=/&b=/.
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
		for at+3 < len(s) && s[at:at+2] == "25" && unhex(s[at+2]) >= 0 && unhex(s[at+3]) >= 0 {
			at += 2
		}
		if at+1 >= len(s) || unhex(s[at]) < 0 || unhex(s[at+1]) < 0 {
			b = append(b, '%')
			continue
		}
		b = append(b, byte(unhex(s[at])<<4|unhex(s[at+1])))
		i = at + 1
	}
	return b
}

// unhex returns the value of a hexadecimal digit, or -1. URLs hold no control characters, which it would take for digits.
func unhex(c byte) int { return strings.IndexByte("0123456789abcdef", c|0x20) }
