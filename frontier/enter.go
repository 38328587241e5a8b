package frontier

import (
	"context"
	"time"
)

// nominate notes that a host on disk has something to crawl. It needs mu held.
func (f *Frontier) nominate(name string) {
	if _, ok := f.candidate[name]; ok {
		return
	}
	if len(f.candidate) >= maxCandidates {
		f.rescan()
		return
	}
	f.candidate[name] = struct{}{}
	f.candidates.push(name)
	if f.waiters.len() > 0 {
		signal(f.hungry)
	}
}

// rescan notes that a host waits on disk that is no candidate. It needs mu held.
func (f *Frontier) rescan() { f.scan, f.wrapped, f.found = true, false, true }

// Activate brings a host to the workbench, so that it is resolved; it is there on return, unless it has no pending URL, is
// not owned or was given up. It may push the workbench over Config.FrontHosts.
func (f *Frontier) Activate(ctx context.Context, host string) error {
	_, err := f.enterHost(ctx, host)
	return err
}

// enterHost is Activate; it says whether the host is on the workbench.
func (f *Frontier) enterHost(ctx context.Context, name string) (here bool, err error) {
	if !f.store.enter() {
		return false, ErrClosed
	}
	defer f.store.exit()
	for {
		if err := f.thawed(ctx, name); err != nil {
			return false, err
		}
		if f.bench.hosts[name] != nil {
			f.mu.Unlock()
			return true, nil
		}
		if len(f.bench.hosts) >= f.cfg.FrontHosts {
			f.evictSleepers(time.Now())
		}
		h := f.bench.enter(name)
		f.mu.Unlock()
		if err := f.activate([]*host{h}); err != nil {
			return false, err
		}
		f.mu.Lock()
		here, displaced := f.bench.hosts[name] != nil, h.displaced()
		f.mu.Unlock()
		if here || !displaced {
			return here, nil
		}
	}
}

// thawed waits until nobody keeps a host off the workbench; without an error it returns with mu held.
func (f *Frontier) thawed(ctx context.Context, name string) error {
	for {
		f.mu.Lock()
		z := f.frozen[name]
		if z == nil {
			return nil
		}
		over := z.over
		f.mu.Unlock()
		select {
		case <-over:
		case <-f.ledger.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resume lets a host go on after a task, or makes room for another when it has used up its budget.
func (f *Frontier) resume(h *host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	h.ending--
	if h.taken >= f.cfg.HostBudget && len(f.bench.hosts) >= f.cfg.FrontHosts && (f.scan || f.candidates.len() > 0 || !f.bench.recrawl.done) &&
		f.bench.evictable(h) {
		f.evict(h, now)
	} else {
		f.bench.settle(h, now)
	}
	f.dispatch(now)
}

// evict sends a host back to the disk. It needs mu held.
func (f *Frontier) evict(h *host, now time.Time) {
	f.bench.leave(h, now)
	f.rescan()
	f.bench.recrawl.again()
}
