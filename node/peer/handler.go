// Package peer carries the peer protocol. It has the cluster secret with the keys derived from it, a server that admits
// only holders of the secret, a client with deadlines and retries, and the outbox, the durable list of links that peers
// have not answered yet. It decides who may talk, how large and how many messages may be, and sees to it that no link
// is lost. It does not decide what messages mean, which peers exist, or who owns a host: handlers and callbacks do.
//
// The messages are those of package wire; docs/protocol.md describes the protocol.
package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// Version is the version of the peer protocol, in the header of every request.
const Version = 4

// Call is one kind of call. A client makes it to the node with an id. Who carries it out has it from that node, as its certificate proves.
type Call[Q, R any] func(ctx context.Context, id string, req *Q) (*R, error)

// Calls are the calls of the protocol: those that a client makes, or those that a node carries out.
//
// A message comes at least once: a client repeats it if the answer was lost, with the same (sender, boot, id) in its
// header. Who carries it out does that any number of times; nobody keeps a list of messages seen. They are carried out
// concurrently and must not wait for calls to other peers, so that accepting never waits for sending. Only Fetch and Deliver
// wait, for a download and for a replica, and they bound how many calls do. The request belongs to who carries it out.
//
// ErrMalformed tells the caller that the message will never be understood, ErrUnavailable that it may be sent again
// soon. Any other error is a fault of this node. After an error the caller changes nothing.
type Calls struct {
	// Deliver offers links to the owner of their hosts, or to the home.
	Deliver Call[wire.DeliverRequest, wire.DeliverResponse]
	// Lease asks a grantor for leases of servers.
	Lease Call[wire.LeaseRequest, wire.LeaseResponse]
	// Rights asks a node which servers it may send requests to.
	Rights Call[wire.RightsRequest, wire.RightsResponse]
	// Renew tells a home that an owner of its hosts is alive.
	Renew Call[wire.RenewRequest, wire.RenewResponse]
	// Claim tells a home which of its hosts this node owns.
	Claim Call[wire.ClaimRequest, wire.ClaimResponse]
	// Store gives a peer what this node has of hosts.
	Store Call[wire.StoreRequest, wire.StoreResponse]
	// Load asks a peer for part of what it has of a host.
	Load Call[wire.LoadRequest, wire.LoadResponse]
	// Commit makes a peer the owner of a host.
	Commit Call[wire.CommitRequest, wire.CommitResponse]
	// Fetch has a peer download a page and returns the result.
	Fetch Call[wire.FetchRequest, wire.FetchResponse]
	// Idle asks whether a peer has anything left to do.
	Idle Call[wire.IdleRequest, wire.IdleResponse]
	// Quota shares the limits of the crawl.
	Quota Call[wire.QuotaRequest, wire.QuotaResponse]
	// Ask makes a call of a peer's API.
	Ask Call[wire.AskRequest, wire.AskResponse]
}

// Told is what a node has been told about the crawl: what the seeds of all nodes bring into scope, and what is blocked.
// Entries are added, or replaced by newer ones. Each call carries the digest of what its sender knows; a callee that
// does not know all of that refuses the call, is told, and is then called again. So whoever is given a host or a link
// knows the scope that it belongs to. Methods are called concurrently.
type Told interface {
	// Entries returns all entries and their digest, 0 for none; Digest returns the digest alone.
	Entries() (entries []string, digest uint64)
	Digest() uint64
	// Knows reports whether this node has every entry behind a digest, or a newer one in its place.
	Knows(digest uint64) bool
	// Unite adds entries, on disk before it returns. If whole is not 0, these entries are the last ones and whole is
	// the digest of all.
	Unite(entries []string, whole uint64) error
}

// callerKey is the key of the id of the calling peer, which ServeHTTP puts into the context.
type callerKey struct{}

// headed is a message with a header: the request of any call.
type headed interface {
	proto.Message
	GetHeader() *wire.Header
}

func pathOf(procedure string) string { return "/proxima.v1.Overlay/" + procedure }

// routes returns the handlers of all calls by path.
func (s *Server) routes(options ...connect.HandlerOption) map[string]http.Handler {
	h, tell := s.deps.Handler, Call[wire.TellRequest, wire.TellResponse](s.unite)
	return map[string]http.Handler{
		pathOf("Deliver"): route(s, &h.Deliver, options),
		pathOf("Lease"):   route(s, &h.Lease, options),
		pathOf("Rights"):  route(s, &h.Rights, options),
		pathOf("Renew"):   route(s, &h.Renew, options),
		pathOf("Claim"):   route(s, &h.Claim, options),
		pathOf("Store"):   route(s, &h.Store, options),
		pathOf("Load"):    route(s, &h.Load, options),
		pathOf("Commit"):  route(s, &h.Commit, options),
		pathOf("Fetch"):   route(s, &h.Fetch, options),
		pathOf("Idle"):    route(s, &h.Idle, options),
		pathOf("Quota"):   route(s, &h.Quota, options),
		pathOf("Ask"):     route(s, &h.Ask, options),
		pathOf("Tell"):    route(s, &tell, options),
	}
}

// route returns the handler of one kind of call. It checks the header and the form of a message before it carries it out.
func route[Q, R any, M interface {
	*Q
	headed
}](s *Server, carryOut *Call[Q, R], options []connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandlerSimple("", func(ctx context.Context, req *Q) (*R, error) {
		caller, _ := ctx.Value(callerKey{}).(string)
		if err := s.check(caller, M(req)); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		res, err := (*carryOut)(ctx, caller, req)
		switch {
		case err == nil && res != nil:
			return res, nil
		case err == nil:
			return nil, refusal(KindInternal, "handler has no answer")
		case errors.Is(err, ErrMalformed):
			return nil, refusal(KindMalformed, err.Error())
		case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return nil, refusal(KindUnavailable, err.Error())
		}
		return nil, refusal(KindInternal, err.Error())
	}, options...)
}

// check refuses a message that is not for this node, not from its caller, or has not its form.
func (s *Server) check(caller string, m headed) error {
	switch h := m.GetHeader(); {
	case h.GetVersion() != Version:
		return refusal(KindVersion, fmt.Sprintf("version %d of the protocol; this node speaks %d", h.GetVersion(), Version))
	case h.GetRun() != s.deps.Run:
		return refusal(KindRun, fmt.Sprintf("run %.80q; this node is of another", h.GetRun()))
	case h.GetSender() != caller:
		return refusal(KindSender, fmt.Sprintf("sender %.80q has the certificate of %s", h.GetSender(), caller))
	}
	if err := s.forms.check(m.ProtoReflect()); err != nil {
		return refusal(KindMalformed, err.Error())
	}
	if t, _ := m.(*wire.TellRequest); len(t.GetEntries()) == 0 && s.deps.Told != nil && !s.deps.Told.Knows(m.GetHeader().GetTold()) {
		return refusal(KindTold, "what it has been told is not known here yet")
	}
	return nil
}

func (s *Server) unite(_ context.Context, _ string, req *wire.TellRequest) (*wire.TellResponse, error) {
	if s.deps.Told == nil {
		return nil, fmt.Errorf("%w: this node is told nothing", ErrMalformed)
	}
	if err := s.deps.Told.Unite(req.GetEntries(), req.GetWhole()); err != nil {
		return nil, err
	}
	return &wire.TellResponse{}, nil
}

// broke answers a call whose handler panicked. The node goes on.
func broke(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
	return refusal(KindPanic, fmt.Sprintf("handler panics: %v", value))
}
