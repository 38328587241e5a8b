package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"
)

// conn is a connection with the times that it took to make. For HTTP/1.1 it lies directly under net/http, above TLS, and sees the bytes
// of the exchange. For HTTP/2 it lies under TLS, because net/http then accepts only a *tls.Conn.
type conn struct {
	net.Conn
	connect, tls time.Duration
	taken        atomic.Bool                // a request has used it
	first        atomic.Pointer[exchange]   // must agree before the first bytes of its request are written
	tap          atomic.Pointer[tap]        // records the current request
	head         atomic.Pointer[headFilter] // of the current exchange; nil under TLS
	filtered     []byte                     // what it has let pass and nobody has read yet
	ended        error                      // comes after that
	unwatch      func() bool                // ends the watch for the end of the client; nil if the conn below has it
}

func (c *conn) Read(p []byte) (int, error) {
	for len(c.filtered) == 0 && c.ended == nil {
		n, err := c.Conn.Read(p)
		h := c.head.Load() // only now: on an idle connection net/http waits in Read before a request takes it
		if h == nil || h.part == inBody {
			return n, err
		}
		c.filtered, c.ended = h.filter(p[:n]), err // a line that is held back then has no end, and no head is whole
	}
	n := copy(p, c.filtered)
	if c.filtered = c.filtered[n:]; len(c.filtered) > 0 {
		return n, nil
	}
	return n, c.ended
}

func (c *conn) Write(p []byte) (int, error) {
	if x := c.first.Swap(nil); x != nil {
		if err := x.beforeWrite(); err != nil {
			c.Close() // HTTP/2 would otherwise go on, with a part missing
			return 0, err
		}
	}
	if t := c.tap.Load(); t != nil {
		t.wrote(p)
	}
	return c.Conn.Write(p)
}

func (c *conn) Close() error {
	if c.unwatch != nil {
		c.unwatch()
	}
	return c.Conn.Close()
}

// connUnder finds the conn in what net/http calls a connection.
func connUnder(nc net.Conn) *conn {
	switch nc := nc.(type) {
	case *conn:
		return nc
	case *tls.Conn:
		c, _ := nc.NetConn().(*conn)
		return c
	}
	return nil
}

// dial connects to addr and the port of address. The guard checks before and after.
//
// net/http detaches dials from the request that starts them, since they may serve a later one. So dial sets its own limits.
func (c *Client) dial(ctx context.Context, addr netip.Addr, network, address string) (*conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &failure{Other, fmt.Errorf("dial: %w", err)}
	}
	if err := c.guard.check(addr, time.Now()); err != nil {
		return nil, err
	}
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, &failure{Other, errors.New("dial without a request")}
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
	nc, err := c.deps.Dial(ctx, network, net.JoinHostPort(addr.String(), port))
	took := time.Since(start)
	if err != nil {
		if unrouted(err) && !c.deps.HasRoute(addr) {
			err = fmt.Errorf("%w: %w", errNoRoute, err)
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

// dialTLS is dial with a handshake, which offers HTTP/2 if h2. The server name is the host of address.
func (c *Client) dialTLS(ctx context.Context, addr netip.Addr, h2 bool, network, address string) (net.Conn, error) {
	raw, err := c.dial(ctx, addr, network, address)
	if err != nil {
		return nil, err
	}
	cfg := c.tls.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(address)
	if h2 {
		cfg.NextProtos = []string{"h2", "http/1.1"}
	}
	if !cfg.InsecureSkipVerify {
		cfg.InsecureSkipVerify, cfg.VerifyConnection = true, c.chains.of(cfg.ServerName) // in the place of its own verification
	}
	x := ctx.Value(exchangeKey{}).(*exchange) // dial has checked it
	ctx, cancel := c.dialling(ctx, x, c.cfg.TLSTimeout)
	defer cancel()
	start := time.Now()
	tc := tls.Client(raw, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, x.broke(stageClass(err, TimeoutTLS, TLS), fmt.Errorf("TLS handshake: %w", err))
	}
	raw.tls = time.Since(start)
	if tc.ConnectionState().NegotiatedProtocol == "h2" {
		return tc, nil
	}
	return &conn{Conn: tc, connect: raw.connect, tls: raw.tls}, nil
}

// transport makes a connection pool that can dial nothing but addr, and speaks HTTP/2 if h2.
func (c *Client) transport(addr netip.Addr, h2 bool) *http.Transport {
	t := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			cn, err := c.dial(ctx, addr, network, address)
			if err != nil {
				return nil, err // not cn: a nil *conn in a net.Conn is not nil
			}
			return cn, nil
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return c.dialTLS(ctx, addr, h2, network, address)
		},
		DisableCompression:     true, // decoding is bounded here
		MaxIdleConns:           c.cfg.IdleConns,
		MaxIdleConnsPerHost:    c.cfg.IdleConns,
		IdleConnTimeout:        c.cfg.IdleTimeout,
		MaxResponseHeaderBytes: c.cfg.MaxHeaderBytes,
		ForceAttemptHTTP2:      h2,
		Protocols:              new(http.Protocols),
	}
	t.Protocols.SetHTTP1(true)
	if h2 {
		t.Protocols.SetHTTP2(true)
		// How far a server may send ahead of the reader. It limits memory, and speed to one window a round trip.
		t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 4 << 20}
	}
	return t
}

// pool returns the pool of addr. The pool least recently used makes room and loses its idle connections; its running requests finish.
func (c *Client) pool(addr netip.Addr) (*http.Transport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errClosed
	}
	t, ok := c.pools.Get(addr)
	if !ok {
		t = c.transport(addr, c.cfg.HTTP2)
		c.pools.Add(addr, t)
	}
	return t, nil
}

// adopt makes t the pool of addr.
func (c *Client) adopt(addr netip.Addr, t *http.Transport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pools.Remove(addr)
	c.pools.Add(addr, t)
}
