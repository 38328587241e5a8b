package identity

import (
	"net/url"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// standard parses by the WHATWG URL Standard. It is immutable and safe for concurrent use.
var standard = whatwg.NewParser(whatwg.WithPreParseHostFunc(guardSignedNumbers))

// resolve returns the identity of a link on a page. With the zero base only absolute URLs are accepted.
func resolve(base URL, ref string) (URL, Reason) {
	ref = trim(ref)
	// Links like mailto, javascript and data may be long.
	if at := schemeEnd(ref); at > 0 && !strings.EqualFold(ref[:at], "http") && !strings.EqualFold(ref[:at], "https") {
		return URL{}, Scheme
	}
	if len(ref) > maxRawBytes {
		return URL{}, TooLong
	}
	u, reason, ok := fast(base, ref)
	if !ok {
		if reason := costly(ref); reason != Accepted {
			return URL{}, reason
		}
		u, reason = slowSafe(base, ref)
	}
	// Encoding makes text longer; an identity must be short enough to be parsed again.
	if u.Len() > maxRawBytes {
		return URL{}, TooLong
	}
	if segmentsAbove(u.Path, maxSegments) {
		return URL{}, TooManySegments
	}
	return u, reason
}

// trim removes what never counts: blanks and control characters around a link, as the standard does first of all, and then the fragment.
// The fragment starts at the first #, wherever that is.
func trim(ref string) string {
	ref = strings.TrimFunc(ref, func(r rune) bool { return r <= ' ' })
	ref, _, _ = strings.Cut(ref, "#")
	return ref
}

// maxSegments bounds the segments of an identity, because the parser is quadratic in their number. A raw link may have twice as many,
// because dot segments remove others.
const maxSegments = 512

// segmentsAbove says whether the path of a URL, without its query, has more than most slashes and backslashes.
func segmentsAbove(s string, most int) bool {
	s, _, _ = strings.Cut(s, "?")
	return len(s) > most && strings.Count(s, "/")+strings.Count(s, "\\") > most
}

// costly refuses links that cost the parser many milliseconds, because it is quadratic in the number of segments and in the length of
// credentials. Only pages that want to do harm have such links.
func costly(ref string) Reason {
	if segmentsAbove(ref, 2*maxSegments) {
		return TooManySegments
	}
	const maxAuthority = 512
	if len(ref) <= maxAuthority || strings.IndexByte(ref, '@') < 0 {
		return Accepted
	}
	// The parser ignores these three characters everywhere.
	ref = strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(ref)
	at := schemeEnd(ref)
	if at > 0 {
		ref = ref[at+1:]
	}
	authority := strings.TrimLeft(ref, "/\\")
	if at == 0 && len(ref)-len(authority) < 2 {
		return Accepted
	}
	if end := strings.IndexAny(authority, "/\\?"); end >= 0 {
		authority = authority[:end]
	}
	if len(authority) > maxAuthority && strings.IndexByte(authority, '@') >= 0 {
		return Credentials
	}
	return Accepted
}

// slowSafe is slow, but a panic of the parser costs one link and not the node. Fuzz tests call slow.
func slowSafe(base URL, ref string) (u URL, reason Reason) {
	defer func() {
		if recover() != nil {
			u, reason = URL{}, Malformed
		}
	}()
	return slow(base, ref)
}

// slow resolves a trimmed link with the parser of the standard.
func slow(base URL, ref string) (URL, Reason) {
	if ref != "" && ref[len(ref)-1] <= ' ' {
		// A blank before a fragment belongs to the URL. Without a fragment the parser would cut the blank.
		ref += "#"
	}
	parsed, err := standard.ParseRef(base.String(), ref)
	if err != nil {
		return URL{}, Malformed
	}
	scheme := parsed.Scheme()
	if scheme != "http" && scheme != "https" {
		return URL{}, Scheme
	}
	if parsed.Username() != "" || parsed.Password() != "" {
		return URL{}, Credentials
	}
	authority := parsed.Hostname()
	if !strings.HasPrefix(authority, "[") {
		authority = strings.TrimSuffix(authority, ".")
		if !validName(authority) {
			return URL{}, BadHost
		}
	}
	if port := parsed.Port(); port == "0" {
		return URL{}, BadHost
	} else if port != "" {
		authority += ":" + port
	}
	// Search is empty for an empty query.
	return URL{Host: scheme + "://" + authority, Path: parsed.Pathname() + parsed.Search()}, Accepted
}

// validName says whether DNS can carry a name in normal form and a web server can have it. Host names have no underscores (RFC 952), but
// some sites use them.
func validName(name string) bool {
	if len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// guardSignedNumbers refuses names that the parser wrongly takes for IPv4 addresses: unlike the standard, it reads numbers with a sign
// (1.2.3.-4). Such a host becomes a blank, which the parser refuses.
func guardSignedNumbers(_ *whatwg.Url, host string) string {
	plain, err := url.PathUnescape(host)
	if err != nil || strings.HasPrefix(host, "[") {
		return host
	}
	labels := strings.TrimSuffix(plain, ".")
	last := labels[strings.LastIndexByte(labels, '.')+1:]
	if last == "" || !strings.ContainsAny(last[:1], "+-0123456789") {
		return host
	}
	for label := range strings.SplitSeq(labels, ".") {
		if len(label) > 2 && label[0] == '0' && label[1]|0x20 == 'x' {
			label = label[2:]
		}
		if label != "" && (label[0] == '+' || label[0] == '-') {
			return " "
		}
	}
	return host
}
