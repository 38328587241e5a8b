package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"

	"proxima/node/peer"
	"proxima/node/wire"
)

// fakeHandler carries out the calls that a test gives functions for. Handler carries out those of other kinds.
type fakeHandler struct {
	peer.Handler
	OnDeliver func(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error)
	OnLease   func(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error)
	OnRenew   func(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error)
	OnLoad    func(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error)
	OnIdle    func(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error)
}

func do[Q, R any](ctx context.Context, f func(context.Context, string, Q) (R, error), from string, req Q) (R, error) {
	if f == nil {
		var none R
		return none, fmt.Errorf("unexpected %T", req)
	}
	return f(ctx, from, req)
}

func (h *fakeHandler) Deliver(ctx context.Context, from string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return do(ctx, h.OnDeliver, from, req)
}

func (h *fakeHandler) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return do(ctx, h.OnLease, from, req)
}

func (h *fakeHandler) Renew(ctx context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	return do(ctx, h.OnRenew, from, req)
}

func (h *fakeHandler) Load(ctx context.Context, from string, req *wire.LoadRequest) (*wire.LoadResponse, error) {
	return do(ctx, h.OnLoad, from, req)
}

func (h *fakeHandler) Idle(ctx context.Context, from string, req *wire.IdleRequest) (*wire.IdleResponse, error) {
	return do(ctx, h.OnIdle, from, req)
}

// counter counts the calls that it carries out.
type counter map[string]int

func saw[R any](c counter, procedure string) (*R, error) {
	c[procedure]++
	return new(R), nil
}

func (c counter) Deliver(context.Context, string, *wire.DeliverRequest) (*wire.DeliverResponse, error) {
	return saw[wire.DeliverResponse](c, "Deliver")
}

func (c counter) Lease(context.Context, string, *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	return saw[wire.LeaseResponse](c, "Lease")
}

func (c counter) Rights(context.Context, string, *wire.RightsRequest) (*wire.RightsResponse, error) {
	return saw[wire.RightsResponse](c, "Rights")
}

func (c counter) Renew(context.Context, string, *wire.RenewRequest) (*wire.RenewResponse, error) {
	return saw[wire.RenewResponse](c, "Renew")
}

func (c counter) Claim(context.Context, string, *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return saw[wire.ClaimResponse](c, "Claim")
}

func (c counter) Store(context.Context, string, *wire.StoreRequest) (*wire.StoreResponse, error) {
	return saw[wire.StoreResponse](c, "Store")
}

func (c counter) Load(context.Context, string, *wire.LoadRequest) (*wire.LoadResponse, error) {
	return saw[wire.LoadResponse](c, "Load")
}

func (c counter) Commit(context.Context, string, *wire.CommitRequest) (*wire.CommitResponse, error) {
	return saw[wire.CommitResponse](c, "Commit")
}

func (c counter) Fetch(context.Context, string, *wire.FetchRequest) (*wire.FetchResponse, error) {
	return saw[wire.FetchResponse](c, "Fetch")
}

func (c counter) Idle(context.Context, string, *wire.IdleRequest) (*wire.IdleResponse, error) {
	return saw[wire.IdleResponse](c, "Idle")
}

func (c counter) Quota(context.Context, string, *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	return saw[wire.QuotaResponse](c, "Quota")
}

func (c counter) Ask(context.Context, string, *wire.AskRequest) (*wire.AskResponse, error) {
	return saw[wire.AskResponse](c, "Ask")
}

// accepts answers that links are accepted.
func accepts(links []*wire.Link) *wire.DeliverResponse {
	res := &wire.DeliverResponse{}
	for range links {
		res.Answers = append(res.Answers, verdict(wire.Verdict_VERDICT_ACCEPTED))
	}
	return res
}

// memShelf is a shelf in memory that outlives its users, as a disk does. Safe for concurrent use.
type memShelf struct {
	// mu guards what follows.
	mu    sync.Mutex
	rows  map[string][]byte
	limit int // writes that may still pass; negative for all
}

// newShelf makes an empty shelf.
func newShelf() *memShelf { return &memShelf{rows: map[string][]byte{}, limit: -1} }

// errBroken is what a broken shelf answers.
var errBroken = errors.New("shelf is broken")

// BreakAfter lets some more writes pass; then all fail. Negative mends it.
func (s *memShelf) BreakAfter(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = writes
}

// write says whether a write may pass.
func (s *memShelf) write() error {
	if s.limit == 0 {
		return errBroken
	}
	if s.limit > 0 {
		s.limit--
	}
	return nil
}

// Len is the number of keys.
func (s *memShelf) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Get returns a copy, nil for none.
func (s *memShelf) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.rows[string(key)]), nil
}

// Scan visits a snapshot of the keys with a prefix, in order.
func (s *memShelf) Scan(prefix []byte, visit func(key, value []byte) error) error {
	type row struct {
		key   string
		value []byte
	}
	var rows []row
	s.mu.Lock()
	for k, v := range s.rows {
		if strings.HasPrefix(k, string(prefix)) {
			rows = append(rows, row{k, bytes.Clone(v)})
		}
	}
	s.mu.Unlock()
	sort.Slice(rows, func(i, j int) bool { return rows[i].key < rows[j].key })
	for _, r := range rows {
		if err := visit([]byte(r.key), r.value); err != nil {
			return err
		}
	}
	return nil
}

// Batch makes all changes at once.
func (s *memShelf) Batch(fill func(set func(key, value []byte), del func(key []byte))) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(); err != nil {
		return err
	}
	fill(func(key, value []byte) { s.rows[string(key)] = append([]byte{}, value...) },
		func(key []byte) { delete(s.rows, string(key)) })
	return nil
}
