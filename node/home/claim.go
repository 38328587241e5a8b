package home

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/node/wire"
)

// claimsPerMessage bounds one message of claims.
const claimsPerMessage = 1000

// confirm claims the hosts that came here lately, so that they can be crawled before the next renewal.
func (h *Home) confirm(ctx context.Context, home string) error {
	h.mu.Lock()
	var records []*wire.Record
	for host, r := range h.fences.pending {
		if h.horizon.now.homeOf(host) == home && len(records) < claimsPerMessage {
			records = append(records, r.wire())
		}
	}
	h.mu.Unlock()
	if len(records) == 0 {
		return nil
	}
	_, err := h.claim(ctx, home, &wire.ClaimRequest{Records: records})
	return err
}

// claimAll tells a home of all its hosts that are owned here. It reports whether the home knew them all as its own.
func (h *Home) claimAll(ctx context.Context, home string) (all bool, err error) {
	all = true
	req := &wire.ClaimRequest{First: true}
	send := func() error {
		done, err := h.claim(ctx, home, req)
		all = all && done
		req = &wire.ClaimRequest{}
		return err
	}
	h.mu.Lock()
	v := h.horizon.now
	h.mu.Unlock()
	err = h.records.visit(func(r Record) error {
		if r.Owner != v.Self || v.homeOf(r.Host) != home {
			return nil
		}
		req.Records = append(req.Records, r.wire())
		if len(req.Records) == claimsPerMessage {
			return send()
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	req.Last, req.Members = true, v.digest()
	return all, send()
}

// claim sends one message and does what the answer says.
func (h *Home) claim(ctx context.Context, home string, req *wire.ClaimRequest) (all bool, err error) {
	res, err := h.deps.Peers.Claim(ctx, home, req)
	if err != nil {
		return false, fmt.Errorf("claim %d hosts: %w", len(req.GetRecords()), err)
	}
	asked, not := make(map[string]bool), make(map[string]bool)
	for _, w := range req.GetRecords() {
		asked[w.GetHost()] = true
	}
	for _, w := range res.GetNewer() {
		r, ok := fromWire(w)
		if !ok || !asked[r.Host] {
			continue
		}
		not[r.Host] = true
		if err := h.obey(r); err != nil {
			return false, err
		}
	}
	for _, host := range res.GetLater() {
		not[host] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, host := range res.GetContested() {
		not[host] = true
		if r, ok, err := h.records.get(host); err == nil && ok && r.Owner == h.horizon.now.Self {
			h.fences.pending[host] = r // this host waits, the others go on
		}
	}
	for _, w := range req.GetRecords() {
		if p, ok := h.fences.pending[w.GetHost()]; ok && p.Epoch == w.GetEpoch() && !not[w.GetHost()] {
			delete(h.fences.pending, w.GetHost())
			h.fences.suspended = true // it may go on: the frontier is told
		}
	}
	return len(res.GetLater()) == 0, nil
}

// Claim answers an owner that says what it owns.
func (h *Home) Claim(ctx context.Context, from string, req *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	if err := h.begun(); err != nil {
		return nil, err
	}
	now := time.Now()
	res := &wire.ClaimResponse{}
	var copies map[string]bool
	if req.GetRescue() {
		var err error
		if copies, err = h.copiesOf(ctx, req.GetRecords()); err != nil {
			return nil, err
		}
	}
	var lost []Record
	h.mu.Lock()
	h.fences.heard[from] = now
	if req.GetFirst() {
		h.fences.claimed[from] = make(map[uint64]struct{})
	}
	v := &h.horizon.now
	for _, w := range req.GetRecords() {
		r, ok := fromWire(w)
		if !ok || r.Owner != from {
			continue
		}
		h.fences.list(from, r.Host)
		if v.homeOf(r.Host) != v.Self || !v.Majority {
			res.Later = append(res.Later, r.Host)
			continue
		}
		if h.collecting(r.Host) {
			res.Later = append(res.Later, r.Host) // somebody may have a newer record; what this one says is heard
		}
		if to, leaving := h.leaving[r.Host]; leaving && to != from {
			res.Later = append(res.Later, r.Host)
			continue
		}
		newer, obey, err := h.hear(r, copies[r.Host])
		if err != nil {
			h.mu.Unlock()
			return nil, err
		}
		if newer != nil {
			res.Newer = append(res.Newer, newer)
		}
		if obey {
			lost = append(lost, r)
		}
		if until, ok := h.fences.contested[r.Host]; ok && newer == nil {
			if now.Before(until) {
				res.Contested = append(res.Contested, r.Host)
			} else {
				delete(h.fences.contested, r.Host)
			}
		}
	}
	var list map[uint64]struct{}
	if req.GetLast() {
		if req.GetMembers() == v.digest() {
			list = h.fences.claimed[from]
		}
		delete(h.fences.claimed, from)
	}
	h.mu.Unlock()
	for _, r := range lost {
		if err := h.obey(r); err != nil {
			return nil, err
		}
	}
	var taken []Record
	if list != nil {
		var err error
		if taken, err = h.unclaimed(from, list, now); err != nil {
			return nil, err
		}
	}
	for _, r := range taken {
		h.todo(r.Host, job{kind: take, record: r, reason: ownerLost})
	}
	return res, nil
}

// maxListed bounds the hosts in the lists of all owners that are under way, some 20 bytes each.
const maxListed = 1 << 20

// list notes a host in the list that an owner is sending. A list for which there is no room is given up: nobody is said
// to have lost a host by what is not known to be whole.
func (f *fences) list(from, host string) {
	seen, all := f.claimed[from], 0
	if seen == nil {
		return
	}
	for _, hosts := range f.claimed {
		all += len(hosts)
	}
	if all >= maxListed {
		delete(f.claimed, from)
		return
	}
	seen[xxhash.Sum64String(host)] = struct{}{}
}

// listed says whether a list names a host.
func listed(list map[uint64]struct{}, host string) bool {
	_, ok := list[xxhash.Sum64String(host)]
	return ok
}

// copiesOf says of which hosts there is something on this node's disk. It must not be called with mu held.
func (h *Home) copiesOf(ctx context.Context, records []*wire.Record) (map[string]bool, error) {
	copies := make(map[string]bool)
	for _, w := range records {
		_, known, err := h.deps.Frontier.HoldOf(ctx, w.GetHost())
		if err != nil {
			return nil, err
		}
		copies[w.GetHost()] = known
	}
	return copies, nil
}

// hear weighs a claim against what this home has. It returns the newer record that the claimer must obey, or says that
// this node itself must. copied says that the claimer, who has a copy of the host, is not the only one: so has this node.
// It needs mu held.
func (h *Home) hear(r Record, copied bool) (newer *wire.Record, obey bool, err error) {
	mine, ok, err := h.records.get(r.Host)
	switch {
	case err != nil:
		return nil, false, err
	case !ok:
		return nil, false, h.put(r)
	case copied && mine.Epoch+1 >= r.Epoch: // the claimer's copy is of the epoch before
		return mine.wire(), false, nil
	case mine == r:
		return nil, false, nil
	case r.Newer(mine) && mine.Owner == h.horizon.now.Self:
		if h.leaving[r.Host] == r.Owner && r.Epoch == mine.Epoch+1 {
			return nil, false, h.put(r) // the hand-off that is under way here has been committed there
		}
		return nil, true, nil
	case r.Newer(mine):
		if h.fences.granted[r.Host] != r.Owner && mine.Owner != r.Owner {
			// Not by a hand-off that the owner so far knows of: it may go on until its fence falls.
			h.contest(r.Host, mine.Owner)
		}
		delete(h.fences.granted, r.Host)
		return nil, false, h.put(r)
	case mine.Epoch == r.Epoch && mine.Owner == r.Owner:
		return nil, false, nil
	}
	return mine.wire(), false, nil
}

// contest notes that a host has a new owner without the doing of the former one, which may go on until its fence falls:
// this node, the home, has answered it. It needs mu held.
func (h *Home) contest(host, former string) {
	if until := h.fences.heard[former].Add(h.cfg.FenceAfter); until.After(time.Now()) {
		h.fences.contested[host] = until
	}
}

// unclaimed finds the hosts of an owner that it did not name in two whole lists in a row: it has lost its disk. It must
// not be called with mu held.
func (h *Home) unclaimed(from string, list map[uint64]struct{}, now time.Time) (lost []Record, err error) {
	h.mu.Lock()
	v := h.horizon.now
	h.mu.Unlock()
	if !v.Majority {
		return nil, nil
	}
	err = h.records.visit(func(r Record) error {
		if r.Owner != from || v.homeOf(r.Host) != v.Self {
			return nil
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if listed(list, r.Host) {
			delete(h.fences.missing, r.Host)
			return nil
		}
		if mine, ok, err := h.records.get(r.Host); err != nil || !ok || mine != r {
			return err // or it has changed since it was read
		}
		if now.Sub(h.fences.recent[r.Host]) < 2*h.cfg.RenewEvery {
			return nil
		}
		if h.fences.missing[r.Host]++; h.fences.missing[r.Host] >= 2 {
			lost = append(lost, r)
		}
		return nil
	})
	return lost, err
}
