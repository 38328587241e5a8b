package frontier

import (
	"net/netip"
	"time"
)

// SetPace slows this node down while something else needs the network quiet: each fetcher waits Config.WaitTime before a
// task, with the chance that is missing to share (1 is full speed). Config.WaitShare holds as well.
func (f *Frontier) SetPace(share float64) {
	f.waitMille.Store(int64(1000 * (1 - min(max(share, 0), 1))))
}

// waitShare is the chance that a fetcher waits.
func (f *Frontier) waitShare() float64 {
	return max(f.cfg.WaitShare, float64(f.waitMille.Load())/1000)
}

// Adjust changes, while the frontier runs, those values of its configuration that are marked as live.
func (f *Frontier) Adjust(cfg Config, p Politeness) {
	f.ledger.mostURLs.Store(int64(cfg.MaxHostURLs))
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &f.bench.rules
	r.MinGap, r.Factor, r.MaxGap, r.OwnGap, r.BackoffMin = p.MinGap, p.Factor, p.MaxGap, p.OwnGap, p.BackoffMin
	r.RetryConnect, r.RetryName, r.RetryPage = p.RetryConnect, p.RetryName, p.RetryPage
}

// Gap is how long a server must be left alone after a request for a host's page that took that long.
func (f *Frontier) Gap(host string, addr netip.Addr, elapsed, retryAfter time.Duration) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var delay time.Duration
	if h := f.bench.hosts[host]; h != nil {
		delay = h.crawlDelay
	}
	return f.bench.rules.gap(f.deps.siteOf(host), addr, delay, retryAfter, elapsed)
}

// OwnServer says whether a server is named as one's own.
func (f *Frontier) OwnServer(addr netip.Addr) bool { return f.bench.rules.own(addr) }

// HostsAt are the hosts of the workbench that a server serves, in no order.
func (f *Frontier) HostsAt(addr netip.Addr) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.bench.servers[addr]
	if s == nil {
		return nil
	}
	names := make([]string, 0, len(s.hosts))
	for h := range s.hosts {
		names = append(names, h.name)
	}
	return names
}
