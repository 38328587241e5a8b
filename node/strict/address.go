package strict

import (
	"fmt"
	"net"
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
