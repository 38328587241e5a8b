package identity

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// URL is the identity of a page. Values made by Parse and Rules.Resolve are in normal form, and are the same page exactly
// when they are equal. The zero value is no URL. Its parts may share memory with the texts it was made from: whoever keeps
// one for long and was given a piece of a large page clones the parts.
type URL struct {
	// Host is scheme, name and port in one, what the web calls an origin: "http://example.org", "https://example.org:8443".
	// The name is in lower-case ASCII (Punycode) or an address (IPv6 in brackets); the port is left out where it is the
	// default of the scheme.
	Host string
	// Path is "/path" or "/path?query", percent-encoded.
	Path string
}

// HashVersion is the version of the form that URL.Hash hashes. Hashes of different versions cannot be compared.
const HashVersion = 1

// maxRawBytes bounds what is given to the parser, some of whose steps are quadratic, and what comes out.
const maxRawBytes = 8 << 10

// Parse gives the identity of an absolute URL; tracking parameters stay. The error says what is wrong with it in the
// words of Reason.
func Parse(raw string) (URL, error) {
	u, reason := resolve(URL{}, raw)
	if reason != Accepted {
		return URL{}, fmt.Errorf("parse URL %q: %s", short(raw), reason)
	}
	return u, nil
}

// short keeps error messages readable when the URL is not.
func short(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// String is the URL as serialised by the standard; "" for the zero value.
func (u URL) String() string { return u.Host + u.Path }

// Len is the length of String in bytes.
func (u URL) Len() int { return len(u.Host) + len(u.Path) }

// Scheme is "http" or "https"; "" for the zero value.
func (u URL) Scheme() string {
	scheme, _ := cutScheme(u.Host)
	return scheme
}

// Authority is the host without its scheme: the name, and the port unless it is the default.
func (u URL) Authority() string { return Authority(u.Host) }

// Hash is the 64-bit xxHash (XXH64, seed 0) of String; see HashVersion. It tells http from https.
func (u URL) Hash() uint64 {
	var stack [512]byte
	b := append(stack[:0], u.Host...)
	b = append(b, u.Path...)
	return xxhash.Sum64(b)
}

// Name is the host without port and, for IPv6, without brackets.
func (u URL) Name() string { return Name(u.Host) }

// Port is the TCP port, be it written or implied by the scheme; 0 for the zero value.
func (u URL) Port() uint16 {
	_, port := splitHost(u.Authority())
	if port == "" {
		return defaultPort(u.Scheme())
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

func defaultPort(scheme string) uint16 {
	switch scheme {
	case "http":
		return 80
	case "https":
		return 443
	}
	return 0
}

// withScheme makes an absolute URL of what people write in lists: example.org:8080 is a host with its port, where the
// standard sees the scheme example.org.
func withScheme(text string) string {
	switch at := strings.Index(text, "://"); {
	case at > 0 && strings.IndexAny(text, "/\\?#") > at:
		return text
	case strings.HasPrefix(text, "//"):
		return "http:" + text
	case text == "" || strings.IndexByte("/\\?#", text[0]) >= 0:
		// No host: left to be refused.
		return text
	}
	return "http://" + text
}

// splitHost parts an authority in name and port. A bare IPv6 address is a name.
func splitHost(host string) (name, port string) {
	if strings.HasPrefix(host, "[") {
		end := strings.IndexByte(host, ']')
		if end < 0 {
			return host, ""
		}
		return host[1:end], strings.TrimPrefix(host[end+1:], ":")
	}
	at := strings.IndexByte(host, ':')
	if at < 0 || strings.IndexByte(host[at+1:], ':') >= 0 {
		return host, ""
	}
	return host[:at], host[at+1:]
}

// isAddress reports whether a name is an IP address.
func isAddress(name string) bool {
	if name == "" {
		return false
	}
	// Only names that end in a digit or hold a colon can be: no top-level domain has either.
	if last := name[len(name)-1]; (last < '0' || last > '9') && strings.IndexByte(name, ':') < 0 {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
