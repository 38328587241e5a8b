package peer_test

import (
	"context"
	"maps"
	"sync"

	"proxima/node/peer"
	"proxima/node/wire"
)

// fakeHandler counts the calls that it carries out. What a test gives no function for it answers with an empty message.
type fakeHandler struct {
	OnDeliver peer.Call[wire.DeliverRequest, wire.DeliverResponse]
	OnIdle    peer.Call[wire.IdleRequest, wire.IdleResponse]

	mu    sync.Mutex
	calls map[string]int
}

// seen returns how often each procedure was carried out.
func (h *fakeHandler) seen() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.calls)
}

// carriesOut are its calls.
func (h *fakeHandler) carriesOut() *peer.Calls {
	return &peer.Calls{
		Deliver: counted(h, "Deliver", &h.OnDeliver),
		Lease:   counted[wire.LeaseRequest, wire.LeaseResponse](h, "Lease", nil),
		Rights:  counted[wire.RightsRequest, wire.RightsResponse](h, "Rights", nil),
		Renew:   counted[wire.RenewRequest, wire.RenewResponse](h, "Renew", nil),
		Claim:   counted[wire.ClaimRequest, wire.ClaimResponse](h, "Claim", nil),
		Store:   counted[wire.StoreRequest, wire.StoreResponse](h, "Store", nil),
		Load:    counted[wire.LoadRequest, wire.LoadResponse](h, "Load", nil),
		Commit:  counted[wire.CommitRequest, wire.CommitResponse](h, "Commit", nil),
		Fetch:   counted[wire.FetchRequest, wire.FetchResponse](h, "Fetch", nil),
		Idle:    counted(h, "Idle", &h.OnIdle),
		Quota:   counted[wire.QuotaRequest, wire.QuotaResponse](h, "Quota", nil),
		Ask:     counted[wire.AskRequest, wire.AskResponse](h, "Ask", nil),
	}
}

// counted counts a call, and lets do carry it out if there is such a function.
func counted[Q, R any](h *fakeHandler, procedure string, do *peer.Call[Q, R]) peer.Call[Q, R] {
	return func(ctx context.Context, from string, req *Q) (*R, error) {
		h.mu.Lock()
		if h.calls == nil {
			h.calls = map[string]int{}
		}
		h.calls[procedure]++
		h.mu.Unlock()
		if do == nil || *do == nil {
			return new(R), nil
		}
		return (*do)(ctx, from, req)
	}
}

// accepts answers that links are accepted.
func accepts(links []*wire.Link) *wire.DeliverResponse {
	res := &wire.DeliverResponse{}
	for range links {
		res.Answers = append(res.Answers, verdict(wire.Verdict_VERDICT_ACCEPTED))
	}
	return res
}
