package fetch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// specialRanges are the blocks of the IANA IPv4 and IPv6 Special-Purpose Address Registries (RFC 6890) without public web servers,
// including globally reachable relays and service anycast, and the one public address that answers only inside a cloud. isForbidden
// itself handles IPv6 outside 2000::/3.
var specialRanges = []struct {
	prefix netip.Prefix
	reason string
}{
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

// isForbidden reports whether addr must not be reached on behalf of a page, and why. IPv4-mapped addresses count as IPv4. NAT64 (RFC
// 6052), 6to4 (RFC 3056) and Teredo (RFC 4380) addresses are judged by the IPv4 addresses inside them. Forbidden are also the local
// NAT64 prefix 64:ff9b:1::/48 (RFC 8215) and all IPv6 outside 2000::/3: loopback, unique local, link local, multicast, discard only,
// segment routing and unassigned addresses.
func isForbidden(addr netip.Addr) (reason string, forbidden bool) {
	if !addr.IsValid() {
		return "no address", true
	}
	addr = plain(addr)
	if teredo.Contains(addr) {
		b := addr.As16()
		server := netip.AddrFrom4([4]byte(b[4:8]))
		if reason, bad := isForbidden(server); bad {
			return fmt.Sprintf("Teredo server %v: %s", server, reason), true
		}
	}
	if kind, four := fourIn(addr); four.IsValid() {
		reason, bad := isForbidden(four)
		if bad {
			reason = fmt.Sprintf("%s %v: %s", kind, four, reason)
		}
		return reason, bad
	}
	if addr.Is6() && !globalUnicast.Contains(addr) {
		return "not global unicast (RFC 4291)", true
	}
	for _, r := range specialRanges {
		if r.prefix.Contains(addr) {
			return r.reason, true
		}
	}
	return "", false
}

// fourIn returns the IPv4 address that packets to an IPv6 one end at and the mechanism that takes them there, if there is one.
func fourIn(addr netip.Addr) (kind string, four netip.Addr) {
	b := addr.As16()
	switch {
	case nat64.Contains(addr):
		return "NAT64", netip.AddrFrom4([4]byte(b[12:16]))
	case sixToFour.Contains(addr):
		return "6to4", netip.AddrFrom4([4]byte(b[2:6]))
	case teredo.Contains(addr):
		return "Teredo client", netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	return "", netip.Addr{}
}

// plain removes zone and IPv4 mapping, which prefixes do not match.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// guard forbids what isForbidden does and this machine's own networks, with the operator's exceptions.
type guard struct {
	allow      []netip.Prefix
	own        *ownAddrs
	identified bool
}

// check returns nil if addr may be dialled now, else a failure of class ForbiddenAddress or NoIdentity.
func (g guard) check(addr netip.Addr, now time.Time) error {
	reason, bad := isForbidden(addr)
	if !bad {
		if !g.identified {
			return &failure{NoIdentity, fmt.Errorf("dial %v: a public address needs contact and from in the config", addr)}
		}
		if reason, bad = g.own.forbids(addr, now); !bad {
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

// Check reports in advance whether an address may be dialled: the class is ForbiddenAddress, NoIdentity or OK. Get checks the address
// dialled again.
func (c *Client) Check(addr netip.Addr) (Class, error) {
	err := c.guard.check(addr, time.Now())
	if f, ok := errors.AsType[*failure](err); ok {
		return f.class, err
	}
	return OK, nil
}

// ownLifetime is how long the addresses of this machine are believed.
const ownLifetime = time.Minute

// ownAddrs knows this machine's addresses and the networks that it is on. A request to its own address runs over loopback, past the
// firewall, and neighbours trust their network more than the world.
type ownAddrs struct {
	read func() ([]netip.Prefix, error)

	// mu guards what follows.
	mu       sync.Mutex
	prefixes []netip.Prefix // addresses with the length of their network
	at       time.Time      // when they were read
}

// newOwnAddrs reads the addresses once, so that a machine that cannot tell them fails at the start.
func newOwnAddrs(read func() ([]netip.Prefix, error)) (*ownAddrs, error) {
	prefixes, err := read()
	if err != nil {
		return nil, fmt.Errorf("read addresses of this machine: %w", err)
	}
	return &ownAddrs{read: read, prefixes: prefixes, at: time.Now()}, nil
}

// forbids reports whether an address is this machine's or a neighbour's. If the addresses cannot be read again, the last ones count.
func (o *ownAddrs) forbids(addr netip.Addr, now time.Time) (reason string, forbidden bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Sub(o.at) >= ownLifetime {
		o.at = now
		if prefixes, err := o.read(); err == nil {
			o.prefixes = prefixes
		}
	}
	addr = plain(addr)
	_, four := fourIn(addr) // the machine may have either address
	for _, p := range o.prefixes {
		switch {
		case p.Addr() == addr || p.Addr() == four:
			return "this machine", true
		case p.Bits() > 0 && (p.Contains(addr) || p.Contains(four)): // a network of everything, as of some tunnels, has no neighbours
			return fmt.Sprintf("on this machine's network %v", p.Masked()), true
		}
	}
	return "", false
}

// machineAddrs reads the addresses of all interfaces.
func machineAddrs() ([]netip.Prefix, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// hasRoute asks the system's routing table for a route to an address. It sends nothing: connecting a datagram socket only looks the
// route up.
func hasRoute(addr netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err == nil {
		c.Close()
	}
	return !unrouted(err) && !errors.Is(err, syscall.ENETDOWN)
}

// unrouted reports whether a connect failed as it does without a route, or without an own address of the family. A router on the way may be the one
// that has no route, and all ports of an address may be in use.
func unrouted(err error) bool {
	return isAny(err, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EADDRNOTAVAIL)
}
