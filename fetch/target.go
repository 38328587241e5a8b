package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL is the longest URL sent, in bytes; it bounds what a link can make a request carry.
const maxURL = 16 << 10

// target turns a WHATWG-serialised http or https URL into one that net/http sends unchanged. net/url would encode a path
// again that the WHATWG URL standard lets pass (`|`, `%zz`, `[`), so the path travels as an opaque part, which net/url
// never touches. The fragment and any user and password are left out.
//
// An opaque part must not begin with `//`, where net/url puts the scheme before it. Such a path travels as a raw path
// where net/url would keep it, and else in the absolute form of the request target, which every server must accept
// (RFC 9112 section 3.2.2).
func target(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, errors.New("URL is too long")
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return nil, errors.New("URL is not serialised: it holds a space, a control byte or a byte beyond ASCII")
		}
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, errors.New("URL is neither http nor https")
	}
	rest, _, _ = strings.Cut(rest, "#")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	if authority == "" {
		return nil, errors.New("URL has no host")
	}
	if i := strings.LastIndexByte(authority, ':'); i > strings.LastIndexByte(authority, ']') {
		if _, err := strconv.ParseUint(authority[i+1:], 10, 16); err != nil {
			return nil, fmt.Errorf("parse port of URL: %w", err)
		}
	}
	path, query, asked := strings.Cut(path, "?")
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

// badPorts are the ports that browsers block, since what listens there may take a request for commands of its own protocol:
// the table under "Port blocking" in the Fetch standard (https://fetch.spec.whatwg.org/#port-blocking), read in 2026.
var badPorts = []uint16{
	0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
	110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
	532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
	5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
}

// BadPort reports whether a port must not be asked on behalf of a page, at any address.
func BadPort(port uint16) bool {
	_, bad := slices.BinarySearch(badPorts, port)
	return bad
}

// checkPort returns a failure of class ForbiddenPort, or nil where the port of u may be asked.
func checkPort(u *url.URL) error {
	if u.Port() == "" {
		return nil // that of the scheme
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return &failure{Other, fmt.Errorf("parse port of URL: %w", err)}
	}
	if BadPort(uint16(port)) {
		return &failure{ForbiddenPort, fmt.Errorf("port %d is blocked (Fetch standard)", port)}
	}
	return nil
}
