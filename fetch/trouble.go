package fetch

import (
	"errors"
	"net"
	"net/netip"
	"syscall"

	"proxima/fetch/resolve"
)

// errNoRoute says that this machine has no route to an address: no router on the way said so, as it may do with the same
// error number.
var errNoRoute = errors.New("this machine has no route")

// OwnTrouble reports whether a failed download or lookup may be this machine's fault, and why in words. Such a failure says
// nothing about the host, so it must not count against it.
//
// Failures that only look like this machine's are not among them: routers far away, too, say that networks are unreachable.
func OwnTrouble(err error) (why string, ok bool) {
	for _, t := range []struct {
		is  error
		why string
	}{
		{resolve.ErrNoServer, "no name server answers"},
		{errNoRoute, "no route"},
		{syscall.ENETDOWN, "the network is down"},
		{syscall.EMFILE, "too many open files"},
		{syscall.ENFILE, "too many open files on this machine"},
		{syscall.EADDRNOTAVAIL, "no free local port or address"},
		{syscall.ENOBUFS, "no memory for connections"},
		{syscall.ENOMEM, "no memory for connections"},
	} {
		if errors.Is(err, t.is) {
			return t.why, true
		}
	}
	return "", false
}

// hasRoute asks the system's routing table for the way to an address. It sends nothing: a datagram socket that connects
// only looks its route up.
func hasRoute(addr netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err == nil {
		c.Close()
	}
	return !isAny(err, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN)
}
