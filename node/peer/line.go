package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"sync"
	"sync/atomic"

	"connectrpc.com/connect"
)

// line is one peer's connection. It is dialled when needed, and all calls share it.
type line struct {
	to     string
	client *Client
	http   *http.Transport
	// procedures holds a connect.Client for each procedure called so far, by name.
	procedures sync.Map
	// ctx ends with the line, and ends all its dials and calls.
	ctx  context.Context
	stop context.CancelFunc
	// slots bounds the calls in progress. More than the peer allows on one connection would open others.
	slots chan struct{}

	// mu guards what follows.
	mu    sync.Mutex
	conns map[*lineConn]struct{} // nil: closed
}

func newLine(c *Client, to string) *line {
	l := &line{to: to, client: c, slots: make(chan struct{}, c.cfg.CallsPerPeer), conns: map[*lineConn]struct{}{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.http = &http.Transport{
		Protocols: new(http.Protocols), DialContext: l.dial, TLSClientConfig: c.credentials.client(to),
		TLSHandshakeTimeout: c.cfg.DialTimeout, IdleConnTimeout: c.cfg.Idle, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: c.cfg.KeepAlive, PingTimeout: c.cfg.KeepAlive / 2},
	}
	l.http.Protocols.SetHTTP2(true)
	return l
}

// callTo returns the client of one procedure of the peer.
func callTo[Q, R any](l *line, procedure string) *connect.Client[Q, R] {
	made, ok := l.procedures.Load(procedure)
	if !ok {
		made, _ = l.procedures.LoadOrStore(procedure, connect.NewClient[Q, R](
			&http.Client{Transport: l, CheckRedirect: noRedirect}, "https://"+l.to+pathOf(procedure), l.client.options...))
	}
	return made.(*connect.Client[Q, R])
}

func noRedirect(*http.Request, []*http.Request) error { return errors.New("peer redirects") }

// enter waits for a slot. It returns false if ctx ends first.
func (l *line) enter(ctx context.Context) bool {
	select {
	case l.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// dial connects to the peer's current address.
func (l *line) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.client.cfg.DialTimeout)
	defer cancel()
	// The transport continues a dial after the call that wanted it has ended. The line must not.
	defer context.AfterFunc(l.ctx, cancel)()
	conn, err := l.client.reach(ctx, network, l.to)
	if err != nil {
		// Do not wrap err: a dial that timed out does not mean that the call did.
		return nil, fmt.Errorf("dial peer %s: %v", l.to, err)
	}
	own := &lineConn{Conn: conn, line: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return nil, errors.Join(ErrClosed, conn.Close())
	}
	l.conns[own] = struct{}{}
	return own, nil
}

// reach connects to a peer, through another one if need be.
func (c *Client) reach(ctx context.Context, network, to string) (net.Conn, error) {
	if c.deps.Through != nil {
		if conn, err := c.deps.Through(ctx, to); conn != nil || err != nil {
			return conn, err
		}
	}
	addr, ok := c.deps.Addr(to)
	if !ok {
		return nil, errors.New("no address of it is known")
	}
	return c.deps.Dial(ctx, network, addr)
}

// Connect dials a peer for a connection without calls (ServerDeps.Link). Both ends have proved who they are.
func (c *Client) Connect(ctx context.Context, to string) (net.Conn, error) {
	c.mu.Lock()
	credentials := c.credentials
	c.mu.Unlock()
	addr, ok := c.deps.Addr(to)
	switch {
	case credentials == nil:
		return nil, ErrNoSecret
	case !ok:
		return nil, fmt.Errorf("connect to %s: no address of it is known", to)
	}
	raw, err := c.deps.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	cfg := credentials.client(to)
	cfg.NextProtos = []string{linkProtocol}
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", to, err), raw.Close())
	}
	return conn, nil
}

// close ends all calls, dials and connections.
func (l *line) close() {
	l.stop()
	l.mu.Lock()
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	for c := range conns {
		c.Conn.Close() //nolint:errcheck // its users are told
	}
	l.http.CloseIdleConnections()
}

// lineConn is a connection that removes itself from its line when closed.
type lineConn struct {
	net.Conn
	line *line
}

func (c *lineConn) Close() error {
	c.line.mu.Lock()
	delete(c.line.conns, c)
	c.line.mu.Unlock()
	return c.Conn.Close()
}

// RoundTrip counts the bytes sent and received.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	procedure, t := path.Base(req.URL.Path), l.client.tally
	body := &countedBody{ReadCloser: http.NoBody}
	if req.Body != nil {
		body.ReadCloser = req.Body
		// A RoundTripper must not change its request.
		req = req.Clone(req.Context())
		req.Body = body
	}
	res, err := l.http.RoundTrip(req)
	t.sent(procedure, body.n.Load())
	if err != nil {
		return nil, err
	}
	res.Body = &countedBody{ReadCloser: res.Body, ended: func(n int64) { t.received(procedure, n) }}
	return res, nil
}

// countedBody counts the bytes read from a body, and reports the number once, on Close.
type countedBody struct {
	io.ReadCloser
	once  sync.Once
	ended func(int64) // may be nil
	n     atomic.Int64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

func (b *countedBody) Close() error {
	err := b.ReadCloser.Close()
	if b.ended != nil {
		b.once.Do(func() { b.ended(b.n.Load()) })
	}
	return err
}
