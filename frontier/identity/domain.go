package identity

import (
	"strings"

	"golang.org/x/net/publicsuffix"
)

// RegistrableDomain is the domain that somebody registered, of which a host is part: example.co.uk of www.example.co.uk.
// It takes a host, an authority in normal form or a name; scheme, port and brackets are dropped. Addresses, names of one label and public
// suffixes themselves are their own domain. Source: the Public Suffix List (https://publicsuffix.org/), private section
// included, as compiled into golang.org/x/net.
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
