package home

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/wire"
)

// tally is how many hosts two nodes share, and a digest of their records: equal tallies need no lists.
type tally struct {
	count  uint64
	digest uint64
}

// fences are the signs of life between owners and homes, on both sides. They are used under the lock of Home.
type fences struct {
	owned     map[string]tally       // by home: hosts that this node owns
	lent      map[string]tally       // by owner: hosts whose home this node is
	answered  map[string][]time.Time // by home: when the latest renewals were sent that it agreed to
	granted   map[string]string      // by host: to whom its owner may hand it
	contested map[string]time.Time   // hosts with a new owner whose former owner may go on until then
	heard     map[string]time.Time   // by owner: when it renewed last, or was first counted
	dead      map[string]time.Time   // since when a member does not answer
	left      map[string]bool        // members that have left in order: their owners have stopped
	pending   map[string]Record      // hosts owned here that their home has not confirmed yet
	recent    map[string]time.Time   // when a record of this home was written: a list sent before cannot have it
	missing   map[string]int         // how many lists in a row of its owner lacked a host
	suspended bool                   // the hosts of the frontier were told to wait
	// claimed are, by owner, hashes of the hosts in the list that it is sending.
	claimed map[string]map[uint64]struct{}
}

func newFences() fences {
	return fences{owned: map[string]tally{}, lent: map[string]tally{}, answered: map[string][]time.Time{}, granted: map[string]string{},
		contested: map[string]time.Time{}, heard: map[string]time.Time{},
		dead: map[string]time.Time{}, left: map[string]bool{}, pending: map[string]Record{}, recent: map[string]time.Time{}, missing: map[string]int{},
		claimed: map[string]map[uint64]struct{}{}}
}

// reset begins counting anew, and returns whom hosts were lent to.
func (f *fences) reset() (lent map[string]tally) {
	lent = f.lent
	clear(f.owned)
	f.lent = make(map[string]tally)
	return lent
}

// count adds a record to the tallies of this node, or takes it out.
func (f *fences) count(self, home string, r Record, by int) {
	add := func(m map[string]tally, key string) {
		t := m[key]
		t.count += uint64(by)
		t.digest ^= r.hash()
		if t == (tally{}) {
			delete(m, key)
		} else {
			m[key] = t
		}
	}
	if r.Owner == self && home != self {
		add(f.owned, home)
	}
	if home == self && r.Owner != self {
		add(f.lent, r.Owner)
	}
}

// changed notes when a record was written.
func (f *fences) changed(r Record, now time.Time) {
	f.recent[r.Host] = now
	delete(f.missing, r.Host)
}

// seen notes who answers in a new view.
func (f *fences) seen(old, v View, now time.Time) {
	for _, id := range old.Settled {
		if _, dead := f.dead[id]; !dead && !slices.Contains(v.Settled, id) {
			f.left[id] = true // the dead stay settled for a while
		}
	}
	for _, id := range v.Settled {
		if !v.alive(id) {
			if _, ok := f.dead[id]; !ok {
				f.dead[id] = now
			}
		}
	}
	for _, id := range v.Alive {
		delete(f.dead, id)
		delete(f.left, id)
	}
}

// Wait says why a host must not be crawled here now, "" if it may: the frontier asks.
func (h *Home) Wait(host string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wait(host, time.Now())
}

func (h *Home) wait(host string, now time.Time) string {
	v := &h.horizon.now
	switch home := v.homeOf(host); {
	case !h.horizon.known:
		return "the other nodes are not known yet"
	case !v.Majority:
		return "this node sees only the smaller side of the overlay"
	case !h.owns(host):
		return "it is being handed over"
	case home == v.Self && h.collecting(host):
		return "this node, its home, is finding out who owns it"
	case home == v.Self && now.Before(h.fences.contested[host]):
		return "its former owner may not know yet that it is no longer"
	case home == v.Self:
		return ""
	case !h.answered(host, now):
		return "its home does not answer"
	}
	if _, ok := h.fences.pending[host]; ok {
		return "its home has not confirmed the owner yet"
	}
	return ""
}

// answered says whether the home of a host has agreed to a renewal lately. What a former home agreed to holds as long
// as it would have: the next one takes nothing over before that. It needs mu held.
func (h *Home) answered(host string, now time.Time) bool {
	for _, span := range h.horizon.homes(host, now) {
		for _, at := range h.fences.answered[span.home] {
			// Only while it was the host's home did it answer for this host.
			if now.Sub(at) <= h.cfg.FenceAfter && !at.Before(span.from) && !at.After(span.until) {
				return true
			}
		}
	}
	return false
}

// agreed notes that a home has answered a renewal sent then.
func (f *fences) agreed(home string, sent time.Time, keep time.Duration) {
	times := slices.DeleteFunc(f.answered[home], func(at time.Time) bool { return sent.Sub(at) > keep })
	f.answered[home] = append(times, sent)
}

// last is when the last renewal was sent that a home agreed to.
func (f *fences) last(home string) time.Time {
	if times := f.answered[home]; len(times) > 0 {
		return times[len(times)-1]
	}
	return time.Time{}
}

// owns says whether this node owns a host and keeps it. It needs mu held.
func (h *Home) owns(host string) bool {
	r, ok, err := h.records.get(host)
	_, leaving := h.leaving[host]
	return err == nil && ok && r.Owner == h.horizon.now.Self && !leaving
}

// runRenewals keeps the homes of this node's hosts informed.
func (h *Home) runRenewals(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.RenewEvery)
	defer tick.Stop()
	for {
		h.renewAll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-h.renew:
		case <-tick.C:
		}
	}
}

// phase is what the passing of time changes about who may be crawled.
type phase struct {
	collecting, remembered, fenced, contested int
	begun                                     bool
}

// runReviews tells the frontier when time alone has changed who may be crawled.
func (h *Home) runReviews(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var last phase
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if p := h.phase(time.Now()); p != last {
			last = p
			h.deps.Frontier.Review()
		}
	}
}

func (h *Home) phase(now time.Time) phase {
	h.mu.Lock()
	defer h.mu.Unlock()
	z := &h.horizon
	p := phase{fenced: h.fenced(now), begun: now.Sub(z.born) >= h.cfg.Collect}
	for _, until := range h.fences.contested {
		if now.Before(until) {
			p.contested++
		}
	}
	for _, old := range z.past {
		if now.Sub(old.until) < h.cfg.Collect {
			p.collecting++
		}
		if now.Sub(old.until) < h.cfg.FenceAfter {
			p.remembered++
		}
	}
	return p
}

// renewAll shows every home that this node lives, and tells the frontier if that changed who may be crawled.
func (h *Home) renewAll(ctx context.Context) {
	h.mu.Lock()
	homes := make(map[string]bool, len(h.fences.owned))
	for home := range h.fences.owned {
		homes[home] = true
	}
	for host := range h.fences.pending {
		homes[h.horizon.now.homeOf(host)] = true
	}
	self := h.horizon.now.Self
	before := h.fenced(time.Now())
	delete(homes, self)
	h.mu.Unlock()
	var g errgroup.Group
	g.SetLimit(16)
	for home := range homes {
		g.Go(func() error {
			if err := h.renewAt(ctx, home); err != nil && ctx.Err() == nil {
				h.deps.Warn(fmt.Errorf("renew at %s: %w", home, err))
			}
			return nil
		})
	}
	_ = g.Wait()
	h.mu.Lock()
	after := h.fenced(time.Now())
	confirmed := h.fences.suspended
	h.fences.suspended = false
	h.mu.Unlock()
	if before != after || confirmed {
		h.deps.Frontier.Review()
	}
}

// fenced counts the homes whose answers are too old. It needs mu held.
func (h *Home) fenced(now time.Time) int {
	n := 0
	for home := range h.fences.owned {
		if now.Sub(h.fences.last(home)) > h.cfg.FenceAfter {
			n++
		}
	}
	return n
}

// renewAt renews with one home: pending hosts are claimed one by one, then the tallies compared, and where they differ
// all hosts are claimed.
func (h *Home) renewAt(ctx context.Context, home string) error {
	if err := h.confirm(ctx, home); err != nil {
		return err
	}
	h.mu.Lock()
	t := h.fences.owned[home]
	wishes := h.wishesFor(home)
	h.mu.Unlock()
	sent := time.Now()
	res, err := h.deps.Peers.Renew(ctx, home, &wire.RenewRequest{Count: t.count, Digest: t.digest, Moves: wishes})
	if err != nil {
		return err
	}
	for _, m := range res.GetMoves() {
		h.todo(m.GetHost(), job{kind: move, to: m.GetTo(), reason: m.GetReason()})
	}
	if !res.GetAgreed() {
		sent = time.Now()
		if done, err := h.claimAll(ctx, home); err != nil || !done {
			return err
		}
	}
	h.mu.Lock()
	h.fences.agreed(home, sent, h.cfg.FenceAfter)
	h.mu.Unlock()
	return nil
}

// Renew answers an owner's sign of life.
func (h *Home) Renew(_ context.Context, from string, req *wire.RenewRequest) (*wire.RenewResponse, error) {
	if err := h.begun(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fences.heard[from] = time.Now()
	res := &wire.RenewResponse{}
	t := h.fences.lent[from]
	res.Agreed = t.count == req.GetCount() && t.digest == req.GetDigest() && !h.returning(time.Now())
	for _, m := range req.GetMoves() {
		if g := h.grant(from, m); g != nil {
			res.Moves = append(res.Moves, g)
		}
	}
	return res, nil
}

// returning says that this node, as a home, may lack what others did in the meantime: it is on the smaller side of a
// partition or was lately, or it has just started. It needs mu held.
func (h *Home) returning(now time.Time) bool {
	z := &h.horizon
	if !z.now.Majority || (len(z.now.Settled) > 1 && now.Sub(z.born) < h.cfg.Collect) {
		return true
	}
	for _, p := range z.past {
		if !p.view.Majority && now.Sub(p.until) < h.cfg.Collect {
			return true
		}
	}
	return false
}

// grant lets an owner hand a host to a better peer. It needs mu held.
func (h *Home) grant(from string, m *wire.Move) *wire.Move {
	v := &h.horizon.now
	r, ok, err := h.records.get(m.GetHost())
	if err != nil || !ok || r.Owner != from || r.Epoch != m.GetEpoch() || v.homeOf(r.Host) != v.Self || !v.Majority || !v.alive(m.GetTo()) {
		return nil
	}
	h.fences.granted[r.Host] = m.GetTo()
	return m
}
