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
