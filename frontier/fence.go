package frontier

import "time"

// askFence asks Deps.Wait about a host. The number is that of the review that the answer belongs to: with another in the
// meantime it is worth nothing. It must be called without locks.
func (f *Frontier) askFence(name string) (reason string, review uint64) {
	f.mu.Lock()
	review = f.reviews
	f.mu.Unlock()
	if f.deps.Wait != nil {
		reason = f.deps.Wait(name)
	}
	return reason, review
}

// Review asks Deps.Wait again for every host of the workbench. Those that must not be crawled stay there, suspended, and
// say why in the status, until a review lets them go on; tasks that are out are not recalled. Whatever Wait said before
// the call is forgotten, also of hosts that are on their way in.
func (f *Frontier) Review() {
	if f.deps.Wait == nil {
		return
	}
	f.reviewing.Lock() // the answers of the last review are the ones that stay
	defer f.reviewing.Unlock()
	f.mu.Lock()
	f.reviews++
	names := make([]string, 0, len(f.bench.hosts))
	for name := range f.bench.hosts {
		names = append(names, name)
	}
	f.mu.Unlock()
	reasons := make(map[string]string, len(names))
	for _, name := range names {
		reasons[name] = f.deps.Wait(name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for name, reason := range reasons {
		if h := f.bench.hosts[name]; h != nil && h.place != loading && h.fence != reason {
			h.fence = reason
			f.bench.settle(h, now)
		}
	}
	f.dispatch(now)
}

// admitHost ends the reading of a host, with the fence as it is then.
func (f *Frontier) admitHost(h *host, rec record) {
	for {
		reason, review := f.askFence(h.name)
		f.mu.Lock()
		if review == f.reviews {
			now := time.Now()
			h.fence = reason
			f.useful = f.useful || rec.notBefore.Sub(now) <= longSleep
			f.bench.loadedHost(h, rec, now)
			f.dispatch(now)
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
	}
}

// askFences asks Deps.Wait about the hosts that may enter the workbench without a look at the disk.
func (f *Frontier) askFences(offers []offered) (reasons map[string]string, review uint64) {
	if f.deps.Wait == nil {
		return nil, 0
	}
	f.mu.Lock()
	review = f.reviews
	f.mu.Unlock()
	reasons = make(map[string]string)
	for _, o := range offers {
		if o.first {
			reasons[o.host] = f.deps.Wait(o.host)
		}
	}
	return reasons, review
}
