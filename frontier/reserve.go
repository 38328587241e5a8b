package frontier

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

// Errors of TakeFrom.
var (
	// ErrNotReserved means that the server is not reserved, or no longer.
	ErrNotReserved = errors.New("the server is not reserved")
	// ErrElsewhere means that the host is at another server.
	ErrElsewhere = errors.New("the host is at another server")
	// ErrNoURL means that the host has nothing to ask for, or is not owned.
	ErrNoURL = errors.New("the host has no pending URL")
)

// errOffBench means that the host is not on the workbench.
var errOffBench = errors.New("the host is not on the workbench")

// reserve keeps the tasks of a server for takeHost, or ends that. While a server is reserved, its hosts stay there.
func (w *workbench) reserve(addr netip.Addr, on bool, now time.Time) {
	s := w.servers[addr]
	if s == nil {
		if !on {
			return
		}
		s = w.newServer(addr)
	}
	if s.reserved = on; on {
		s.since = now // while it is reserved, it does not wait for a fetcher
	}
	w.settleServer(s, now)
}

// takeHost hands out the next task of a host at a reserved server. It returns neither a task nor an error if the caller must wait.
func (w *workbench) takeHost(name string, addr netip.Addr, now time.Time) (*Task, error) {
	s, h := w.servers[addr], w.hosts[name]
	switch {
	case s == nil || !s.reserved:
		return nil, ErrNotReserved
	case h == nil:
		return nil, errOffBench
	case h.place != placed:
		return nil, nil
	case h.server != s:
		if h.robotsTarget != nil || h.placedName != h.dialName() {
			return nil, nil // its robots.txt is elsewhere, and it will come back
		}
		return nil, ErrElsewhere
	}
	h.revive(now)
	if s.inFlight >= s.parallel || s.next.After(now) || !w.leased(s, now) || !w.eligible(h) || h.rests().After(now) || w.settingsAsked(h).closed(now) {
		return nil, nil
	}
	for _, o := range []Origin{Assigned, Discovered, Estimate, Revisit} {
		if len(h.window[o]) > 0 {
			return w.start(h, o, now), nil
		}
	}
	return nil, nil
}

// taker waits for a task of one host at a reserved server.
type taker struct {
	waiter[taken]
	host string
	addr netip.Addr
}

// taken is the answer to a taker: a task, or why there will be none.
type taken struct {
	task *Task
	err  error
}

// Reserve keeps the tasks of a server for TakeFrom, until it is called with false. A home reserves the servers of a batch while it
// decides. Meanwhile their hosts stay on the workbench and at their server.
func (f *Frontier) Reserve(addr netip.Addr, on bool) {
	f.update(func(now time.Time) { f.bench.reserve(addr, on, now) })
}

// TakeFrom returns the next task of a host at a reserved server, as soon as politeness and the lease allow it and the host is not
// suspended. If the robots.txt is needed, it comes first. TakeFrom brings the host onto the workbench and blocks until there is a task or
// the context ends. It fails with ErrNotReserved, ErrElsewhere or ErrNoURL. Finish ends the task like any other.
func (f *Frontier) TakeFrom(ctx context.Context, host string, addr netip.Addr) (*Task, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		here, err := f.enterHost(ctx, host)
		if err != nil {
			return nil, err
		}
		if !here {
			return nil, ErrNoURL
		}
		t := &taker{waiter: *newWaiter[taken](), host: host, addr: addr}
		f.update(func(time.Time) { f.takers = append(f.takers, t) })
		a, err := t.wait(ctx, f.front)
		if err != nil {
			return nil, err
		}
		if !errors.Is(a.err, errOffBench) {
			return a.task, a.err
		}
	}
}
