package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL is the length in bytes of the longest URL sent. It bounds what a link can make a request carry.
const maxURL = 16 << 10

// split takes a URL apart without decoding anything, and drops the fragment. asked says that there is a question mark.
func split(raw string) (origin, path, query string, asked bool) {
	raw, _, _ = strings.Cut(raw, "#")
	raw, query, asked = strings.Cut(raw, "?")
	end := strings.Index(raw, "://") + len("://")
	if i := strings.IndexByte(raw[end:], '/'); i >= 0 {
		return raw[:end+i], raw[end+i:], query, asked
	}
	return raw, "", query, asked
}

// target turns a WHATWG-serialised http or https URL into one that net/http sends unchanged. The URL standard allows characters in
// a path that net/url would encode again (`|`, `%zz`, `[`), so the path travels as an opaque part, which net/url never touches.
// target drops the fragment and any user and password.
//
// If an opaque part begins with `//`, net/url puts the scheme before it. So such a path travels as a raw path if net/url keeps it,
// else in the absolute form of the request target, which every server must accept (RFC 9112 section 3.2.2).
func target(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, errors.New("URL is too long")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return nil, errors.New("URL is not serialised: it holds a space, a control byte or a byte beyond ASCII")
		}
	}
	if !strings.HasPrefix(raw, "http://") && !strings.HasPrefix(raw, "https://") {
		return nil, errors.New("URL is neither http nor https")
	}
	origin, path, query, asked := split(raw)
	scheme, authority, _ := strings.Cut(origin, "://")
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if authority == "" {
		return nil, errors.New("URL has no host")
	}
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		if _, err := strconv.ParseUint(authority[i+1:], 10, 16); err != nil {
			return nil, fmt.Errorf("parse port of URL: %w", err)
		}
	}
	u := &url.URL{Scheme: scheme, Host: authority, RawQuery: query, ForceQuery: asked}
	switch {
	case path == "":
		u.Opaque = "/"
	case !strings.HasPrefix(path, "//"):
		u.Opaque = path
	default:
		u.RawPath = path
		u.Path, _ = url.PathUnescape(path)
		if u.EscapedPath() != path {
			u.Opaque = "//" + authority + path
		}
	}
	return u, nil
}

// badPorts are the ports that browsers block, because servers there may take a request for commands of their own protocol: the table
// "Port blocking" of the Fetch standard (https://fetch.spec.whatwg.org/#port-blocking), read in 2026.
var badPorts = []uint16{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
	110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
	532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
	5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
}

// isBadPort reports whether a port must not be asked on behalf of a page, at any address.
func isBadPort(port uint16) bool {
	_, bad := slices.BinarySearch(badPorts, port)
	return bad
}

// checkPort returns nil if the port of u may be asked, else a failure of class ForbiddenPort.
func checkPort(u *url.URL) error {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err == nil && isBadPort(uint16(port)) { // without a port it is that of the scheme
		return &failure{ForbiddenPort, fmt.Errorf("port %d is blocked (Fetch standard)", port)}
	}
	return nil
}
