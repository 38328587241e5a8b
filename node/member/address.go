package member

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// maxAddr bounds host:port of the peer protocol: a name of DNS, a colon, a port.
const maxAddr = 253 + 6

// checkAddr says why an address cannot be that of a node: this node would dial it. local allows loopback, where only
// nodes of the same machine are.
func checkAddr(addr string, local bool) error {
	host, port, err := hostPort(addr)
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
			return fmt.Errorf("address %q is neither of a machine nor a name", addr)
		}
		if !local && strings.EqualFold(host, "localhost") {
			return fmt.Errorf("address %q is every machine's own", addr)
		}
		return nil
	}
	if err := checkIP(ip, local); err != nil {
		return fmt.Errorf("address %q: %w", addr, err)
	}
	return nil
}

// checkIP says why an address cannot be that of a node.
func checkIP(ip netip.Addr, local bool) error {
	switch ip = ip.Unmap(); {
	case !ip.IsValid() || ip.IsUnspecified():
		return errors.New("it is of no machine")
	case ip.IsMulticast() || ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return errors.New("it is of many machines")
	case ip.IsLoopback() && !local:
		return errors.New("it is every machine's own, and this node is not on loopback")
	}
	return nil
}

// dialName says whether a host can be a name: letters, digits, hyphens, underscores and dots.
func dialName(host string) bool {
	for _, c := range []byte(strings.ToLower(host)) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return host != ""
}

// loopback says whether a host is the machine's own.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// onLoopback says whether an address is of the machine's own.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && loopback(host)
}
