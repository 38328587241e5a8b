package frontier

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"proxima/frontier/identity"
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

// placing finds out at which servers hosts are: the node asks for names to resolve, and reports the answers.
type placing struct{ *activation }

// Resolve returns the next host whose name must be resolved. It blocks until there is one or the context ends. The caller must answer with
// Place, Lost or Refuse.
func (p *placing) Resolve(ctx context.Context) (Unplaced, error) {
	u, err := next(ctx, p.front, &p.resolvers)
	if err != nil {
		return Unplaced{}, err
	}
	return *u, nil
}

// Place reports the addresses of a host, how long they are valid, and how long the lookup took.
func (p *placing) Place(u Unplaced, addrs []netip.Addr, ttl, took time.Duration) {
	p.update(func(now time.Time) {
		p.outage.tried(u.try)
		u.host.resolveTook = took
		p.bench.placeHost(u.host, addrs, ttl, now)
	})
}

// Refuse reports that a host must not be asked at any of its addresses. The host is given up. If lasts is
// true, links that come within Politeness.EndedFor are refused.
func (p *placing) Refuse(ctx context.Context, u Unplaced, reason string, lasts bool) error {
	until := time.Time{}
	if lasts {
		until = time.Now().Add(p.bench.rules.EndedFor)
	}
	p.mu.Lock()
	p.ending++
	p.mu.Unlock()
	defer p.written()
	_, err := p.giveUp(ctx, u.Host, reason, until)
	p.update(func(now time.Time) {
		p.outage.tried(u.try)
		p.bench.lostHost(u.host, reason, true, false, now)
	})
	return err
}

// Lost reports that a name did not resolve to an address that may be asked. The host waits by RetryName. At the end of that list it is
// given up. ours means that the failure is this node's own and does not count against the host. lasts means that waiting will hardly help.
func (p *placing) Lost(ctx context.Context, u Unplaced, reason string, ours, lasts bool) error {
	var news Event
	giveUp, wait := false, &taskEnd{host: u.Host}
	p.update(func(now time.Time) {
		p.ending++
		p.outage.tried(u.try)
		u.host.ending++
		if !ours {
			ours, news = p.failedLocked(u.host, identity.RegistrableDomain(identity.Name(u.Host)), u.try, now)
		}
		giveUp = p.bench.lostHost(u.host, reason, ours, lasts, now)
		wait.state = u.host.hostState
	})
	p.tell(news)
	defer p.written()
	defer p.resume(u.host)
	switch {
	case ours:
		return nil
	case giveUp:
		_, err := p.giveUp(ctx, u.Host, reason, time.Now().Add(p.bench.rules.EndedFor))
		return err
	}
	err := p.ledger.do(ctx, together, func(b *batch) error { return p.ledger.decideFinish(b, wait) })
	return wrap(err, "note that %s is lost", u.Host)
}

// Placed returns the addresses of a host on the workbench, that of its server first.
func (p *placing) Placed(host string) (addrs []netip.Addr, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.bench.hosts[host]
	if h == nil || h.place != placed || h.placedName != h.dialName() || h.robotsTarget != nil {
		return nil, false
	}
	others := slices.DeleteFunc(slices.Clone(h.addrs), func(a netip.Addr) bool { return a == h.server.addr })
	return append([]netip.Addr{h.server.addr}, others...), true
}
