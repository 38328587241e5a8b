package fetch

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection with the times that it took to make. For HTTP/1.1 it lies above TLS, and for HTTP/2 below, because net/http then
// accepts only a *tls.Conn.
type conn struct {
	net.Conn
	connect, tls time.Duration
	taken        atomic.Bool              // a request over HTTP/2 has used it
	first        atomic.Pointer[exchange] // must agree before the first bytes of its request over HTTP/2 are written
	unwatch      func() bool              // ends the watch for the end of the client; nil if the conn below has it
}

// Write asks for the right to send before the first bytes of a request over HTTP/2 (first).
func (c *conn) Write(p []byte) (int, error) {
	if x := c.first.Swap(nil); x != nil {
		if err := x.beforeWrite(); err != nil {
			c.Close() // HTTP/2 would otherwise go on, with a part missing
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	if c.unwatch != nil {
		c.unwatch()
	}
	return c.Conn.Close()
}

// overTLS returns the connection above TLS.
func overTLS(tc *tls.Conn) *conn {
	raw := connUnder(tc)
	return &conn{Conn: tc, connect: raw.connect, tls: raw.tls}
}

// connUnder finds the conn under a connection of HTTP/2; nil if it is not this client's.
func connUnder(nc net.Conn) *conn {
	tc, ok := nc.(*tls.Conn)
	if !ok {
		return nil
	}
	c, _ := tc.NetConn().(*conn)
	return c
}

// dial connects to addr and the port of address for an exchange. The guard checks before and after.
//
// net/http detaches dials from the request that starts them, since they may serve a later one. So dial sets its own limits.
func (c *Client) dial(ctx context.Context, x *exchange, addr netip.Addr, address string) (*conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &failure{Other, fmt.Errorf("dial: %w", err)}
	}
	if err := c.guard.check(addr, time.Now()); err != nil {
		return nil, err
	}
	if x.spent() {
		return nil, errRefused
	}
	if err := x.right(); err != nil {
		return nil, &failure{NoRight, err}
	}
	ctx, cancel := c.dialling(ctx, x, c.cfg.ConnectTimeout)
	defer cancel()
	start := time.Now()
	nc, err := c.deps.Dial(ctx, "tcp", net.JoinHostPort(addr.String(), port))
	took := time.Since(start)
	if err != nil {
		if unrouted(err) && !c.deps.HasRoute(addr) {
			err = c.noRoute(err)
		}
		return nil, x.broke(stageClass(err, TimeoutConnect, Other), fmt.Errorf("connect: %w", err))
	}
	if remote, err := netip.ParseAddrPort(nc.RemoteAddr().String()); err == nil {
		if err := c.guard.check(remote.Addr(), start); err != nil {
			nc.Close()
			return nil, err
		}
	}
	return &conn{Conn: nc, connect: took, unwatch: context.AfterFunc(c.ctx, func() { nc.Close() })}, nil
}

// anyIPv4 and anyIPv6 are addresses of a name server of the root: a route to them is a route to the web. Nothing is sent to them.
var anyIPv4, anyIPv6 = netip.MustParseAddr("198.41.0.4"), netip.MustParseAddr("2001:503:ba3e::2:30")

// noRoute returns the error of a connect to an address that this machine has no route to. Without a route to the web that is trouble of its own, which
// passes. With one, the machine lacks IPv6 or IPv4, or bars the address, and the link is at fault.
func (c *Client) noRoute(err error) error {
	if c.deps.HasRoute(anyIPv4) || c.deps.IPv6 && c.deps.HasRoute(anyIPv6) {
		return fmt.Errorf("%w from here: %v", syscall.ENETUNREACH, err)
	}
	return fmt.Errorf("%w: %w", errNoRoute, err)
}

// dialTLS is dial with a handshake, which offers HTTP/2 if h2. The server name is the host of address.
func (c *Client) dialTLS(ctx context.Context, x *exchange, addr netip.Addr, address string, h2 bool) (*tls.Conn, error) {
	raw, err := c.dial(ctx, x, addr, address)
	if err != nil {
		return nil, err
	}
	cfg := c.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	if h2 {
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	if !cfg.InsecureSkipVerify {
		cfg.InsecureSkipVerify, cfg.VerifyConnection = true, c.chains.verifier(cfg.ServerName) // in the place of its own verification
	}
	ctx, cancel := c.dialling(ctx, x, c.cfg.TLSTimeout)
	defer cancel()
	start := time.Now()
	tc := tls.Client(raw, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, x.broke(stageClass(err, TimeoutTLS, TLS), fmt.Errorf("TLS handshake: %w", err))
	}
	raw.tls = time.Since(start)
	return tc, nil
}
