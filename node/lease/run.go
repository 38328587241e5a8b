package lease

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"proxima/node/wire"
)

// gather is how long wishes gather before they are sent. A stopping node looks at the frontier as often.
const gather = 50 * time.Millisecond

// Run gets leases for what the frontier wants until the context ends. Then it gives all leases back, for farewell at most. It can
// run once.
func (h *Holder) Run(ctx context.Context) error {
	var calls sync.WaitGroup
	calls.Go(func() { h.follow(ctx) })
	h.loop(ctx, &calls)
	calls.Wait()

	h.mu.Lock()
	h.lookAt = time.Now()
	h.book.leave(h.lookAt)
	h.mu.Unlock()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	h.loop(last, &calls)
	calls.Wait()
	return nil
}

// loop takes steps when they are due, until the context ends or all leases are given back.
func (h *Holder) loop(ctx context.Context, calls *sync.WaitGroup) {
	timer := time.NewTimer(gather)
	defer timer.Stop()
	at := time.Now().Add(gather)
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.kick:
			if soon := time.Now().Add(gather); soon.Before(at) {
				at = soon
				timer.Reset(gather)
			}
		case <-timer.C:
			var left bool
			if at, left = h.step(ctx, calls); !left {
				return
			}
			timer.Reset(time.Until(at))
		}
	}
}

// step looks at the frontier if that is due, sends what is due, and returns when to take the next step. left is false once a leaving
// node has given everything back.
func (h *Holder) step(ctx context.Context, calls *sync.WaitGroup) (next time.Time, left bool) {
	now := time.Now()
	if err := h.deps.Clock.Awake(); err != nil {
		return now.Add(h.cfg.lookEvery()), true // stopped must run first
	}
	h.mu.Lock()
	if !now.Before(h.lookAt) {
		h.book.tick(h.deps.Frontier.Servers(), now)
		h.pace.level(h.book.slowed(now))
		if h.lookAt = now.Add(h.cfg.lookEvery()); h.book.leaving {
			h.lookAt = now.Add(gather)
		}
	}
	for grantor, items := range h.book.due(now, h.busy) {
		req := &wire.LeaseRequest{Items: make([]*wire.LeaseItem, len(items))}
		for i := range items {
			req.Items[i] = h.book.message(&items[i], grantor, now)
			if len(req.Items[i].Memory) > 0 {
				addr, memory := items[i].addr, items[i].lease.memory.Copy()
				h.after = append(h.after, func() { h.deps.Moved(addr, memory) })
			}
		}
		h.busy[grantor] = true
		calls.Go(func() { h.call(ctx, grantor, req, items) })
	}
	if next = h.lookAt; h.book.dueAt.Before(next) {
		next = h.book.dueAt
	}
	left = !h.book.leaving || len(h.book.all) > 0
	h.unlockAndTell()
	return latest(next, now.Add(gather)), left
}

// call sends a message to a grantor and takes the answers.
func (h *Holder) call(ctx context.Context, grantor string, req *wire.LeaseRequest, items []item) {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.timeout())
	defer cancel()
	sent := h.deps.Clock.now()
	resp, err := h.deps.Lease(ctx, grantor, req)
	if err == nil {
		err = h.deps.Clock.Awake() // the answer may be old
	}
	h.mu.Lock()
	now := time.Now()
	delete(h.busy, grantor)
	if err != nil || len(resp.GetAnswers()) != len(items) {
		h.book.counts.Unreachable++
		for _, it := range items {
			h.book.failed(it, grantor, now)
		}
	} else {
		for i, it := range items {
			h.book.answered(it, grantor, resp.Answers[i], sent, now)
		}
	}
	h.unlockAndTell()
	h.kick.Ring()
}

// follow takes new wishes of the frontier, until the context or the frontier ends.
func (h *Holder) follow(ctx context.Context) {
	for {
		addrs, err := h.deps.Frontier.Wanted(ctx)
		if err != nil {
			return
		}
		h.mu.Lock()
		for _, addr := range addrs {
			h.book.want(addr, time.Now())
		}
		h.mu.Unlock()
		h.kick.Ring()
	}
}

// grant sets the right to ask a server and tells the frontier. The caller holds mu, so that the frontier hears all in order.
func (h *Holder) grant(addr netip.Addr, r Right, wait time.Duration) {
	until := r.until.mono
	if r == (Right{}) {
		until = time.Now().Add(-time.Second)
		h.rights.Delete(addr)
	} else {
		h.rights.Store(addr, r)
	}
	h.deps.Frontier.Grant(addr, until, wait)
}

// halt stops new requests to a server. The caller holds mu.
func (h *Holder) halt(addr netip.Addr) {
	h.rights.Delete(addr)
	h.deps.Frontier.Withdraw(addr)
}

// unlockAndTell unlocks mu and makes the pending callbacks.
func (h *Holder) unlockAndTell() {
	after := h.after
	h.after = nil
	h.mu.Unlock()
	for _, tell := range after {
		tell()
	}
}
