package strict

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// HostPort splits the host:port of a configuration and checks the port. Either may be empty or 0: that is for the caller to judge.
func HostPort(s string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", s)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port between 0 and 65535", s)
	}
	return host, int(n), nil
}

// SamePort reports whether two host:port are known to be the same port of this machine, or one of them is that port at all its addresses. Port 0
// is any free one.
func SamePort(a, b string) bool {
	hostA, portA, errA := HostPort(a)
	hostB, portB, errB := HostPort(b)
	return errA == nil && errB == nil && portA == portB && portA != 0 && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

func everywhere(host string) bool {
	addr, _ := netip.ParseAddr(host)
	return host == "" || addr.IsUnspecified()
}
