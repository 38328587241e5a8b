package identity

import (
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// MaxHost is the longest host in bytes: the longer scheme, the longest name and a port.
const MaxHost = len("https://") + 253 + len(":65535")

// CheckHost returns an error for a host that is not in the form of URL.Host. Hosts that another node names are checked.
func CheckHost(host string) error {
	if len(host) > MaxHost {
		return fmt.Errorf("check host: %d bytes are above %d", len(host), MaxHost)
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
