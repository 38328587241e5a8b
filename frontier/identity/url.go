package identity

import (
	"fmt"
	"path"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// URL is the identity of a page. Parse and Rules.Resolve return URLs in normal form. Two of them are the same page if and only if they
// are equal. The zero value is no URL. Host and Path may share memory with the text they were made from. If that text is part of a
// large page, clone them before you keep the URL for long.
type URL struct {
	// Host is scheme, name and port together, which the web calls an origin: "http://example.org", "https://example.org:8443". The
	// name is in lower-case ASCII (Punycode), or an address (IPv6 in brackets). The default port of the scheme is left out.
	Host string
	// Path is "/path" or "/path?query", percent-encoded.
	Path string
}

// maxRawBytes bounds the text that the parser gets, because some of its steps are quadratic, and the URL that it returns.
const maxRawBytes = 8 << 10

// Parse returns the identity of an absolute URL, with its tracking parameters. The error says why if there is none.
func Parse(raw string) (URL, error) {
	u, reason := resolve(URL{}, raw)
	if reason != Accepted {
		return URL{}, fmt.Errorf("parse URL %.200q: %s", raw, reason.explained())
	}
	return u, nil
}

// String returns the URL as the standard serialises it; "" for the zero value.
func (u URL) String() string { return u.Host + u.Path }

// Len returns the length of String in bytes.
func (u URL) Len() int { return len(u.Host) + len(u.Path) }

// Scheme returns "http" or "https"; "" for the zero value.
func (u URL) Scheme() string {
	scheme, _ := cutScheme(u.Host)
	return scheme
}

// Authority returns the host without its scheme: the name, and the port unless it is the default.
func (u URL) Authority() string {
	_, authority := cutScheme(u.Host)
	return authority
}

// Hash returns the 64-bit xxHash (XXH64, seed 0) of String. http and https differ in it. It is on disk and in messages.
func (u URL) Hash() uint64 {
	var stack [512]byte
	b := append(stack[:0], u.Host...)
	b = append(b, u.Path...)
	return xxhash.Sum64(b)
}

// Name returns the host without scheme, port and, for IPv6, brackets.
func (u URL) Name() string { return Name(u.Host) }

// Extension returns the file name extension of the last segment of a path, in lower case and without the dot; "" if there is none.
func Extension(urlPath string) string {
	urlPath, _, _ = strings.Cut(urlPath, "?")
	return strings.ToLower(strings.TrimPrefix(path.Ext(urlPath), "."))
}

// withScheme makes an absolute URL of what people write in lists. It takes example.org:8080 for a host with a port, where the standard
// sees the scheme example.org.
func withScheme(text string) string {
	switch at := strings.Index(text, "://"); {
	case at > 0 && strings.IndexAny(text, "/\\?#") > at:
		return text
	case strings.HasPrefix(text, "//"):
		return "http:" + text
	case text == "" || strings.IndexByte("/\\?#", text[0]) >= 0:
		// Without a host: Parse refuses it.
		return text
	}
	return "http://" + text
}
