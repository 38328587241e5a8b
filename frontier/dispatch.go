package frontier

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// stoppedLocked says that no task may be taken now, whatever is ready.
func (f *Frontier) stoppedLocked(now time.Time) bool {
	return f.full || len(f.held) > 0 || f.outage.keepsTasks(now)
}

// takeLocked hands out the next task if the disk, holds and outages allow it.
func (f *Frontier) takeLocked(now time.Time) *Task {
	if f.stoppedLocked(now) {
		return nil
	}
	task := f.bench.take(now)
	if task == nil {
		return nil
	}
	task.try = f.outage.try(true, now)
	if task.remote && f.bench.readyServers(now) == 0 {
		// A fetcher that works for other nodes only because no host here is ready starves as well.
		f.craving = true
		f.starveLocked()
	}
	return task
}

// update makes a change that may have made a task ready. It calls do with mu held.
func (f *Frontier) update(do func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	do(now)
	f.dispatchLocked(now)
}

// dispatchLocked answers waiting callers and wakes the goroutines that have work. It is called after every change that may have made a task
// ready.
func (f *Frontier) dispatchLocked(now time.Time) {
	if !serve(&f.waiters, now) {
		f.starveLocked()
	}
	serve(&f.resolvers, now)
	if len(f.bench.refills) > 0 {
		signal(f.dry)
	}
	if f.bench.recrawl.wanted {
		f.starveLocked()
	}
	f.takers = slices.DeleteFunc(f.takers, func(w *waiter) bool { return w.gone || w.serve(now) })
	due := f.bench.nextWake(now)
	if o := &f.outage; o.why != "" && now.Before(o.next) {
		due = sooner(due, o.next)
	}
	// Timers stop while the machine sleeps, but the hours of sites do not.
	f.clock.Reset(sooner(due, now.Add(time.Minute)).Sub(now))
	if len(f.bench.wants) > 0 {
		signal(f.wanted)
	}
	if f.bench.inFlight == 0 && f.bench.resolving == 0 && f.bench.remote.out == 0 {
		signal(f.quiet)
	}
}

func (f *Frontier) nextUnresolvedLocked(now time.Time) *Unplaced {
	if f.outage.keepsNames(now) {
		return nil
	}
	h := f.bench.nextUnresolved(now)
	if h == nil {
		return nil
	}
	return &Unplaced{Name: h.dialName(), Host: h.name, host: h, try: f.outage.try(false, now)}
}

// advance makes ready what has waited long enough.
func (f *Frontier) advance() error {
	f.update(f.bench.advance)
	return nil
}

// written ends a call that has raised f.ending. Until then the frontier is not idle, although no task is out.
func (f *Frontier) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending--; f.ending == 0 {
		signal(f.quiet)
	}
}

// starveLocked asks for hosts from disk if any may come in.
func (f *Frontier) starveLocked() {
	if f.supplyLocked() {
		signal(f.hungry)
	}
}

// pausedLocked says why no task is taken, or returns "".
func (f *Frontier) pausedLocked() string {
	switch {
	case f.store.calls.hung(time.Now()):
		return "the disk does not answer"
	case f.full:
		return "disk full"
	case len(f.held) > 0:
		return f.held[slices.Min(slices.Collect(maps.Keys(f.held)))]
	case f.outage.why != "" && (f.outage.blind(time.Now()) || f.bench.inFlight == 0):
		return f.outage.why + "; waiting"
	}
	return ""
}

// checkInLocked suspends a host that came in until Suspend allows it.
func (f *Frontier) checkInLocked(h *host) {
	if !f.cfg.Shared {
		return
	}
	h.suspended = unchecked
	f.entered = append(f.entered, h.name)
	signal(f.arrived)
}

// giveUp drops the pending URLs of a host and returns their number. Unless until is zero, new ones are dropped too before that time.
func (f *Frontier) giveUp(ctx context.Context, name, reason string, until time.Time) (n int, err error) {
	err = f.ledger.onHost(ctx, alone, name, func(b *batch, h *hostEntry) (err error) {
		n, err = f.ledger.decideDrop(b, h, reason, until)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop %s: %w", name, err)
	}
	f.deps.Event(Event{Kind: HostDropped, Host: name, Reason: reason, URLs: n})
	return n, nil
}

// waiter is a caller that waits until the frontier hands something out. The frontier's lock guards it.
type waiter struct {
	serve  func(now time.Time) bool // hands it out, if it can
	served chan struct{}            // closed then
	gone   bool                     // the caller has stopped waiting
}

// serve serves waiters in order. It returns false if one still waits.
func serve(waiters *fifo[*waiter], now time.Time) bool {
	for len(*waiters) > 0 {
		if w := (*waiters)[0]; !w.gone && !w.serve(now) {
			return false
		}
		waiters.pop()
	}
	return true
}

// wait waits in a queue until next, called with mu held, returns something or an error.
func wait[T any](ctx context.Context, f *Frontier, queue *fifo[*waiter], next func(now time.Time) (*T, error)) (got *T, err error) {
	w := &waiter{served: make(chan struct{})}
	w.serve = func(now time.Time) bool {
		if got, err = next(now); got == nil && err == nil {
			return false
		}
		close(w.served)
		return true
	}
	f.update(func(time.Time) { queue.push(w) })
	_, ended := await(ctx, f, w.served)
	if ended == nil {
		return got, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-w.served: // before the lock was taken
		return got, err
	default:
		w.gone = true
		return nil, ended
	}
}

// await receives from a channel. It fails when the context or the frontier ends.
func await[T any](ctx context.Context, f *Frontier, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-f.ledger.closed:
	case <-ctx.Done():
	}
	return v, cmp.Or(ctx.Err(), ErrClosed)
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
		if _, err := await(ctx, f, signalled); err != nil {
			return nil, err
		}
	}
}

// signal wakes the goroutine that receives from a channel. The channel holds one signal, and a second one before that adds nothing.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
