package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"

	"proxima/fetch/resolve"
)

func TestOwnTrouble(t *testing.T) {
	socket := func(call string, errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, errno)}
	}
	for _, tc := range []struct {
		name  string
		err   error // of the dial
		route bool
		want  string
	}{
		{"refused", socket("connect", syscall.ECONNREFUSED), true, ""},
		{"reset", socket("connect", syscall.ECONNRESET), true, ""},
		{"timeout", context.DeadlineExceeded, true, ""},
		{"system's timeout", socket("connect", syscall.ETIMEDOUT), true, ""},
		{"end", io.EOF, true, ""},
		{"host down", socket("connect", syscall.EHOSTDOWN), true, ""},
		{"forbidden by a firewall", socket("connect", syscall.EPERM), true, ""},
		{"a router says unreachable network", socket("connect", syscall.ENETUNREACH), true, ""},
		{"a router says unreachable host", socket("connect", syscall.EHOSTUNREACH), true, ""},
		{"no route to the network", socket("connect", syscall.ENETUNREACH), false, "no route"},
		{"no route to the host", socket("connect", syscall.EHOSTUNREACH), false, "no route"},
		{"refused, without a route", socket("connect", syscall.ECONNREFUSED), false, ""},
		{"network down", socket("connect", syscall.ENETDOWN), true, "the network is down"},
		{"descriptors", socket("socket", syscall.EMFILE), true, "too many open files"},
		{"descriptors of the machine", socket("socket", syscall.ENFILE), true, "too many open files on this machine"},
		{"ports", socket("connect", syscall.EADDRNOTAVAIL), true, "no free local port or address"},
		{"buffers", socket("connect", syscall.ENOBUFS), true, "no memory for connections"},
		{"memory", socket("connect", syscall.ENOMEM), true, "no memory for connections"},
	} {
		for _, scheme := range []string{"http", "https"} {
			c := newClient(t, testConfig(), Deps{
				Dial:     func(context.Context, string, string) (net.Conn, error) { return nil, tc.err },
				HasRoute: func(netip.Addr) bool { return tc.route },
			})
			res := c.Get(t.Context(), Request{URL: scheme + "://a.example/", Addr: testAddr})
			if why, ok := OwnTrouble(res.Err); why != tc.want || ok != (tc.want != "") {
				t.Errorf("%s, %s: %q, %v of %v; want %q", tc.name, scheme, why, ok, res.Err, tc.want)
			}
		}
	}
	silent := &resolve.Error{Host: "a.example", Kind: resolve.ErrTemporary, Err: fmt.Errorf("%w: %w", resolve.ErrNoServer, errTest)}
	if why, ok := OwnTrouble(fmt.Errorf("place: %w", silent)); !ok || why != "no name server answers" {
		t.Errorf("no name server: %q, %v", why, ok)
	}
	for _, err := range []error{nil, errTest, resolve.ErrNotFound, &resolve.Error{Kind: resolve.ErrTemporary, Err: errors.New("SERVFAIL")}} {
		if why, ok := OwnTrouble(err); ok {
			t.Errorf("%v: %q", err, why)
		}
	}
}

// A link to an IPv6 address is no trouble of a machine that has IPv4 only: with IPv6 switched off, as in many containers, the system says that no local
// address is free. Nor is a link to an address that the machine bars, or, where it
// has IPv6 only and names are looked up for that, to an IPv4 one. Trouble would last until such a host answers.
func TestRoutesToOthers(t *testing.T) {
	cfg := testConfig()
	cfg.AllowPrefixes = []string{"2001:db8::/32", "127.0.0.0/8"}
	six := netip.MustParseAddr("2001:db8::1")
	for _, c := range []struct {
		addr   netip.Addr
		err    error
		routes []netip.Addr
		ipv6   bool // of Deps
		want   string
	}{
		{six, syscall.ENETUNREACH, []netip.Addr{testAddr, anyIPv4}, false, ""},
		{six, syscall.ENETUNREACH, []netip.Addr{testAddr, anyIPv4}, true, ""},
		{six, syscall.EADDRNOTAVAIL, []netip.Addr{testAddr, anyIPv4}, false, ""},
		{six, syscall.ENETUNREACH, nil, true, "no route"},
		{six, syscall.EADDRNOTAVAIL, nil, false, "no route"},
		{six, syscall.EADDRNOTAVAIL, []netip.Addr{six, anyIPv4, anyIPv6}, true, "no free local port or address"},
		{testAddr, syscall.ENETUNREACH, []netip.Addr{six, anyIPv6}, false, "no route"},
		{testAddr, syscall.ENETUNREACH, []netip.Addr{six, anyIPv6}, true, ""},
		{testAddr, syscall.EHOSTUNREACH, []netip.Addr{anyIPv4}, false, ""},
	} {
		cl := newClient(t, cfg, Deps{
			Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, os.NewSyscallError("connect", c.err)
			},
			HasRoute: func(addr netip.Addr) bool { return slices.Contains(c.routes, addr) },
			IPv6:     c.ipv6,
		})
		res := cl.Get(t.Context(), Request{URL: "http://a.example/", Addr: c.addr})
		if why, _ := OwnTrouble(res.Err); why != c.want || res.Class != Unreachable {
			t.Errorf("%v to %v, routes to %v, IPv6 %v: %q, class %q, %v", c.err, c.addr, c.routes, c.ipv6, why, res.Class, res.Err)
		}
	}
}

// A canceled request is told by the reason of its own context. A cancellation of somebody else stays what it is.
func TestReason(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := reason(ctx, context.Canceled); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled by another: %v", err)
	}
	cancel(errTest)
	if err := reason(ctx, context.Canceled); !errors.Is(err, errTest) {
		t.Errorf("canceled by its own context: %v", err)
	}
	if err := reason(ctx, io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("ended: %v", err)
	}
}

func TestHasRoute(t *testing.T) {
	if !hasRoute(testAddr) {
		t.Error("no route to loopback")
	}
}
