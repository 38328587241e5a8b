package fetch

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"
)

// server holds the connections to one address, and can dial no other.
type server struct {
	client *Client
	addr   netip.Addr
	h2     *http.Transport // has those over HTTP/2; nil if it is not offered

	// mu guards what follows.
	mu      sync.Mutex
	idle    []*http1Conn // in the order in which they became so
	retired bool         // none becomes idle any more
}

// newServer makes a server without connections, which offers HTTP/2 if h2.
func (c *Client) newServer(addr netip.Addr, h2 bool) *server {
	s := &server{client: c, addr: addr}
	if !h2 {
		return s
	}
	s.h2 = &http.Transport{
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			x, ok := ctx.Value(exchangeKey{}).(*exchange)
			if !ok {
				return nil, &failure{Other, errors.New("dial without a request")}
			}
			tc, err := c.dialTLS(ctx, x, addr, address, true)
			if err == nil && tc.ConnectionState().NegotiatedProtocol != "h2" {
				x.offer(overTLS(tc))
				err = errHTTP1
			}
			if err != nil {
				return nil, err
			}
			return tc, nil
		},
		DisableCompression:     true, // decoding is bounded here
		MaxIdleConns:           c.cfg.IdleConns,
		MaxIdleConnsPerHost:    c.cfg.IdleConns,
		IdleConnTimeout:        c.cfg.IdleTimeout,
		MaxResponseHeaderBytes: c.cfg.MaxHeaderBytes,
		ForceAttemptHTTP2:      true,
		Protocols:              new(http.Protocols),
		// How far a server may send ahead of the reader. It limits memory, and speed to one window a round trip.
		HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 1 << 20, MaxReceiveBufferPerConnection: 4 << 20},
	}
	s.h2.Protocols.SetHTTP2(true)
	return s
}

// errHTTP1 ends a request over HTTP/2 whose new connection speaks HTTP/1.1.
var errHTTP1 = errors.New("server speaks HTTP/1.1")

// roundTrip sends a request on an idle connection or on a new one. If the server has closed the idle one meanwhile, a new one is next.
func (s *server) roundTrip(x *exchange, hr *http.Request) (*http.Response, error) {
	o := origin{hr.URL.Scheme, hr.URL.Host}
	if c := s.take(o); c != nil {
		resp, silent, err := c.roundTrip(x, hr, s)
		if !silent || x.ctx.Err() != nil {
			return resp, err
		}
	}
	var cn *conn
	if s.h2 != nil && o.scheme == "https" {
		ctx := httptrace.WithClientTrace(context.WithValue(x.ctx, exchangeKey{}, x), x.trace())
		resp, err := s.h2.RoundTrip(hr.WithContext(ctx))
		if !errors.Is(err, errHTTP1) {
			return resp, err
		}
		if cn = x.offered(); cn == nil {
			return nil, err
		}
	} else {
		var err error
		if cn, err = s.dial(x, hr.URL); err != nil {
			if x.ctx.Err() != nil {
				err = context.Cause(x.ctx) // the dial knows only that it was given up
			}
			return nil, err
		}
	}
	resp, _, err := (&http1Conn{conn: cn, origin: o}).roundTrip(x, hr, s)
	return resp, err
}

// dial connects for HTTP/1.1.
func (s *server) dial(x *exchange, u *url.URL) (*conn, error) {
	if u.Scheme == "http" {
		return s.client.dial(x.ctx, x, s.addr, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
	}
	tc, err := s.client.dialTLS(x.ctx, x, s.addr, net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")), false)
	if err != nil {
		return nil, err
	}
	return overTLS(tc), nil
}

// take returns the connection to an origin that has been idle for the shortest time, or nil.
func (s *server) take(o origin) *http1Conn {
	for {
		s.mu.Lock()
		i := len(s.idle) - 1
		for i >= 0 && s.idle[i].origin != o {
			i--
		}
		if i < 0 {
			s.mu.Unlock()
			return nil
		}
		c := s.idle[i]
		s.idle = slices.Delete(s.idle, i, i+1)
		s.mu.Unlock()
		c.timer.Stop()
		if c.quiet() {
			return c
		}
		c.Close()
	}
}

// keep makes a connection idle. The one that has been idle for the longest time makes room.
func (s *server) keep(c *http1Conn) {
	s.mu.Lock()
	if s.retired {
		s.mu.Unlock()
		c.Close()
		return
	}
	s.idle = append(s.idle, c)
	if c.timer == nil {
		c.timer = time.AfterFunc(s.client.cfg.IdleTimeout, func() { s.drop(c) })
	} else {
		c.timer.Reset(s.client.cfg.IdleTimeout)
	}
	var oldest *http1Conn
	if len(s.idle) > s.client.cfg.IdleConns {
		oldest = s.idle[0]
		s.idle = slices.Delete(s.idle, 0, 1)
	}
	s.mu.Unlock()
	if oldest != nil {
		oldest.timer.Stop()
		oldest.Close()
	}
}

// drop closes a connection if it is idle.
func (s *server) drop(c *http1Conn) {
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		c.Close()
	}
}

// retire closes the idle connections. Those of running requests end with them (keep, leave).
func (s *server) retire() {
	s.mu.Lock()
	idle := s.idle
	s.idle, s.retired = nil, true
	s.mu.Unlock()
	for _, c := range idle {
		c.timer.Stop()
		c.Close()
	}
	if s.h2 != nil {
		s.h2.CloseIdleConnections()
	}
}

// leave closes the connections over HTTP/2 that a request has left idle, if none becomes idle any more.
func (s *server) leave() {
	if s.h2 == nil {
		return
	}
	s.mu.Lock()
	retired := s.retired
	s.mu.Unlock()
	if retired {
		s.h2.CloseIdleConnections()
	}
}

// server returns the server at an address, and makes it if there is none. The one least recently used makes room.
func (c *Client) server(addr netip.Addr) (*server, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errClosed
	}
	s, ok := c.servers.Get(addr)
	if !ok {
		s = c.newServer(addr, c.cfg.HTTP2)
		c.servers.Add(addr, s)
	}
	return s, nil
}

// adopt makes s the server of its address.
func (c *Client) adopt(s *server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers.Remove(s.addr)
	c.servers.Add(s.addr, s)
}
