// Package peertest is what tests of peers need beside a network: a shelf that survives its user, and a handler that refuses what a test
// does not expect.
package peertest

import (
	"context"
	"fmt"

	"proxima/node/peer"
	"proxima/node/wire"
)

// Handler carries out the calls that a test gives functions for, and refuses the others.
type Handler struct {
	OnDeliver func(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	OnLease   func(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error)
	OnRights  func(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error)
	OnRenew   func(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error)
	OnClaim   func(ctx context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error)
	OnStore   func(ctx context.Context, from string, req *wire.StoreRequest) (*wire.StoreResponse, error)
	OnLoad    func(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error)
	OnCommit  func(ctx context.Context, from string, req *wire.CommitRequest) (*wire.CommitResponse, error)
	OnFetch   func(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error)
	OnIdle    func(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error)
	OnQuota   func(ctx context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error)
	OnAsk     func(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error)
}

var _ peer.Handler = (*Handler)(nil)

func do[Q, R any](ctx context.Context, f func(context.Context, string, Q) (R, error), from string, req Q) (R, error) {
	if f == nil {
		var none R
		return none, fmt.Errorf("unexpected %T", req)
	}
	return f(ctx, from, req)
}

// Deliver calls OnDeliver.
func (h *Handler) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return do(ctx, h.OnDeliver, from, req)
}

// Lease calls OnLease.
func (h *Handler) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return do(ctx, h.OnLease, from, req)
}

// Rights calls OnRights.
func (h *Handler) Rights(ctx context.Context, from string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	return do(ctx, h.OnRights, from, req)
}

// Renew calls OnRenew.
func (h *Handler) Renew(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return do(ctx, h.OnRenew, from, req)
}

// Claim calls OnClaim.
func (h *Handler) Claim(ctx context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return do(ctx, h.OnClaim, from, req)
}

// Store calls OnStore.
func (h *Handler) Store(ctx context.Context, from string, req *wire.StoreRequest) (*wire.StoreResponse, error) {
	return do(ctx, h.OnStore, from, req)
}

// Load calls OnLoad.
func (h *Handler) Load(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error) {
	return do(ctx, h.OnLoad, from, req)
}

// Commit calls OnCommit.
func (h *Handler) Commit(ctx context.Context, from string, req *wire.CommitRequest) (*wire.CommitResponse, error) {
	return do(ctx, h.OnCommit, from, req)
}

// Fetch calls OnFetch.
func (h *Handler) Fetch(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	return do(ctx, h.OnFetch, from, req)
}

// Idle calls OnIdle.
func (h *Handler) Idle(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	return do(ctx, h.OnIdle, from, req)
}

// Quota calls OnQuota.
func (h *Handler) Quota(ctx context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	return do(ctx, h.OnQuota, from, req)
}

// Ask calls OnAsk.
func (h *Handler) Ask(ctx context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	return do(ctx, h.OnAsk, from, req)
}
