package fetch

import (
	"errors"
	"fmt"
	"net/url"
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
