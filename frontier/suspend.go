package frontier

import (
	"context"
	"time"
)

// unchecked is why a host waits that has come onto the workbench: nobody has said yet that it may be crawled here.
const unchecked = "its ownership has not been checked yet"

// Unchecked waits until hosts have come onto the workbench that Suspend has not been told about, and returns them. With
// Config.Shared they are not crawled before. It is for one reader.
func (f *Frontier) Unchecked(ctx context.Context) ([]string, error) {
	return gather(ctx, f.front, f.arrived, func() []string {
		names := f.entered
		f.entered = nil
		return names
	})
}

// Active returns the hosts on the workbench: those that Suspend can say something about.
func (f *Frontier) Active() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.bench.hosts))
	for name := range f.bench.hosts {
		names = append(names, name)
	}
	return names
}

// Suspend says of hosts why they must not be crawled here now, with "" that they may. A suspended host stays on the
// workbench and its status gives the reason. Tasks that are out are not recalled. Hosts that are not on the workbench are
// passed over: Unchecked names them when they come.
func (f *Frontier) Suspend(reasons map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for name, reason := range reasons {
		if h := f.bench.hosts[name]; h != nil && h.place != loading && h.suspended != reason {
			h.suspended = reason
			f.bench.settle(h, now)
		}
	}
	f.dispatch(now)
}

// Hold lets nothing be taken from now on and says why in words; with "" from all who held it tasks are taken again. Tasks that are out
// are not recalled.
func (f *Frontier) Hold(who, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[who] = why; why == "" {
		delete(f.held, who)
	}
	f.dispatch(time.Now())
}
