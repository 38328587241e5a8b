package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/sync/semaphore"
)

// remote is a peer that a client calls. Its connection is dialled when needed, and all calls share it.
type remote struct {
	id     string
	client *Client
	http   *http.Transport
	// procedures holds a connect.Client for each procedure called so far, by name. Each uses its buffers again.
	procedures sync.Map
	// ctx ends all dials, calls and connections.
	ctx  context.Context
	stop context.CancelFunc
	// slots bounds the calls in progress. More than the peer allows on one connection would open others.
	slots *semaphore.Weighted
}

func newRemote(c *Client, id string) *remote {
	r := &remote{id: id, client: c, slots: semaphore.NewWeighted(int64(c.cfg.CallsPerPeer))}
	r.ctx, r.stop = context.WithCancel(c.ctx)
	r.http = &http.Transport{
		Protocols: new(http.Protocols), DialContext: r.dial, TLSClientConfig: c.trust.credentials().client(id),
		TLSHandshakeTimeout: dialTime, IdleConnTimeout: idleTime, DisableCompression: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: keepAlive, PingTimeout: keepAlive / 2},
	}
	r.http.Protocols.SetHTTP2(true)
	return r
}

// callTo returns the client of one procedure of a peer.
func callTo[Q, R any](r *remote, procedure string) *connect.Client[Q, R] {
	made, ok := r.procedures.Load(procedure)
	if !ok {
		made, _ = r.procedures.LoadOrStore(procedure, connect.NewClient[Q, R](
			&http.Client{Transport: r, CheckRedirect: noRedirect}, "https://"+r.id+pathOf(procedure), r.client.options...))
	}
	return made.(*connect.Client[Q, R])
}

func noRedirect(*http.Request, []*http.Request) error { return errors.New("peer redirects") }

// dial makes a connection for calls.
func (r *remote) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	// The transport continues a dial after the call that wanted it has ended. It ends with the remote.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	conn, err := r.client.deps.Through(ctx, r.id, func(ctx context.Context) (net.Conn, error) { return r.client.dial(ctx, r.id) })
	if err != nil {
		// Do not wrap err: a dial that timed out does not mean that the call did.
		return nil, fmt.Errorf("dial peer %s: %v", r.id, err)
	}
	unhook := context.AfterFunc(r.ctx, func() { conn.Close() }) //nolint:errcheck // its users are told
	return &remoteConn{conn, unhook}, nil
}

// remoteConn is a connection that ends with its remote, unless it is closed before.
type remoteConn struct {
	net.Conn
	unhook func() bool
}

func (c *remoteConn) Close() error {
	c.unhook()
	return c.Conn.Close()
}

// dial connects to a peer's current address.
func (c *Client) dial(ctx context.Context, to string) (net.Conn, error) {
	addr, ok := c.deps.Addr(to)
	if !ok {
		return nil, errors.New("no address of it is known")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return c.deps.Dial(ctx, "tcp", addr)
}

// Connect dials a peer for a connection without calls (ServerDeps.Link). Both ends have proved who they are.
func (c *Client) Connect(ctx context.Context, to string) (net.Conn, error) {
	raw, err := c.dial(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", to, err)
	}
	cfg := c.trust.credentials().client(to)
	cfg.NextProtos = []string{linkProtocol}
	below := &trustedConn{Conn: raw, trust: c.trust}
	conn := tls.Client(below, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", to, err), raw.Close())
	}
	if _, why := below.admit(conn.ConnectionState(), math.MaxInt); why != "" {
		return nil, errors.Join(fmt.Errorf("connect to %s: %s", to, why), raw.Close())
	}
	return conn, nil
}

// RoundTrip counts messages and bytes.
func (r *remote) RoundTrip(req *http.Request) (*http.Response, error) {
	procedure, t := path.Base(req.URL.Path), r.client.tally
	req = req.Clone(req.Context()) // a RoundTripper must not change its request
	req.Body = countedBody{req.Body, func(n int) { t.add(procedure, Traffic{BytesSent: uint64(n)}) }}
	res, err := r.http.RoundTrip(req)
	t.add(procedure, Traffic{MessagesSent: 1})
	if err != nil {
		return nil, err
	}
	t.add(procedure, Traffic{MessagesReceived: 1})
	res.Body = countedBody{res.Body, func(n int) { t.add(procedure, Traffic{BytesReceived: uint64(n)}) }}
	return res, nil
}

// countedBody counts the bytes read from a body.
type countedBody struct {
	io.ReadCloser
	count func(int)
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.count(n)
	return n, err
}
