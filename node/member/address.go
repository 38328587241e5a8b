package member

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"proxima/node/strict"
)

// maxAddr bounds the host:port of the peer protocol: a DNS name, a colon, a port.
const maxAddr = 253 + 6

// checkAddr returns why an address cannot be that of a node. local allows loopback, which reaches nodes of the same
// machine only.
func checkAddr(addr string, local bool) error {
	host, port, err := strict.HostPort(addr)
	switch {
	case err != nil:
		return err
	case port == 0:
		return fmt.Errorf("address %q has port 0", addr)
	case len(addr) > maxAddr:
		return fmt.Errorf("address of %d bytes, more than %d", len(addr), maxAddr)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if !dialName(host) {
			return fmt.Errorf("address %q is neither an IP address nor a name", addr)
		}
		if !local && strings.EqualFold(host, "localhost") {
			return fmt.Errorf("address %q is a loopback address", addr)
		}
		return nil
	}
	if err := checkIP(ip, local); err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	return nil
}

// checkIP returns why an IP address cannot be that of a node.
func checkIP(ip netip.Addr, local bool) error {
	switch ip = ip.Unmap(); {
	case !ip.IsValid() || ip.IsUnspecified():
		return errors.New("it belongs to no machine")
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("it is a multicast address")
	case ip.IsLoopback() && !local:
		return errors.New("it is a loopback address, and this node is not on loopback")
	}
	return nil
}

// dialName reports whether a host can be a DNS name: letters, digits, hyphens, underscores and dots.
func dialName(host string) bool {
	return host != "" && strings.Trim(strings.ToLower(host), "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
}

// onLoopback reports whether an address is on the machine itself.
func onLoopback(addr string) bool {
	return checkAddr(addr, true) == nil && checkAddr(addr, false) != nil
}
