package frontier

import (
	"context"
	"time"
)

// strand leaves a host to another node that has not tried it yet, because nothing is left to be done here. last says that its waits are used up.
// It returns false if this node's failures decide.
func (w *workbench) strand(h *host, last bool) bool {
	if !w.cfg.Shared || h.tried || h.foreign || h.suspended != "" {
		return false
	}
	w.stranded[h] = last || w.stranded[h]
	return true
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

// Forsake says that no other node takes a stranded host. It is given up if its waits are used up, and waits on if not.
func (f *Frontier) Forsake(ctx context.Context, name string) error {
	var why string
	last := false
	f.update(func(time.Time) {
		if h := f.bench.hosts[name]; h != nil {
			last, why = f.bench.stranded[h], h.why
			delete(f.bench.stranded, h)
			h.tried = true
		}
	})
	if !last {
		return nil
	}
	_, err := f.giveUp(ctx, name, why, time.Now().Add(f.bench.rules.EndedFor))
	return err
}
