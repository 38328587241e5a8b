package fetch

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// ownLifetime is how long the addresses of this machine are believed before they are read again.
const ownLifetime = time.Minute

// ownAddrs knows this machine's addresses and the networks that it is on. A request to an address of its own runs over
// loopback, past the firewall; neighbours trust those on their network more than the world.
type ownAddrs struct {
	read func() ([]netip.Prefix, error)

	// mu guards what follows.
	mu       sync.Mutex
	prefixes []netip.Prefix // addresses with the length of their network
	at       time.Time      // when they were read
}

// newOwnAddrs reads them for the first time, so that a machine that cannot tell them is noticed at the start.
func newOwnAddrs(read func() ([]netip.Prefix, error)) (*ownAddrs, error) {
	prefixes, err := read()
	if err != nil {
		return nil, fmt.Errorf("read addresses of this machine: %w", err)
	}
	return &ownAddrs{read: read, prefixes: prefixes, at: time.Now()}, nil
}

// forbids says why an address must not be reached for being this machine's, or that of a neighbour. Where the addresses
// cannot be read again, the last ones count.
func (o *ownAddrs) forbids(addr netip.Addr) (reason string, forbidden bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := time.Now(); now.Sub(o.at) >= ownLifetime {
		o.at = now
		if prefixes, err := o.read(); err == nil {
			o.prefixes = prefixes
		}
	}
	addr = plain(addr)
	if four, ok := fourIn(addr); ok {
		addr = four
	}
	for _, p := range o.prefixes {
		switch {
		case p.Addr() == addr:
			return "this machine", true
		case p.Bits() > 0 && p.Contains(addr): // a network of everything, as of some tunnels, has no neighbours
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
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(n.IP); ok {
			addr = plain(addr)
			bits, size := n.Mask.Size()
			if size > addr.BitLen() {
				bits -= size - addr.BitLen() // an IPv4 network written as an IPv6 one
			}
			out = append(out, netip.PrefixFrom(addr, max(bits, 0)))
		}
	}
	return out, nil
}
