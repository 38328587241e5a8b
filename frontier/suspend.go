package frontier

import (
	"context"
	"maps"
	"slices"
	"time"
)

// unchecked is why a host waits that has come onto the workbench, until Suspend says whether this node may crawl it.
const unchecked = "its ownership has not been checked yet"

// Unchecked waits for hosts that have come onto the workbench and that Suspend was not called with yet, and returns them. With Config.Shared
// they are not crawled before. It is for one reader.
func (f *Frontier) Unchecked(ctx context.Context) ([]string, error) {
	return awaitSome(ctx, f.front, f.arrived, func() []string {
		names := f.entered
		f.entered = nil
		return names
	})
}

// Active returns the hosts on the workbench, to which Suspend applies.
func (f *Frontier) Active() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.bench.hosts))
}

// Suspend sets the reasons why hosts must not be crawled here now. An empty reason lets a host be crawled. A suspended host stays on the
// workbench, and its status gives the reason. Tasks that are out are not recalled. Suspend skips hosts that are not on the workbench;
// Unchecked returns them when they come.
func (f *Frontier) Suspend(reasons map[string]string) {
	f.update(func(now time.Time) {
		for name, reason := range reasons {
			if h := f.bench.hosts[name]; h != nil && h.suspended != reason {
				h.suspended = reason
				f.bench.settle(h, now)
			}
		}
	})
}

// Hold stops tasks from being taken and records why. Tasks are taken again when everybody who held them has called Hold with an
// empty reason. Tasks that are out are not recalled.
func (f *Frontier) Hold(who, why string) {
	f.update(func(time.Time) {
		if f.held[who] = why; why == "" {
			delete(f.held, who)
		}
	})
}
