package frontier

import (
	"context"
	"net/netip"
	"slices"
	"time"
)

// Unplaced is a host whose name must be resolved.
type Unplaced struct {
	// Name is a host name or an address, without port.
	Name string
	// Host is the host that needs it.
	Host string
	host *host
	try  bool // its answer shows whether the outage is over
}

// Resolve returns the next host whose name must be resolved. It blocks until there is one or the context ends. The caller must answer with
// Place, Lost or Refuse.
func (f *Frontier) Resolve(ctx context.Context) (Unplaced, error) {
	u, err := wait(ctx, f, &f.resolvers, func(now time.Time) (*Unplaced, error) { return f.nextUnresolvedLocked(now), nil })
	if err != nil {
		return Unplaced{}, err
	}
	return *u, nil
}

// Place reports the addresses of a host, how long they are valid, and how long the lookup took.
func (f *Frontier) Place(u Unplaced, addrs []netip.Addr, ttl, took time.Duration) {
	f.update(func(now time.Time) {
		f.outage.tried(u.try)
		u.host.resolveTook = took
		f.bench.placeHost(u.host, addrs, ttl, now)
	})
}

// Refuse reports that a host must not be asked at any of its addresses. The host is given up, and Refuse returns how many URLs were
// dropped. If lasts is true, URLs that are offered within Politeness.EndedFor are dropped too.
func (f *Frontier) Refuse(ctx context.Context, u Unplaced, reason string, lasts bool) (dropped int, err error) {
	until := time.Time{}
	if lasts {
		until = time.Now().Add(f.bench.rules.EndedFor)
	}
	f.mu.Lock()
	f.ending++
	f.mu.Unlock()
	defer f.written()
	n, err := f.giveUp(ctx, u.Host, reason, until)
	f.update(func(now time.Time) {
		f.outage.tried(u.try)
		f.bench.lostHost(u.host, reason, true, false, now)
	})
	return n, err
}

// Lost reports that a name did not resolve. The host waits by RetryName. At the end of that list it is given up, and Lost returns how many
// URLs were dropped. ours means that the failure is this node's own and does not count against the host. lasts means that waiting will
// hardly help.
func (f *Frontier) Lost(ctx context.Context, u Unplaced, reason string, ours, lasts bool) (dropped int, err error) {
	giveUp, wait := false, &finished{host: u.Host}
	f.update(func(now time.Time) {
		f.ending++
		f.outage.tried(u.try)
		u.host.ending++
		giveUp = f.bench.lostHost(u.host, reason, ours, lasts, now)
		wait.state = u.host.hostState
	})
	defer f.written()
	defer f.resume(u.host)
	switch {
	case ours:
		return 0, nil
	case giveUp:
		return f.giveUp(ctx, u.Host, reason, time.Now().Add(f.bench.rules.EndedFor))
	}
	err = f.ledger.do(ctx, together, func(b *batch) error { return f.ledger.decideFinish(b, wait) })
	return 0, wrap(err, "note that %s is lost", u.Host)
}

// Placed returns the addresses of a host on the workbench, that of its server first.
func (f *Frontier) Placed(host string) (addrs []netip.Addr, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.bench.hosts[host]
	if h == nil || h.place != placed || h.placedName != h.dialName() || h.robotsTarget != nil {
		return nil, false
	}
	others := slices.DeleteFunc(slices.Clone(h.addrs), func(a netip.Addr) bool { return a == h.server.addr })
	return append([]netip.Addr{h.server.addr}, others...), true
}
