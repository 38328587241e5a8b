package frontier

import (
	"context"
	"time"
)

// strand leaves a host to another node that has not tried it yet, because nothing is left to be done here. It returns false if this node's
// failures decide.
func (w *workbench) strand(h *host) bool {
	if !w.cfg.Shared || h.triedElsewhere(w.self()) || h.foreign || h.suspended != "" {
		return false
	}
	w.stranded[h] = struct{}{}
	return true
}

// usedUpWaits returns how long a host waits that has used up its waits, and whether it does so as another node must try it first. Then it waits
// for the last of them once more. If not, it is given up.
func (w *workbench) usedUpWaits(h *host, waits []time.Duration) (wait time.Duration, more bool) {
	if len(waits) == 0 || !w.strand(h) {
		return w.rules.EndedFor, false
	}
	return schedule(waits, len(waits)-1, w.rnd)
}

// Stranded returns the hosts that cannot be reached from here and that another node should try before they are given up, or before the crawl
// ends. It needs Config.Shared.
func (f *Frontier) Stranded() (hosts []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h := range f.bench.stranded {
		if h.failures == 0 {
			delete(f.bench.stranded, h)
			continue
		}
		hosts = append(hosts, h.name)
	}
	return hosts
}

// CannotReach notes that this node cannot reach a stranded host, before it is offered to others: until it has reached it, they do not give it
// back. If nobody takes the host, it waits on here, and is given up when it fails and its waits are used up.
func (f *Frontier) CannotReach(ctx context.Context, name string, nobody bool) error {
	by := f.deps.Self()
	if nobody {
		by = others
	}
	err := f.ledger.onHost(ctx, alone, name, func(b *batch, h *hostEntry) error {
		if known, err := f.ledger.known(b, h); err != nil || !known || h.rec.role != Owned {
			return err
		}
		h.rec.triedBy, h.rec.reachedSince = by, false // on disk, too: a hand-off takes the host off the workbench
		b.touched[name] = h
		b.changed(name, func(c *Change) { c.State = true })
		return nil
	})
	f.update(func(time.Time) {
		if h := f.bench.hosts[name]; h != nil {
			h.triedBy, h.reachedSince = by, false
			if nobody {
				delete(f.bench.stranded, h)
			}
		}
	})
	return wrap(err, "note who cannot reach %s", name)
}
