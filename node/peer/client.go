package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

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
	// Through, if set, connects to a peer by way of others. Without an error it is asked before the peer is dialled, and returns nil and nil
	// for one that can be dialled. With the error of a dial it finds another way.
	Through func(ctx context.Context, id string, failed error) (conn net.Conn, err error)
	// Told, if set, is what this node has been told about the crawl.
	Told Told
	// Local carries out calls to this node's own id, without a network. It gets a copy of the request.
	Local Handler
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
	_, c.options = compression(cfg)
	return c, nil
}

// Deliver offers links to the owner of their hosts, or to the home.
func (c *Client) Deliver(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return send(ctx, c, to, "Deliver", req, &req.Header, Handler.Deliver)
}

// Lease asks a grantor for leases of servers.
func (c *Client) Lease(ctx context.Context, to string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return send(ctx, c, to, "Lease", req, &req.Header, Handler.Lease)
}

// Rights asks a node which servers it may send requests to.
func (c *Client) Rights(ctx context.Context, to string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	return send(ctx, c, to, "Rights", req, &req.Header, Handler.Rights)
}

// Renew tells a home that an owner of its hosts is alive.
func (c *Client) Renew(ctx context.Context, to string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return send(ctx, c, to, "Renew", req, &req.Header, Handler.Renew)
}

// Claim tells a home which of its hosts this node owns.
func (c *Client) Claim(ctx context.Context, to string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return send(ctx, c, to, "Claim", req, &req.Header, Handler.Claim)
}

// Store gives a peer what this node has of hosts.
func (c *Client) Store(ctx context.Context, to string, req *wire.StoreRequest) (*wire.StoreResponse, error) {
	return send(ctx, c, to, "Store", req, &req.Header, Handler.Store)
}

// Load asks a peer for part of what it has of a host.
func (c *Client) Load(ctx context.Context, to string, req *wire.LoadRequest) (*wire.LoadResponse, error) {
	return send(ctx, c, to, "Load", req, &req.Header, Handler.Load)
}

// Commit makes a peer the owner of a host.
func (c *Client) Commit(ctx context.Context, to string, req *wire.CommitRequest) (*wire.CommitResponse, error) {
	return send(ctx, c, to, "Commit", req, &req.Header, Handler.Commit)
}

// Fetch has a peer download a page and returns the result.
func (c *Client) Fetch(ctx context.Context, to string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	return send(ctx, c, to, "Fetch", req, &req.Header, Handler.Fetch)
}

// Idle asks whether a peer has anything left to do.
func (c *Client) Idle(ctx context.Context, to string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	return send(ctx, c, to, "Idle", req, &req.Header, Handler.Idle)
}

// Ask makes a call of a peer's API.
func (c *Client) Ask(ctx context.Context, to string, req *wire.AskRequest) (*wire.AskResponse, error) {
	return send(ctx, c, to, "Ask", req, &req.Header, Handler.Ask)
}

// Tell tells a peer all that this node has been told.
func (c *Client) Tell(ctx context.Context, to string) error {
	req := &wire.TellRequest{}
	_, err := send[wire.TellRequest, wire.TellResponse](ctx, c, to, "Tell", req, &req.Header, nil)
	return err
}

// Quota shares the limits of the crawl.
func (c *Client) Quota(ctx context.Context, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	return send(ctx, c, to, "Quota", req, &req.Header, Handler.Quota)
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

// send makes one call: it fills in the header and tries until there is an answer, a refusal or a timeout.
func send[Q, R any, M interface {
	*Q
	proto.Message
}](ctx context.Context, c *Client, to, procedure string, req M, header **wire.Header,
	local func(Handler, context.Context, string, M) (*R, error)) (*R, error) {
	*header = c.header()
	caller := ctx
	ctx, cancel := context.WithTimeout(caller, callTime)
	defer cancel()
	if to == c.deps.ID {
		return local(c.deps.Local, ctx, to, proto.CloneOf(req)) // the handler may keep it
	}
	r, err := c.begin(to)
	if err != nil {
		return nil, fmt.Errorf("%s to %s: %w", procedure, to, err)
	}
	defer c.calls.Done()
	defer context.AfterFunc(r.ctx, cancel)()
	if err := r.slots.Acquire(ctx, 1); err != nil {
		kind := KindCanceled
		if errors.Is(err, context.DeadlineExceeded) {
			kind = KindTimeout
		}
		c.tally.failed(kind)
		return nil, fmt.Errorf("%s to %s: too many calls at once: %w", procedure, to, &callError{kind, err})
	}
	defer r.slots.Release(1)
	call := callTo[Q, R](r, procedure)
	told := false
	for try := 1; ; try++ {
		res, err := call.CallUnary(ctx, connect.NewRequest((*Q)(req)))
		if err == nil {
			if err := c.forms.check(any(res.Msg).(proto.Message).ProtoReflect()); err != nil {
				c.tally.failed(KindInternal)
				return nil, fmt.Errorf("%s to %s: its answer: %w", procedure, to, &callError{KindInternal, err})
			}
			return res.Msg, nil
		}
		kind := kindOf(err)
		if kind == KindCanceled && ctx.Err() == nil {
			kind = KindUnavailable // a reset connection cancels its requests, too
		}
		c.tally.failed(kind)
		if kind == KindTold && !told && c.deps.Told != nil {
			if (*header).Told, err = c.tell(ctx, r); err != nil {
				switch kind = kindOf(err); kind {
				case KindMalformed, KindOversized, KindInternal, KindPanic:
					kind = KindTold // what is told is refused, not the message
				}
				return nil, fmt.Errorf("%s to %s: tell all: %w", procedure, to, &callError{kind, err})
			}
			told = true
			continue
		}
		if r.ctx.Err() != nil && caller.Err() == nil {
			return nil, fmt.Errorf("%s to %s: %w: the peer was forgotten", procedure, to, ErrUnavailable)
		}
		if try >= tries || kind != KindUnavailable && kind != KindBusy || bell.Sleep(ctx, backoff(try, firstPause, callTime)) != nil {
			return nil, fmt.Errorf("%s to %s: %w", procedure, to, &callError{kind, err})
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
