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

// checker looks at the header and the form of each request before its handler does.
type checker struct{ s *Server }

func (c checker) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		call := callOf(ctx)
		msg, ok := req.Any().(interface{ GetHeader() *wire.Header })
		if !ok {
			return nil, c.s.refuse(call, KindMalformed, connect.CodeInvalidArgument, "message without a header")
		}
		switch h := msg.GetHeader(); {
		case h.GetVersion() != Version:
			return nil, c.s.refuse(call, KindVersion, connect.CodeFailedPrecondition,
				fmt.Sprintf("version %d of the protocol; this node speaks %d", h.GetVersion(), Version))
		case h.GetRun() != c.s.deps.Run:
			return nil, c.s.refuse(call, KindRun, connect.CodeFailedPrecondition,
				fmt.Sprintf("run %.80q; this node is of another", h.GetRun()))
		case h.GetSender() != call.peer:
			return nil, c.s.refuse(call, KindSender, connect.CodePermissionDenied,
				fmt.Sprintf("sender %.80q has the certificate of %s", h.GetSender(), call.peer))
		}
		if m, ok := req.Any().(proto.Message); ok {
			if err := c.s.forms.check(m); err != nil {
				return nil, c.s.refuse(call, KindMalformed, connect.CodeInvalidArgument, err.Error())
			}
		}
		ctx, cancel := context.WithTimeout(ctx, c.s.cfg.Timeout)
		defer cancel()
		res, err := next(ctx, req)
		if err != nil {
			return nil, c.s.handled(call, err)
		}
		return res, nil
	}
}

func (c checker) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next // there are none
}

func (c checker) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next // there are none
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

// adapter makes connect's service of a Handler.
type adapter struct{ h Handler }

// carry hands a request to a handler.
func carry[Q, R any](ctx context.Context, h Handler, req *connect.Request[Q],
	method func(Handler, context.Context, string, *Q) (*R, error)) (*connect.Response[R], error) {
	res, err := method(h, ctx, callOf(ctx).peer, req.Msg)
	if err != nil {
		return nil, err
	}
	if res == nil {
		return nil, errors.New("handler has no answer")
	}
	return connect.NewResponse(res), nil
}

func (a adapter) Deliver(ctx context.Context, r *connect.Request[wire.DeliverRequest]) (
	*connect.Response[wire.DeliverResponse], error) {
	return carry(ctx, a.h, r, Handler.Deliver)
}

func (a adapter) Lease(ctx context.Context, r *connect.Request[wire.LeaseRequest]) (
	*connect.Response[wire.LeaseResponse], error) {
	return carry(ctx, a.h, r, Handler.Lease)
}

func (a adapter) Rights(ctx context.Context, r *connect.Request[wire.RightsRequest]) (
	*connect.Response[wire.RightsResponse], error) {
	return carry(ctx, a.h, r, Handler.Rights)
}

func (a adapter) Renew(ctx context.Context, r *connect.Request[wire.RenewRequest]) (
	*connect.Response[wire.RenewResponse], error) {
	return carry(ctx, a.h, r, Handler.Renew)
}

func (a adapter) Claim(ctx context.Context, r *connect.Request[wire.ClaimRequest]) (
	*connect.Response[wire.ClaimResponse], error) {
	return carry(ctx, a.h, r, Handler.Claim)
}

func (a adapter) Store(ctx context.Context, r *connect.Request[wire.StoreRequest]) (
	*connect.Response[wire.StoreResponse], error) {
	return carry(ctx, a.h, r, Handler.Store)
}

func (a adapter) Load(ctx context.Context, r *connect.Request[wire.LoadRequest]) (
	*connect.Response[wire.LoadResponse], error) {
	return carry(ctx, a.h, r, Handler.Load)
}

func (a adapter) Commit(ctx context.Context, r *connect.Request[wire.CommitRequest]) (
	*connect.Response[wire.CommitResponse], error) {
	return carry(ctx, a.h, r, Handler.Commit)
}

func (a adapter) Fetch(ctx context.Context, r *connect.Request[wire.FetchRequest]) (
	*connect.Response[wire.FetchResponse], error) {
	return carry(ctx, a.h, r, Handler.Fetch)
}

func (a adapter) Idle(ctx context.Context, r *connect.Request[wire.IdleRequest]) (
	*connect.Response[wire.IdleResponse], error) {
	return carry(ctx, a.h, r, Handler.Idle)
}
