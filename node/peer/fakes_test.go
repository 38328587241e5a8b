package peer_test

import (
	"context"
	"maps"
	"sync"

	"proxima/node/wire"
)

// fakeHandler counts the calls that it carries out. What a test gives no function for it answers with an empty message.
type fakeHandler struct {
	OnDeliver func(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	OnIdle    func(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error)

	mu    sync.Mutex
	calls map[string]int
}

// seen returns how often each procedure was carried out.
func (h *fakeHandler) seen() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

func carryOut[Q, R any](ctx context.Context, h *fakeHandler, procedure string, f func(context.Context, string, *Q) (*R, error),
	from string, req *Q) (*R, error) {
	h.mu.Lock()
	if h.calls == nil {
		h.calls = map[string]int{}
	}
	h.calls[procedure]++
	h.mu.Unlock()
	if f == nil {
		return new(R), nil
	}
	return f(ctx, from, req)
}

func (h *fakeHandler) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return carryOut(ctx, h, "Deliver", h.OnDeliver, from, req)
}

func (h *fakeHandler) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return carryOut[wire.LeaseRequest, wire.LeaseResponse](ctx, h, "Lease", nil, from, req)
}

func (h *fakeHandler) Rights(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	return carryOut[wire.RightsRequest, wire.RightsResponse](ctx, h, "Rights", nil, from, req)
}

func (h *fakeHandler) Renew(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return carryOut[wire.RenewRequest, wire.RenewResponse](ctx, h, "Renew", nil, from, req)
}

func (h *fakeHandler) Claim(ctx context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return carryOut[wire.ClaimRequest, wire.ClaimResponse](ctx, h, "Claim", nil, from, req)
}

func (h *fakeHandler) Store(ctx context.Context, from string, req *wire.StoreRequest) (*wire.StoreResponse, error) {
	return carryOut[wire.StoreRequest, wire.StoreResponse](ctx, h, "Store", nil, from, req)
}

func (h *fakeHandler) Load(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error) {
	return carryOut[wire.LoadRequest, wire.LoadResponse](ctx, h, "Load", nil, from, req)
}

func (h *fakeHandler) Commit(ctx context.Context, from string, req *wire.CommitRequest) (*wire.CommitResponse, error) {
	return carryOut[wire.CommitRequest, wire.CommitResponse](ctx, h, "Commit", nil, from, req)
}

func (h *fakeHandler) Fetch(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	return carryOut[wire.FetchRequest, wire.FetchResponse](ctx, h, "Fetch", nil, from, req)
}

func (h *fakeHandler) Idle(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	return carryOut(ctx, h, "Idle", h.OnIdle, from, req)
}

func (h *fakeHandler) Quota(ctx context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	return carryOut[wire.QuotaRequest, wire.QuotaResponse](ctx, h, "Quota", nil, from, req)
}

func (h *fakeHandler) Ask(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	return carryOut[wire.AskRequest, wire.AskResponse](ctx, h, "Ask", nil, from, req)
}

// accepts answers that links are accepted.
func accepts(links []*wire.Link) *wire.DeliverResponse {
	res := &wire.DeliverResponse{}
	for range links {
		res.Answers = append(res.Answers, verdict(wire.Verdict_VERDICT_ACCEPTED))
	}
	return res
}
