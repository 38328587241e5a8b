package fetch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// specialRange is one block that no public web server lives in.
type specialRange struct {
	prefix netip.Prefix
	reason string
}

// specialRanges are the blocks of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) that do not hold
// public web servers, globally reachable relays and service anycast included, and the one public address that answers
// only inside a cloud. IPv6 outside 2000::/3 is handled apart.
var specialRanges = []specialRange{
	{netip.MustParsePrefix("0.0.0.0/8"), "this network (RFC 791)"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier-grade NAT (RFC 6598)"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback (RFC 1122)"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud host service (Azure)"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link local (RFC 3927)"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.0.0.0/24"), "IETF protocol assignments (RFC 6890)"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("192.31.196.0/24"), "AS112 (RFC 7535)"},
	{netip.MustParsePrefix("192.52.193.0/24"), "AMT (RFC 7450)"},
	{netip.MustParsePrefix("192.88.99.0/24"), "6to4 relay anycast (RFC 7526)"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private use (RFC 1918)"},
	{netip.MustParsePrefix("192.175.48.0/24"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking (RFC 2544)"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation (RFC 5737)"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast (RFC 5771)"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved and broadcast (RFC 1112)"},
	{netip.MustParsePrefix("2001::/23"), "IETF protocol assignments (RFC 2928)"},
	{netip.MustParsePrefix("2001:db8::/32"), "documentation (RFC 3849)"},
	{netip.MustParsePrefix("2620:4f:8000::/48"), "AS112 (RFC 7534)"},
	{netip.MustParsePrefix("3fff::/20"), "documentation (RFC 9637)"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	teredo        = netip.MustParsePrefix("2001::/32")
)

// Forbidden reports whether addr must not be reached on behalf of a page, and why. IPv4-mapped addresses count as IPv4;
// NAT64 (RFC 6052), 6to4 (RFC 3056) and Teredo (RFC 4380) addresses are judged by the IPv4 addresses inside them. The
// local NAT64 prefix 64:ff9b:1::/48 (RFC 8215) and all IPv6 outside 2000::/3 (loopback, unique local, link local,
// multicast, discard only, segment routing, unassigned) are forbidden.
func Forbidden(addr netip.Addr) (reason string, forbidden bool) {
	if !addr.IsValid() {
		return "no address", true
	}
	addr = plain(addr)
	if addr.Is6() {
		b := addr.As16()
		switch {
		case nat64.Contains(addr):
			return embedded("NAT64", b[12:16])
		case sixToFour.Contains(addr):
			return embedded("6to4", b[2:6])
		case teredo.Contains(addr):
			if reason, bad := embedded("Teredo server", b[4:8]); bad {
				return reason, true
			}
			binary.BigEndian.PutUint32(b[12:16], ^binary.BigEndian.Uint32(b[12:16]))
			return embedded("Teredo client", b[12:16])
		case !globalUnicast.Contains(addr):
			return "not global unicast (RFC 4291)", true
		}
	}
	for _, r := range specialRanges {
		if r.prefix.Contains(addr) {
			return r.reason, true
		}
	}
	return "", false
}

// embedded judges four bytes as an IPv4 address.
func embedded(kind string, b []byte) (string, bool) {
	addr := netip.AddrFrom4([4]byte(b))
	reason, bad := Forbidden(addr)
	if bad {
		reason = fmt.Sprintf("%s %v: %s", kind, addr, reason)
	}
	return reason, bad
}

// fourIn is the IPv4 address that a packet to an IPv6 one ends at.
func fourIn(addr netip.Addr) (netip.Addr, bool) {
	b := addr.As16()
	switch {
	case !addr.Is6():
	case nat64.Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case sixToFour.Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case teredo.Contains(addr):
		for i := range b {
			b[i] = ^b[i]
		}
		return netip.AddrFrom4([4]byte(b[12:16])), true
	}
	return netip.Addr{}, false
}

// plain is addr without a zone and without an IPv4 mapping, as prefixes compare it.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// guard is Forbidden, and what this machine is part of, with the operator's exceptions.
type guard struct {
	allow      []netip.Prefix
	own        *ownAddrs
	identified bool
}

func newGuard(cfg Config, own *ownAddrs) (guard, error) {
	g := guard{own: own, identified: cfg.identified()}
	for _, s := range cfg.AllowPrefixes {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return guard{}, fmt.Errorf("parse allowed prefix: %w", err)
		}
		if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
		}
		g.allow = append(g.allow, p.Masked())
	}
	return g, nil
}

// check returns a failure of class ForbiddenAddress or NoIdentity, or nil where addr may be dialled.
func (g guard) check(addr netip.Addr) error {
	reason, bad := Forbidden(addr)
	if !bad {
		if !g.identified {
			return &failure{NoIdentity, fmt.Errorf("dial %v: a public address needs contact and from in the config", addr)}
		}
		if reason, bad = g.own.forbids(addr); !bad {
			return nil
		}
	}
	for _, p := range g.allow {
		if p.Contains(plain(addr)) {
			return nil
		}
	}
	return &failure{ForbiddenAddress, fmt.Errorf("dial %v: %s", addr, reason)}
}

// Check says whether an address may be dialled, before anything is: the class is ForbiddenAddress, NoIdentity or OK.
// Get checks again, on the address dialled.
func (c *Client) Check(addr netip.Addr) (Class, error) {
	err := c.guard.check(addr)
	if f, ok := errors.AsType[*failure](err); ok {
		return f.class, err
	}
	return OK, nil
}
