package frontier

import (
	"context"
	"time"
)

// nominate notes that a host on disk has something to crawl. It needs mu held.
func (a *activation) nominate(name string) {
	if _, ok := a.candidate[name]; ok {
		return
	}
	if len(a.candidate) >= maxCandidates {
		a.rescan()
		return
	}
	a.candidate[name] = struct{}{}
	a.candidates.push(name)
	if a.waiters.len() > 0 {
		signal(a.hungry)
	}
}

// rescan notes that a host waits on disk that is no candidate. It needs mu held.
func (a *activation) rescan() { a.scan, a.wrapped, a.found = true, false, true }

// Activate brings a host to the workbench, so that it is resolved; it is there on return, unless it has no pending URL, is
// not owned or was given up. It may push the workbench over Config.FrontHosts.
func (a *activation) Activate(ctx context.Context, host string) error {
	_, err := a.enterHost(ctx, host)
	return err
}

// enterHost is Activate; it says whether the host is on the workbench.
func (a *activation) enterHost(ctx context.Context, name string) (here bool, err error) {
	if !a.store.enter() {
		return false, ErrClosed
	}
	defer a.store.exit()
	for {
		if err := a.thawed(ctx, name); err != nil {
			return false, err
		}
		if a.bench.hosts[name] != nil {
			a.mu.Unlock()
			return true, nil
		}
		if len(a.bench.hosts) >= a.cfg.FrontHosts {
			a.evictSleepers(time.Now())
		}
		h := a.bench.enter(name)
		a.mu.Unlock()
		if err := a.activate([]*host{h}); err != nil {
			return false, err
		}
		a.mu.Lock()
		here, displaced := a.bench.hosts[name] != nil, h.displaced()
		a.mu.Unlock()
		if here || !displaced {
			return here, nil
		}
	}
}

// thawed waits until nobody keeps a host off the workbench; without an error it returns with mu held.
func (a *activation) thawed(ctx context.Context, name string) error {
	for {
		a.mu.Lock()
		z := a.frozen[name]
		if z == nil {
			return nil
		}
		over := z.over
		a.mu.Unlock()
		select {
		case <-over:
		case <-a.ledger.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resume lets a host go on after a task, or makes room for another when it has used up its budget.
func (a *activation) resume(h *host) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	h.ending--
	if h.taken >= a.cfg.HostBudget && len(a.bench.hosts) >= a.cfg.FrontHosts && (a.scan || a.candidates.len() > 0 || !a.bench.recrawl.done) &&
		a.bench.evictable(h) {
		a.evict(h, now)
	} else {
		a.bench.settle(h, now)
	}
	a.dispatch(now)
}

// evict sends a host back to the disk. It needs mu held.
func (a *activation) evict(h *host, now time.Time) {
	a.bench.leave(h, now)
	a.rescan()
	a.bench.recrawl.again()
}
