package home

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// obey gives a host up to the owner of a newer record: it is frozen, and what is here is shipped to the owner.
func (h *Home) obey(newer Record) error {
	h.gate.Lock() // links that were routed here before are on disk
	h.mu.Lock()
	mine, had, err := h.records.get(newer.Host)
	lost := false
	if err == nil && (!had || newer.Newer(mine)) {
		lost = had && mine.Owner == h.horizon.now.Self && newer.Owner != mine.Owner
		err = h.put(newer)
	}
	if lost {
		h.leaving[newer.Host] = newer.Owner
		delete(h.fences.pending, newer.Host)
		delete(h.wishes, newer.Host)
		h.counts.Obeyed++
	}
	h.mu.Unlock()
	h.gate.Unlock()
	if err != nil || !lost {
		return err
	}
	h.deps.Frontier.Review() // it is not asked for from now on
	h.event(Event{Kind: Obeyed, Record: newer, Peer: newer.Owner})
	h.todo(newer.Host, job{kind: ship})
	return nil
}

// shipRest gives the owner of the newer record what this node still has of a host: URLs it accepted, and what it has
// downloaded since.
func (h *Home) shipRest(ctx context.Context, host string) error {
	defer h.locks.lock(host)()
	h.mu.Lock()
	v := h.horizon.now
	r, ok, err := h.records.get(host)
	h.leaving[host] = r.Owner
	h.mu.Unlock()
	if err != nil || !ok {
		return err
	}
	if r.Owner == v.Self {
		return h.thaw(ctx, host)
	}
	if err := h.deps.Frontier.SetHold(ctx, host, frontier.Leaving); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	to := r.Owner
	if !v.alive(to) {
		to = v.homeOf(host)
	}
	if to == v.Self {
		return errors.New("ship what is left: the owner does not answer") // it comes back, or this node takes the host
	}
	_, err = h.transfer(ctx, to, r, true)
	if home := v.homeOf(host); errors.Is(err, ErrRefused) && to != home && home != v.Self {
		// It has handed the host on, and may have forgotten to whom. The home takes what is left, or tells who owns it.
		to = home
		_, err = h.transfer(ctx, to, r, true)
	}
	if err != nil {
		return fmt.Errorf("ship what is left to %s: %w", to, err)
	}
	h.mu.Lock()
	keep := h.horizon.now.copyOf(host, r.Owner) == v.Self
	h.mu.Unlock()
	return h.release(ctx, host, keep)
}

// Why hosts are taken over.
const (
	ownerGone = "its owner is gone"
	ownerLost = "its owner has lost it"
)

// runTakeovers takes hosts back from owners that are gone.
func (h *Home) runTakeovers(ctx context.Context) error {
	tick := time.NewTicker(max(h.cfg.RenewEvery/3, time.Second))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		gone, err := h.gone(time.Now())
		if err != nil {
			return err
		}
		for _, r := range gone {
			h.todo(r.Host, job{kind: take, record: r, reason: ownerGone})
		}
		h.forgetArrivals(ctx, time.Now())
	}
}

// gone finds the hosts whose owners are dead, have left, or have been silent for too long.
func (h *Home) gone(now time.Time) (gone []Record, err error) {
	owners, v := h.goneOwners(now)
	if len(owners) == 0 {
		return nil, nil
	}
	err = h.records.visit(func(r Record) error {
		if owners[r.Owner] && v.homeOf(r.Host) == v.Self {
			gone = append(gone, r)
		}
		return nil
	})
	return gone, err
}

// goneOwners are those of hosts whose home this node is, in a view.
func (h *Home) goneOwners(now time.Time) (owners map[string]bool, v View) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := &h.fences
	v = h.horizon.now
	for host, at := range f.recent {
		if now.Sub(at) > 2*h.cfg.RenewEvery {
			delete(f.recent, host)
		}
	}
	for host, at := range f.contested {
		if now.Sub(at) > h.cfg.FenceAfter {
			delete(f.contested, host)
		}
	}
	if !v.Majority {
		return nil, v
	}
	owners = make(map[string]bool)
	for owner := range f.lent {
		if f.heard[owner].IsZero() {
			f.heard[owner] = now // it has not had a chance to renew here
		}
		if h.isGone(owner, now) {
			owners[owner] = true
		}
	}
	for owner := range f.heard {
		if _, ok := f.lent[owner]; !ok && !v.alive(owner) {
			delete(f.heard, owner)
			delete(f.claimed, owner)
		}
	}
	return owners, v
}

// isGone says that an owner is dead, has left, or has been silent for so long that its fence has fallen. It needs mu
// held.
func (h *Home) isGone(owner string, now time.Time) bool {
	f := &h.fences
	died, dead := f.dead[owner]
	switch {
	case h.horizon.now.alive(owner):
		return now.Sub(f.heard[owner]) > h.cfg.TakeAfter
	case dead:
		return now.Sub(died) > h.cfg.TakeAfter && now.Sub(f.heard[owner]) > h.cfg.TakeAfter
	case f.left[owner]:
		return true
	}
	// This node came after its death.
	return now.Sub(f.heard[owner]) > h.cfg.TakeAfter
}

// takeOver makes this node, the home, the owner of a host whose owner is gone.
func (h *Home) takeOver(ctx context.Context, was Record, reason string) error {
	defer h.locks.lock(was.Host)()
	hold, known, err := h.deps.Frontier.HoldOf(ctx, was.Host)
	if err != nil {
		return err
	}
	h.mu.Lock()
	v := &h.horizon.now
	r, ok, err := h.records.get(was.Host)
	if err != nil || !ok || r != was || v.homeOf(r.Host) != v.Self || !v.Majority || (reason == ownerGone && !h.isGone(r.Owner, time.Now())) {
		if _, leaving := h.leaving[was.Host]; err == nil && leaving && r.Owner != v.Self {
			h.list(was.Host, job{kind: ship}) // this job has pushed that out
		}
		h.mu.Unlock()
		return err // things have changed: what is still needed comes again
	}
	next := Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: v.Self}
	err = h.put(next)
	h.counts.Taken++
	delete(h.arrive, r.Host)
	delete(h.leaving, r.Host) // what this node had not shipped yet, as a former owner, stays
	h.mu.Unlock()
	if err != nil {
		return err
	}
	kind := Took
	if !known {
		kind = NoCopy
	}
	if known && hold != frontier.Own {
		if err := h.deps.Frontier.SetHold(ctx, r.Host, frontier.Own); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
	h.event(Event{Kind: kind, Record: next, Peer: was.Owner, Reason: reason})
	h.todo(r.Host, job{kind: resync})
	return nil
}

// rescue brings the second copy of a host whose owner is gone to its home, where that has just become the home and knows
// nothing of the host: this node claims the host, and then it follows its home. Where the home has a copy, which as a rule
// is the newer one, it takes the host over by itself; and where the host has an owner already, that one gets what is here.
func (h *Home) rescue(ctx context.Context, was Record) error {
	defer h.locks.lock(was.Host)()
	hold, known, err := h.deps.Frontier.HoldOf(ctx, was.Host)
	if err != nil || !known || hold != frontier.Backup {
		return err
	}
	h.mu.Lock()
	v := h.horizon.now
	r, ok, err := h.records.get(was.Host)
	h.mu.Unlock()
	home := v.homeOf(was.Host)
	if err != nil || !ok || r != was || v.alive(r.Owner) || home == v.Self || home == "" {
		return err // the owner is back, or this node is the home and takes the host over
	}
	next := Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: v.Self}
	res, err := h.deps.Peers.Claim(ctx, home, &wire.ClaimRequest{Records: []*wire.Record{next.wire()}, Rescue: true})
	if err != nil {
		return fmt.Errorf("claim the copy: %w", err)
	}
	if len(res.GetLater()) > 0 {
		return fmt.Errorf("claim the copy: %s cannot say yet who owns the host", home)
	}
	for _, w := range res.GetNewer() {
		newer, ok := fromWire(w)
		if !ok || newer.Host != r.Host {
			continue
		}
		if newer.Owner == r.Owner {
			return errors.New("claim the copy: its home waits for the owner")
		}
		if _, err := h.transfer(ctx, newer.Owner, newer, true); err != nil {
			return fmt.Errorf("ship the copy to %s: %w", newer.Owner, err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.put(newer)
	}
	h.mu.Lock()
	if now, _, err := h.records.get(r.Host); err != nil || now != r {
		h.mu.Unlock()
		return errors.Join(err, errors.New("claim the copy: its record has changed meanwhile"))
	}
	err = h.put(next)
	h.pend(next)
	h.counts.Taken++
	h.mu.Unlock()
	if err != nil {
		return err
	}
	if err := h.deps.Frontier.SetHold(ctx, r.Host, frontier.Own); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	h.event(Event{Kind: Took, Record: next, Peer: was.Owner, Reason: ownerGone})
	h.todo(r.Host, job{kind: follow})
	return nil
}

// forgetArrivals ends hand-offs to here whose other side is gone.
func (h *Home) forgetArrivals(ctx context.Context, now time.Time) {
	h.mu.Lock()
	var stale []string
	for host, a := range h.arrive {
		if now.Sub(a.last) > h.cfg.TakeAfter {
			stale = append(stale, host)
			delete(h.arrive, host)
		}
	}
	h.mu.Unlock()
	for _, host := range stale {
		if err := h.forgetArrival(ctx, host); err != nil {
			h.deps.Warn(fmt.Errorf("forget the part of %s that came: %w", host, err))
		}
	}
}

// forgetArrival removes what came of a host, unless the rest of it came while this node waited for the lock.
func (h *Home) forgetArrival(ctx context.Context, host string) error {
	defer h.locks.lock(host)()
	h.mu.Lock()
	_, anew := h.arrive[host]
	h.mu.Unlock()
	hold, known, err := h.deps.Frontier.HoldOf(ctx, host)
	if err != nil || anew || !known || hold != frontier.Arriving {
		return err
	}
	return h.deps.Frontier.Remove(ctx, host)
}
