package keeper

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"proxima/node/wire"
)

const (
	// gather is how long wishes are collected before they are sent.
	gather = 20 * time.Millisecond
	// sweepEvery is how often old memories are looked for.
	sweepEvery = 6 * time.Hour
)

// wake has the loop look at what is due, soon.
func (k *Keeper) wake() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// Run borrows what the frontier wants until the context ends; then it withdraws all leases from the frontier and gives
// them back, for no longer than Config.Farewell. It can run once.
func (k *Keeper) Run(ctx context.Context) error {
	defer close(k.done)
	var calls sync.WaitGroup
	calls.Go(func() { k.sweepLoop(ctx) })
	k.loop(ctx, &calls, k.cfg.Check, func() bool { return false })
	calls.Wait()

	k.mu.Lock()
	k.holder.leave(time.Now())
	k.lendAll()
	k.mu.Unlock()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.cfg.Farewell)
	defer cancel()
	k.loop(last, &calls, gather, k.nothingLeft)
	calls.Wait()
	return nil
}

// loop steps until the context ends or it is done; it looks at the frontier every so often.
func (k *Keeper) loop(ctx context.Context, calls *sync.WaitGroup, every time.Duration, done func() bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	soon := time.NewTimer(gather)
	defer soon.Stop()
	waiting := true // for soon
	for !done() {
		select {
		case <-ctx.Done():
			return
		case <-k.kick:
			if !waiting {
				soon.Reset(gather)
				waiting = true
			}
		case <-soon.C:
			waiting = false
			k.step(ctx, calls, false)
		case <-tick.C:
			k.step(ctx, calls, true)
		}
	}
}

// leave withdraws every lease, to be given back; who waits for one hears that it will not come.
func (h *holder) leave(now time.Time) {
	h.leaving = true
	for addr, l := range h.leases {
		l.wanted, l.hold = false, false
		l.tell(ErrStopped)
		if l.live(now) && !l.withdrawn {
			h.withdraw(addr, l, now)
		}
	}
}

// nothingLeft says that no lease has to be given back any more.
func (k *Keeper) nothingLeft() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.holder.leases) == 0
}

// step sends what is due. With look it compares first with what the frontier wants.
func (k *Keeper) step(ctx context.Context, calls *sync.WaitGroup, look bool) {
	var wanted map[netip.Addr]struct{}
	k.wantedMu.Lock()
	if len(k.wanted) > 0 {
		wanted, k.wanted = k.wanted, map[netip.Addr]struct{}{}
	}
	k.wantedMu.Unlock()

	k.mu.Lock()
	now := time.Now()
	for addr := range wanted {
		k.holder.want(addr, now)
	}
	if look || k.look {
		k.look = false
		k.lendAll() // the frontier must know before it is asked
		k.holder.tick(k.deps.Frontier.Servers(), now)
		k.pace.level(k.holder.slowed(now))
	}
	k.lendAll()
	for keeper, items := range k.holder.due(now, k.busy) {
		req := &wire.LeaseRequest{Items: make([]*wire.LeaseItem, len(items))}
		for i := range items {
			req.Items[i] = k.holder.message(&items[i], keeper, now)
			if len(req.Items[i].Memory) > 0 && k.deps.Moved != nil {
				k.moved = append(k.moved, movement{items[i].addr, items[i].lease.memory.Clone()})
			}
		}
		k.busy[keeper] = true
		calls.Go(func() { k.call(ctx, keeper, req, items) })
	}
	k.unlockAndTell()
}

// call asks one keeper, and takes its answers.
func (k *Keeper) call(ctx context.Context, keeper string, req *wire.LeaseRequest, items []item) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.Timeout)
	defer cancel()
	k.mu.Lock()
	self := k.view.Self
	k.mu.Unlock()
	var resp *wire.LeaseResponse
	var err error
	sent := time.Now()
	if keeper == self {
		resp, err = k.Lease(ctx, self, req)
	} else {
		resp, err = k.deps.Peers.Lease(ctx, keeper, req)
	}
	k.mu.Lock()
	now := time.Now()
	delete(k.busy, keeper)
	if err != nil || len(resp.GetAnswers()) != len(items) {
		k.unreachable++
		for _, it := range items {
			k.holder.failed(it, keeper, now)
		}
	} else {
		for i, it := range items {
			k.holder.answered(it, keeper, resp.Answers[i], sent, now)
		}
	}
	k.lendAll()
	k.unlockAndTell()
	k.wake()
}

// lendAll tells the frontier what it may dial. The caller holds mu, so that it hears all in order.
func (k *Keeper) lendAll() {
	for _, x := range k.holder.lends {
		until := x.until
		if until.IsZero() {
			until = time.Now().Add(-time.Second)
		}
		k.deps.Frontier.Lend(x.addr, until, x.wait)
	}
	k.holder.lends = k.holder.lends[:0]
}

// unlockAndTell unlocks mu and calls back.
func (k *Keeper) unlockAndTell() {
	helds, moved := k.holder.helds, k.moved
	k.holder.helds, k.moved = nil, nil
	k.mu.Unlock()
	if k.deps.OnHeld != nil {
		for _, h := range helds {
			k.deps.OnHeld(h.Addr, h.Holder)
		}
	}
	for _, m := range moved {
		k.deps.Moved(m.addr, &m.memory)
	}
}

// slowed is by how much each server that this node holds is slower than usual.
func (h *holder) slowed(now time.Time) map[netip.Addr]float64 {
	slowed := make(map[netip.Addr]float64, len(h.leases))
	for addr, l := range h.leases {
		if l.memory != nil && l.live(now) {
			slowed[addr] = l.memory.Slowed()
		}
	}
	return slowed
}

// sweepLoop deletes old memories, now and then.
func (k *Keeper) sweepLoop(ctx context.Context) {
	for {
		k.trouble(k.memories.sweep(k.cfg.MemoryKeep, k.cfg.MaxMemories, time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-time.After(sweepEvery):
		}
	}
}
