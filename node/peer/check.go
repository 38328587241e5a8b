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

// call is one call on its way through the server.
type call struct {
	peer      string
	procedure string
	// refused: it has been counted.
	refused bool
}

type callKey struct{}

// callOf finds the call that the middleware put into the context.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	return &call{}
}

// request is the message of a call.
type request[Q any] interface {
	*Q
	proto.Message
	GetHeader() *wire.Header
}

// pathOf is where a call is made.
func pathOf(procedure string) string { return "/proxima.v1.Overlay/" + procedure }

// routes are the calls by their paths.
func (s *Server) routes(options ...connect.HandlerOption) map[string]http.Handler {
	h := s.deps.Handler
	return map[string]http.Handler{
		pathOf("Deliver"): route(s, h.Deliver, options),
		pathOf("Lease"):   route(s, h.Lease, options),
		pathOf("Rights"):  route(s, h.Rights, options),
		pathOf("Renew"):   route(s, h.Renew, options),
		pathOf("Claim"):   route(s, h.Claim, options),
		pathOf("Store"):   route(s, h.Store, options),
		pathOf("Load"):    route(s, h.Load, options),
		pathOf("Commit"):  route(s, h.Commit, options),
		pathOf("Fetch"):   route(s, h.Fetch, options),
		pathOf("Idle"):    route(s, h.Idle, options),
		pathOf("Quota"):   route(s, h.Quota, options),
		pathOf("Ask"):     route(s, h.Ask, options),
		pathOf("Tell"):    route(s, s.unite, options),
	}
}

// route has one kind of call carried out, if its header and its form are right.
func route[Q, R any, M request[Q]](s *Server, carryOut func(context.Context, string, M) (*R, error),
	options []connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandlerSimple("", func(ctx context.Context, req *Q) (*R, error) {
		call := callOf(ctx)
		if err := s.check(call, M(req)); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
		defer cancel()
		res, err := carryOut(ctx, call.peer, req)
		if err == nil && res == nil {
			err = errors.New("handler has no answer")
		}
		if err != nil {
			return nil, s.handled(call, err)
		}
		return res, nil
	}, options...)
}

// check refuses a message that is not for this node, not of its caller, or not in its form.
func (s *Server) check(call *call, m interface {
	proto.Message
	GetHeader() *wire.Header
}) error {
	switch h := m.GetHeader(); {
	case h.GetVersion() != Version:
		return s.refuse(call, KindVersion, connect.CodeFailedPrecondition,
			fmt.Sprintf("version %d of the protocol; this node speaks %d", h.GetVersion(), Version))
	case h.GetRun() != s.deps.Run:
		return s.refuse(call, KindRun, connect.CodeFailedPrecondition,
			fmt.Sprintf("run %.80q; this node is of another", h.GetRun()))
	case h.GetSender() != call.peer:
		return s.refuse(call, KindSender, connect.CodePermissionDenied,
			fmt.Sprintf("sender %.80q has the certificate of %s", h.GetSender(), call.peer))
	}
	if err := s.forms.check(m); err != nil {
		return s.refuse(call, KindMalformed, connect.CodeInvalidArgument, err.Error())
	}
	if t, _ := m.(*wire.TellRequest); len(t.GetEntries()) == 0 && s.deps.Told != nil && !s.deps.Told.Knows(m.GetHeader().GetTold()) {
		call.refused = true // no fault of the peer: it tells all now
		s.tally.failed(KindTold)
		return refusal(KindTold, connect.CodeFailedPrecondition, errors.New("what it has been told is not known here yet"))
	}
	return nil
}

// unite takes what a peer tells.
func (s *Server) unite(_ context.Context, _ string, req *wire.TellRequest) (*wire.TellResponse, error) {
	if s.deps.Told == nil {
		return nil, fmt.Errorf("%w: this node is told nothing", ErrMalformed)
	}
	if err := s.deps.Told.Unite(req.GetEntries(), req.GetWhole()); err != nil {
		return nil, err
	}
	return &wire.TellResponse{}, nil
}

// refuse counts a call that is not carried out, and makes its answer.
func (s *Server) refuse(call *call, kind string, code connect.Code, reason string) *connect.Error {
	call.refused = true
	s.refusals.add(Refusal{Peer: call.peer, Kind: kind, Procedure: call.procedure, Reason: reason})
	return refusal(kind, code, errors.New(reason))
}

// handled sorts the error of a handler.
func (s *Server) handled(call *call, err error) *connect.Error {
	switch {
	case errors.Is(err, ErrMalformed):
		return s.refuse(call, KindMalformed, connect.CodeInvalidArgument, err.Error())
	case errors.Is(err, ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return s.refuse(call, KindUnavailable, connect.CodeUnavailable, err.Error())
	}
	return s.refuse(call, KindInternal, connect.CodeInternal, err.Error())
}

// broke answers a call whose handler panicked. The node goes on.
func (s *Server) broke(ctx context.Context, _ connect.Spec, _ http.Header, value any) error {
	return s.refuse(callOf(ctx), KindPanic, connect.CodeInternal, fmt.Sprintf("handler panics: %v", value))
}

// refusal makes the error that a peer gets.
func refusal(kind string, code connect.Code, err error) *connect.Error {
	e := connect.NewError(code, err)
	e.Meta().Set(kindHeader, kind)
	return e
}
