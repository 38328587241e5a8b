package frontier

import (
	"context"
	"maps"
	"slices"
	"time"
)

// takeLocked hands out the next task if the disk, holds and outages allow it. It needs mu held.
func (f *Frontier) takeLocked(now time.Time) *Task {
	if f.full != "" || len(f.held) > 0 || f.outage.keepsTasks(now) {
		return nil
	}
	task := f.bench.take(now)
	if f.bench.recrawl.wanted {
		f.starveLocked()
	}
	if task == nil {
		return nil
	}
	task.try = f.outage.try(true, now)
	if task.remote && !f.bench.anyReady(now) {
		// A fetcher that works for other nodes only because no host here is ready starves as well.
		f.craving = true
		f.starveLocked()
	}
	return task
}

// dispatch answers waiting callers. It is called after every change that may have made a task ready, and needs mu held.
func (f *Frontier) dispatch(now time.Time) {
	if !serve(&f.waiters, func() *Task { return f.takeLocked(now) }) {
		f.starveLocked()
	}
	serve(&f.resolvers, func() *host { return f.nextUnresolved(now) })
	if len(f.bench.refills) > 0 {
		signal(f.dry)
	}
	if f.bench.recrawl.wanted {
		f.starveLocked()
	}
	f.serveTakers(now)
	due, ok := f.bench.nextWake(now)
	if o := &f.outage; o.why != "" && now.Before(o.next) && (!ok || o.next.Before(due)) {
		due, ok = o.next, true
	}
	if ok && (f.clockAt.IsZero() || due.Before(f.clockAt)) {
		f.clockAt = due
		signal(f.kick)
	}
	if len(f.bench.wants) > 0 {
		signal(f.wanted)
	}
	if len(f.bench.expired) > 0 {
		signal(f.kick)
	}
	if f.bench.inFlight == 0 && f.bench.resolving == 0 && f.bench.remote.out == 0 {
		signal(f.quiet)
	}
}

// serve answers waiters in order as long as next has something for them. It returns false if somebody still waits.
func serve[T any](waiters *fifo[*waiter[*T]], next func() *T) bool {
	for waiters.len() > 0 {
		if w := *waiters.peek(); !w.gone {
			v := next()
			if v == nil {
				return false
			}
			w.answer <- v
		}
		waiters.pop()
	}
	return true
}

// serveTakers answers the takers for which there is a task or an error. It needs mu held.
func (f *Frontier) serveTakers(now time.Time) {
	if f.full != "" {
		return
	}
	f.takers = slices.DeleteFunc(f.takers, func(t *taker) bool {
		if t.gone {
			return true
		}
		if f.outage.keepsTasks(now) { // possibly because the taker before this one got the only try
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

// nextUnresolved returns the next host to look up, unless an outage forbids it. It needs mu held.
func (f *Frontier) nextUnresolved(now time.Time) *host {
	if f.outage.keepsNames(now) {
		return nil
	}
	h := f.bench.nextUnresolved(now)
	if h != nil {
		f.outage.try(false, now)
	}
	return h
}

// runClock makes ready what only had to wait for a time, and reports expired leases.
func (f *Frontier) runClock(stop <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-f.kick:
		case <-timer.C:
		}
		f.mu.Lock()
		now := time.Now()
		f.bench.advance(now)
		f.clockAt = time.Time{}
		f.dispatch(now)
		select {
		case <-f.kick: // dispatch signalled this goroutine, which reads clockAt below anyway
		default:
		}
		wait := time.Hour
		if !f.clockAt.IsZero() {
			// Timers stop while the machine sleeps, but the opening hours of sites do not.
			wait = min(f.clockAt.Sub(now), time.Minute)
		}
		timer.Reset(wait)
		expired := f.bench.expired
		f.bench.expired = nil
		f.mu.Unlock()
		for _, e := range expired {
			e.fire()
		}
	}
}

// written ends a call that raised f.ending. Until then the frontier is not idle, though no task is out.
func (f *Frontier) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending--; f.ending == 0 {
		signal(f.quiet)
	}
}

// starveLocked asks for hosts from disk if any may come in. It needs mu held.
func (f *Frontier) starveLocked() {
	if f.supplyLocked() {
		signal(f.hungry)
	}
}

// signal wakes the goroutine behind a channel that holds one signal. A second signal before it wakes adds nothing.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waiter is a caller that waits for the frontier to hand something out.
type waiter[T any] struct {
	answer chan T
	gone   bool // it has stopped waiting; guarded by the frontier's lock
}

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan T, 1)} }

// wait returns the answer, or the error that ended the wait.
func (w *waiter[T]) wait(ctx context.Context, f *Frontier) (answer T, err error) {
	select {
	case answer = <-w.answer:
		return answer, nil
	case <-f.ledger.closed:
	case <-ctx.Done():
	}
	if err = ctx.Err(); err == nil {
		err = ErrClosed
	}
	f.mu.Lock()
	w.gone = true
	f.mu.Unlock()
	select {
	case answer = <-w.answer: // it came before gone was set
		return answer, nil
	default:
		return answer, err
	}
}

// gather waits for a signal until take, called with mu held, returns something.
func gather[T any](ctx context.Context, f *Frontier, signalled <-chan struct{}, take func() []T) ([]T, error) {
	for {
		f.mu.Lock()
		some := take()
		f.mu.Unlock()
		if len(some) > 0 {
			return some, nil
		}
		select {
		case <-signalled:
		case <-f.ledger.closed:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// unchecked is why a host waits after it came onto the workbench: nobody has said yet that this node may crawl it.
const unchecked = "its ownership has not been checked yet"

// checkInLocked suspends a host until Suspend allows it. It needs mu held.
func (f *Frontier) checkInLocked(h *host) {
	if !f.cfg.Shared {
		return
	}
	h.suspended = unchecked
	f.entered = append(f.entered, h.name)
	signal(f.arrived)
}

// Unchecked waits for hosts that have come onto the workbench and about which Suspend has said nothing yet, and returns them.
// With Config.Shared they are not crawled before. It is for one reader.
func (f *Frontier) Unchecked(ctx context.Context) ([]string, error) {
	return gather(ctx, f, f.arrived, func() []string {
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

// Suspend sets the reasons why hosts must not be crawled here now; an empty reason allows it. A suspended host stays on the
// workbench, and its status gives the reason. Tasks that are out are not recalled. Hosts that are not on the workbench are
// skipped: Unchecked names them when they come.
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

// Hold stops tasks from being taken and records why. Tasks are taken again when everybody who held them has called Hold with an
// empty reason. Tasks that are out are not recalled.
func (f *Frontier) Hold(who, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[who] = why; why == "" {
		delete(f.held, who)
	}
	f.dispatch(time.Now())
}
