package frontier

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// Errors of TakeFrom.
var (
	// ErrNotReserved says that the server is not reserved, or no longer.
	ErrNotReserved = errors.New("the server is not reserved")
	// ErrElsewhere says that the host is at another server.
	ErrElsewhere = errors.New("the host is at another server")
	// ErrNoURL says that the host has nothing to ask for, or is not owned.
	ErrNoURL = errors.New("the host has no pending URL")
)

// errOffBench says that the host has left the workbench, or never was there.
var errOffBench = errors.New("the host is not on the workbench")

// reserve keeps the tasks of a server for takeHost, or no longer. While it is reserved its hosts stay where they are.
func (w *workbench) reserve(addr netip.Addr, on bool, now time.Time) {
	s := w.servers[addr]
	if s == nil {
		if !on {
			return
		}
		s = w.newServer(addr)
	}
	s.reserved = on
	w.settleServer(s, now)
}

// takeHost hands out the next task of a host at a reserved server; neither a task nor an error: not yet.
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
			return nil, nil // its robots.txt is elsewhere; it comes back
		}
		return nil, ErrElsewhere
	}
	h.revive(now)
	if s.inFlight >= s.parallel || s.next.After(now) || !w.leased(s, now) || !w.eligible(h) || h.notBefore.After(now) || h.site.closed(now) {
		return nil, nil
	}
	for _, o := range []Origin{Assigned, Discovered, Estimate, Revisit} {
		if h.window[o].len() > 0 {
			task := w.start(h, o, now)
			w.started(task, now)
			return task, nil
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

type taken struct {
	task *Task
	err  error
}

// serveTakers answers those takers for whom there is a task or an error. It needs mu held.
func (f *Frontier) serveTakers(now time.Time) {
	if len(f.takers) == 0 || f.full != "" || f.outage.keepsTasks(now) {
		return
	}
	f.takers = slices.DeleteFunc(f.takers, func(t *taker) bool {
		if t.gone {
			return true
		}
		if f.outage.keepsTasks(now) { // another has just got the one try
			return false
		}
		task, err := f.bench.takeHost(t.host, t.addr, now)
		if task == nil && err == nil {
			return false
		}
		if task != nil {
			task.try = f.outage.try(true, now)
		}
		t.answer <- taken{task, err}
		return true
	})
}

// Reserve keeps the tasks of a server for TakeFrom, until it is called with false. A home reserves the servers of a
// batch while it decides: their hosts stay on the workbench and at their server meanwhile.
func (f *Frontier) Reserve(addr netip.Addr, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.bench.reserve(addr, on, now)
	f.dispatch(now)
}

// TakeFrom returns the next task of a host at a reserved server, a robots.txt first where that is needed, as soon as
// politeness, lease and fence allow. It brings the host to the workbench, blocks until there is a task or the context
// ends, and fails with ErrNotReserved, ErrElsewhere or ErrNoURL. The task is ended by Finish like any other.
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
		f.mu.Lock()
		f.takers = append(f.takers, t)
		f.dispatch(time.Now())
		f.mu.Unlock()
		a, err := t.wait(ctx, f)
		if err != nil {
			return nil, err
		}
		if !errors.Is(a.err, errOffBench) {
			return a.task, a.err
		}
	}
}

// Activate brings a host to the workbench, so that it is resolved; it is there on return, unless it has no pending URL, is
// not owned or was given up. It may push the workbench over Config.FrontHosts.
func (f *Frontier) Activate(ctx context.Context, host string) error {
	_, err := f.enterHost(ctx, host)
	return err
}

// enterHost is Activate; it says whether the host is on the workbench.
func (f *Frontier) enterHost(ctx context.Context, name string) (here bool, err error) {
	if !f.store.enter() {
		return false, ErrClosed
	}
	defer f.store.exit()
	for {
		if err := f.thawed(ctx, name); err != nil {
			return false, err
		}
		if f.bench.hosts[name] != nil {
			f.mu.Unlock()
			return true, nil
		}
		if len(f.bench.hosts) >= f.cfg.FrontHosts {
			f.evictSleepers(time.Now())
		}
		h := f.bench.enter(name)
		f.mu.Unlock()
		if err := f.activate([]*host{h}); err != nil {
			return false, err
		}
		f.mu.Lock()
		here, displaced := f.bench.hosts[name] != nil, h.displaced()
		f.mu.Unlock()
		if here || !displaced {
			return here, nil
		}
	}
}

// thawed waits until nobody keeps a host off the workbench; without an error it returns with mu held.
func (f *Frontier) thawed(ctx context.Context, name string) error {
	for {
		f.mu.Lock()
		z := f.frozen[name]
		if z == nil {
			return nil
		}
		over := z.over
		f.mu.Unlock()
		select {
		case <-over:
		case <-f.ledger.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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
