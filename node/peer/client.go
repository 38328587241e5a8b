package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"proxima/node/bell"
	"proxima/node/wire"
)

// ClientDeps is what a client needs.
type ClientDeps struct {
	// ID is this node, Boot its current life, Run the name of the crawl.
	ID   string
	Boot uint64
	Run  string
	// Secret is the cluster's.
	Secret *Secret
	// Addr returns the "host:port" of a peer.
	Addr func(id string) (addr string, ok bool)
	// Dial connects; nil uses the machine's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Through connects to a peer for calls, by dialling it or by way of others; nil dials it.
	Through func(ctx context.Context, id string, dial func(context.Context) (net.Conn, error)) (net.Conn, error)
	// Told, if set, is what this node has been told about the crawl.
	Told Told
	// Local carries out calls to this node's own id, without a network. It gets a copy of the request. Nil if there are none.
	Local *Calls
}

// Client calls peers. It is safe for concurrent use. It retries a call, with the same message id, while the connection
// or the peer is unavailable. A call ends within callTime or with its context.
//
// Calls fail with ErrUnavailable (it is unknown whether the message arrived: send it again), ErrMalformed (the peer
// will never understand it), ErrRefused, ErrClosed, or the error of the context. Any other error is a
// fault of the peer.
//
// A request belongs to the client until the call returns: the client writes its header.
type Client struct {
	Calls
	cfg     Config
	deps    ClientDeps
	forms   forms
	tally   *tally
	ids     atomic.Uint64
	options []connect.ClientOption
	trust   *trust

	// ctx ends with Close.
	ctx  context.Context
	stop context.CancelFunc
	// calls counts the calls in progress, for Close.
	calls sync.WaitGroup
	// mu guards what follows.
	mu      sync.Mutex
	remotes map[string]*remote
}

// NewClient makes a client without connections. It must be closed.
func NewClient(cfg Config, deps ClientDeps) (*Client, error) {
	trust, err := newTrust(deps.Secret, deps.ID)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, deps: deps, forms: newForms(), tally: newTally(), trust: trust, remotes: map[string]*remote{}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	if c.deps.Dial == nil {
		c.deps.Dial = (&net.Dialer{}).DialContext
	}
	if c.deps.Through == nil {
		c.deps.Through = func(ctx context.Context, _ string, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
			return dial(ctx)
		}
	}
	_, c.options = compression(cfg)
	local := cmp.Or(deps.Local, new(Calls))
	c.Calls = Calls{
		Deliver: calling(c, "Deliver", &local.Deliver),
		Lease:   calling(c, "Lease", &local.Lease),
		Rights:  calling(c, "Rights", &local.Rights),
		Renew:   calling(c, "Renew", &local.Renew),
		Claim:   calling(c, "Claim", &local.Claim),
		Store:   calling(c, "Store", &local.Store),
		Load:    calling(c, "Load", &local.Load),
		Commit:  calling(c, "Commit", &local.Commit),
		Fetch:   calling(c, "Fetch", &local.Fetch),
		Idle:    calling(c, "Idle", &local.Idle),
		Quota:   calling(c, "Quota", &local.Quota),
		Ask:     calling(c, "Ask", &local.Ask),
	}
	return c, nil
}

// Tell tells a peer all that this node has been told.
func (c *Client) Tell(ctx context.Context, to string) error {
	_, err := calling[wire.TellRequest, wire.TellResponse](c, "Tell", nil)(ctx, to, &wire.TellRequest{})
	return err
}

// Counts returns the traffic and failures of calls made.
func (c *Client) Counts() Counts { return c.tally.counts() }

// Forget ends the calls to a peer in progress and closes its connections. Use it when a peer is gone or has moved.
// Later calls dial anew.
func (c *Client) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.remotes[id]; r != nil {
		r.stop()
		delete(c.remotes, id)
	}
}

// Close ends all calls, waits until they have returned, and closes all connections. It may be called twice.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop() // under the lock, so that no call begins after it
	c.mu.Unlock()
	c.calls.Wait()
}

// Rekey changes the secret of a client. Calls in progress finish undisturbed; later ones dial anew. Connections without calls end if their
// secret is no longer accepted.
func (c *Client) Rekey(secret *Secret) error {
	if err := c.trust.change(secret); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.remotes {
		time.AfterFunc(callTime, r.stop) // no call takes longer
	}
	clear(c.remotes)
	return nil
}

// begin returns a peer and counts a call to it. The caller calls calls.Done when the call has ended.
func (c *Client) begin(to string) (*remote, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, ErrClosed
	}
	r := c.remotes[to]
	if r == nil {
		if err := checkID(to); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		r = newRemote(c, to)
		c.remotes[to] = r
	}
	c.calls.Add(1)
	return r, nil
}

// calling returns one kind of call, which local carries out at this node.
func calling[Q, R any, M interface {
	*Q
	proto.Message
}](c *Client, procedure string, local *Call[Q, R]) Call[Q, R] {
	return func(ctx context.Context, to string, req *Q) (*R, error) {
		header, m := c.header(), M(req).ProtoReflect()
		m.Set(m.Descriptor().Fields().ByName("header"), protoreflect.ValueOfMessage(header.ProtoReflect()))
		if to == c.deps.ID {
			ctx, cancel := context.WithTimeout(ctx, callTime)
			defer cancel()
			return (*local)(ctx, to, proto.CloneOf(M(req))) // who carries it out may keep it
		}
		res, err := send[Q, R](ctx, c, to, procedure, header, req)
		if err != nil {
			err = fmt.Errorf("%s to %s: %w", procedure, to, err)
		}
		return res, err
	}
}

// send makes one call of a peer: it tries until there is an answer, a refusal or a timeout.
func send[Q, R any](caller context.Context, c *Client, to, procedure string, header *wire.Header, req *Q) (*R, error) {
	ctx, cancel := context.WithTimeout(caller, callTime)
	defer cancel()
	r, err := c.begin(to)
	if err != nil {
		return nil, err
	}
	defer c.calls.Done()
	defer context.AfterFunc(r.ctx, cancel)()
	if err := r.slots.Acquire(ctx, 1); err != nil {
		kind := KindCanceled
		if errors.Is(err, context.DeadlineExceeded) {
			kind = KindTimeout
		}
		c.tally.failed(kind)
		return nil, fmt.Errorf("too many calls at once: %w", &callError{kind, err})
	}
	defer r.slots.Release(1)
	call := callTo[Q, R](r, procedure)
	told := false
	for try := 1; ; try++ {
		res, err := call.CallUnary(ctx, connect.NewRequest(req))
		if err == nil {
			if err := c.forms.check(any(res.Msg).(proto.Message).ProtoReflect()); err != nil {
				c.tally.failed(KindInternal)
				return nil, fmt.Errorf("its answer: %w", &callError{KindInternal, err})
			}
			return res.Msg, nil
		}
		kind := kindOf(err)
		if kind == KindCanceled && ctx.Err() == nil {
			kind = KindUnavailable // a reset connection cancels its requests, too
		}
		c.tally.failed(kind)
		if kind == KindTold && !told && c.deps.Told != nil {
			if header.Told, err = c.tell(ctx, r); err != nil {
				switch kind = kindOf(err); kind {
				case KindMalformed, KindOversized, KindInternal, KindPanic:
					kind = KindTold // what is told is refused, not the message
				}
				return nil, fmt.Errorf("tell all: %w", &callError{kind, err})
			}
			told = true
			continue
		}
		if r.ctx.Err() != nil && caller.Err() == nil {
			return nil, fmt.Errorf("%w: the peer was forgotten", ErrUnavailable)
		}
		if try >= tries || kind != KindUnavailable && kind != KindBusy || bell.Sleep(ctx, bell.Backoff(try, firstPause, callTime)) != nil {
			return nil, &callError{kind, err}
		}
	}
}

func (c *Client) header() *wire.Header {
	h := &wire.Header{Version: Version, Run: c.deps.Run, Sender: c.deps.ID, Boot: c.deps.Boot, Id: c.ids.Add(1)}
	if c.deps.Told != nil {
		h.Told = c.deps.Told.Digest()
	}
	return h
}

// mostEntries bounds the entries of one message. They take no more than half of the largest message.
const mostEntries = 20_000

// tell tells a peer all that this node has been told, and returns the digest of that.
func (c *Client) tell(ctx context.Context, r *remote) (digest uint64, err error) {
	entries, digest := c.deps.Told.Entries()
	call := callTo[wire.TellRequest, wire.TellResponse](r, "Tell")
	for len(entries) > 0 {
		n := 0
		for bytes := 0; n < min(mostEntries, len(entries)) && bytes < c.cfg.MessageBytes/2; n++ {
			bytes += len(entries[n])
		}
		part := entries[:n]
		entries = entries[n:]
		req := &wire.TellRequest{Header: c.header(), Entries: part}
		if len(entries) == 0 {
			req.Whole = digest
		}
		if _, err := call.CallUnary(ctx, connect.NewRequest(req)); err != nil {
			return 0, err
		}
	}
	return digest, nil
}
