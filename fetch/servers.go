package fetch

import (
	"context"
	"net"
	"net/http"
	"net/netip"
)

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
