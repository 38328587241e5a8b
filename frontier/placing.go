package frontier

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// Unplaced is a host whose name is to be resolved.
type Unplaced struct {
	// Name is a host name or an address, without port.
	Name string
	// Host is the host that needs it.
	Host string
	host *host
	try  bool // by its answer the node sees that its outage is over
}

// Resolve returns the next host whose name has to be resolved. It blocks until there is one or the context ends. Each
// is answered by Place or by Lost.
func (f *Frontier) Resolve(ctx context.Context) (Unplaced, error) {
	f.mu.Lock()
	h := f.nextUnresolved(time.Now())
	if h == nil {
		w := newWaiter[*host]()
		f.resolvers.push(w)
		f.mu.Unlock()
		var err error
		if h, err = w.wait(ctx, f); err != nil {
			return Unplaced{}, err
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	return Unplaced{Name: h.dialName(), Host: h.name, host: h, try: f.outage.why != ""}, nil
}

// Place tells where a host is: its addresses, for how long, and how long it took to find out.
func (f *Frontier) Place(u Unplaced, addrs []netip.Addr, ttl, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.outage.tried(u.try)
	u.host.resolveTook = took
	f.bench.placeHost(u.host, addrs, ttl, now)
	f.dispatch(now)
}

// Refuse tells that a host must not be asked at any of its addresses. It is given up, and the number of its URLs that
// were dropped is returned. Unless it lasts, URLs that are offered later are taken again.
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
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.outage.tried(u.try)
	f.bench.lostHost(u.host, reason, true, false, now)
	f.dispatch(now)
	return n, err
}

// Lost tells that a name did not resolve. The host waits by RetryName and is given up at its end; then the number of
// URLs dropped is returned. A failure of this node itself is not held against the host.
func (f *Frontier) Lost(ctx context.Context, u Unplaced, reason string, ours, lasts bool) (dropped int, err error) {
	f.mu.Lock()
	f.ending++
	defer f.written()
	now := time.Now()
	f.outage.tried(u.try)
	u.host.ending++
	giveUp := f.bench.lostHost(u.host, reason, ours, lasts, now)
	wait := &request{host: u.Host, finish: &finished{state: u.host.state()}}
	f.dispatch(now)
	f.mu.Unlock()
	defer f.resume(u.host)
	switch {
	case ours:
		return 0, nil
	case !giveUp:
		if err := f.ledger.do(ctx, wait); err != nil {
			return 0, fmt.Errorf("note that %s is lost: %w", u.Host, err)
		}
		return 0, nil
	}
	return f.giveUp(ctx, u.Host, reason, now.Add(f.bench.rules.EndedFor))
}

// Placed tells where a host of the workbench is: the addresses of its name, that of its server first.
func (f *Frontier) Placed(host string) (addrs []netip.Addr, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.bench.hosts[host]
	if h == nil || h.place != placed || h.placedName != h.dialName() || h.robotsTarget != nil {
		return nil, false
	}
	addrs = append(addrs, h.server.addr)
	for _, a := range h.addrs {
		if a != h.server.addr {
			addrs = append(addrs, a)
		}
	}
	return addrs, true
}
