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

// saw counts a call. It never fails.
func (h *fakeHandler) saw(procedure string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls == nil {
		h.calls = map[string]int{}
	}
	h.calls[procedure]++
	return nil
}

func (h *fakeHandler) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	if err := h.saw("Deliver"); err != nil || h.OnDeliver == nil {
		return &wire.DeliverResponse{}, err
	}
	return h.OnDeliver(ctx, from, req)
}

func (h *fakeHandler) Idle(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	if err := h.saw("Idle"); err != nil || h.OnIdle == nil {
		return &wire.IdleResponse{}, err
	}
	return h.OnIdle(ctx, from, req)
}

func (h *fakeHandler) Lease(context.Context, string, *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return &wire.LeaseResponse{}, h.saw("Lease")
}

func (h *fakeHandler) Rights(context.Context, string, *wire.RightsRequest) (*wire.RightsResponse, error) {
	return &wire.RightsResponse{}, h.saw("Rights")
}

func (h *fakeHandler) Renew(context.Context, string, *wire.RenewRequest) (*wire.RenewResponse, error) {
	return &wire.RenewResponse{}, h.saw("Renew")
}

func (h *fakeHandler) Claim(context.Context, string, *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return &wire.ClaimResponse{}, h.saw("Claim")
}

func (h *fakeHandler) Store(context.Context, string, *wire.StoreRequest) (*wire.StoreResponse, error) {
	return &wire.StoreResponse{}, h.saw("Store")
}

func (h *fakeHandler) Load(context.Context, string, *wire.LoadRequest) (*wire.LoadResponse, error) {
	return &wire.LoadResponse{}, h.saw("Load")
}

func (h *fakeHandler) Commit(context.Context, string, *wire.CommitRequest) (*wire.CommitResponse, error) {
	return &wire.CommitResponse{}, h.saw("Commit")
}

func (h *fakeHandler) Fetch(context.Context, string, *wire.FetchRequest) (*wire.FetchResponse, error) {
	return &wire.FetchResponse{}, h.saw("Fetch")
}

func (h *fakeHandler) Quota(context.Context, string, *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	return &wire.QuotaResponse{}, h.saw("Quota")
}

func (h *fakeHandler) Ask(context.Context, string, *wire.AskRequest) (*wire.AskResponse, error) {
	return &wire.AskResponse{}, h.saw("Ask")
}

// accepts answers that links are accepted.
func accepts(links []*wire.Link) *wire.DeliverResponse {
	res := &wire.DeliverResponse{}
	for range links {
		res.Answers = append(res.Answers, verdict(wire.Verdict_VERDICT_ACCEPTED))
	}
	return res
}
