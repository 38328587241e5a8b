package identity

import (
	"fmt"
	"net/netip"
	"path"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/net/publicsuffix"
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

// maxHost is the longest host in bytes: the longer scheme, the longest name and a port.
const maxHost = len("https://") + 253 + len(":65535")

// CheckHost returns an error for a host that is not in the form of URL.Host. Hosts that another node names are checked.
func CheckHost(host string) error {
	if len(host) > maxHost {
		return fmt.Errorf("check host: %d bytes are above %d", len(host), maxHost)
	}
	u, err := Parse(host)
	if err != nil {
		return fmt.Errorf("check host: %w", err)
	}
	if u.Host != host {
		return fmt.Errorf("check host: %q is not in normal form", host)
	}
	return nil
}

// Name returns the name or the address in a host, without scheme, port and brackets. All of these may be missing.
func Name(host string) string {
	_, authority := cutScheme(host)
	if rest, ok := strings.CutPrefix(authority, "["); ok {
		if name, _, ok := strings.Cut(rest, "]"); ok {
			return name
		}
		return authority
	}
	if name, port, _ := strings.Cut(authority, ":"); !strings.Contains(port, ":") {
		return name
	}
	return authority // a bare IPv6 address
}

// cutScheme splits a host into its scheme, which may be missing, and the rest.
func cutScheme(host string) (scheme, authority string) {
	if rest, ok := strings.CutPrefix(host, "http://"); ok {
		return "http", rest
	}
	if rest, ok := strings.CutPrefix(host, "https://"); ok {
		return "https", rest
	}
	return "", host
}

// RegistrableDomain returns the domain that somebody registered and that a host is part of: example.co.uk of www.example.co.uk. It
// takes a host, an authority or a name in normal form, and ignores scheme, port and brackets. An address, a name of one label and a
// public suffix are their own domain. The source is the Public Suffix List (https://publicsuffix.org/) with its private section, as
// compiled into golang.org/x/net.
func RegistrableDomain(host string) string {
	name := strings.TrimSuffix(Name(host), ".")
	if isAddress(name) {
		return name
	}
	suffix, _ := publicsuffix.PublicSuffix(name)
	rest := len(name) - len(suffix) - 1
	if rest <= 0 {
		return name
	}
	return name[strings.LastIndexByte(name[:rest], '.')+1:]
}

func isAddress(name string) bool {
	if name == "" {
		return false
	}
	// An address ends in a digit or holds a colon. No top-level domain does either.
	if last := name[len(name)-1]; (last < '0' || last > '9') && strings.IndexByte(name, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
