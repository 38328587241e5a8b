package frontier

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// front is what the parts of the frontier share: the ledger, the workbench with its lock, and the callers that wait.
type front struct {
	cfg    Config
	deps   Deps
	store  *store
	ledger *ledger

	// Each channel wakes one goroutine and holds one signal.
	quiet   chan struct{} // no fetcher and no resolver is at work
	wanted  chan struct{} // a server needs a lease
	hungry  chan struct{} // fetchers starve
	dry     chan struct{} // a window runs low
	arrived chan struct{} // a host came onto the workbench that is not checked yet

	// mu guards what follows, and the fields of the parts that say so. It is never held across I/O. Functions whose names end in Locked
	// need it held.
	mu        sync.Mutex
	bench     *workbench
	waiters   fifo[*waiter[*Task]]
	craving   bool        // a fetcher got a remote fetch because no host was ready
	supply    func() bool // says whether hosts on disk may come in; does not change
	resolvers fifo[*waiter[*Unplaced]]
	takers    []*taker
	clock     *time.Timer       // tells when advance must be called
	ending    int               // calls whose changes are on the workbench but not on disk yet
	full      bool              // the disk is full, so that no task is taken
	tight     time.Time         // when there was last less room than the watermark
	held      map[string]string // reasons of Hold, by caller
	outage    outage
	suspicion suspicion
	entered   []string // hosts that came onto the workbench and are not checked yet
}

func newFront(cfg Config, deps Deps, s *store, bench *workbench) *front {
	wake := func() chan struct{} { return make(chan struct{}, 1) }
	return &front{cfg: cfg, deps: deps, store: s, bench: bench, held: make(map[string]string), clock: time.NewTimer(time.Minute),
		quiet: wake(), wanted: wake(), hungry: wake(), dry: wake(), arrived: wake()}
}

// stoppedLocked says that no task may be taken now, whatever is ready.
func (f *front) stoppedLocked(now time.Time) bool {
	return f.full || len(f.held) > 0 || f.outage.keepsTasks(now)
}

// takeLocked hands out the next task if the disk, holds and outages allow it.
func (f *front) takeLocked(now time.Time) *Task {
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
func (f *front) update(do func(now time.Time)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	do(now)
	f.dispatchLocked(now)
}

// dispatchLocked answers waiting callers and wakes the goroutines that have work. It is called after every change that may have made a task
// ready.
func (f *front) dispatchLocked(now time.Time) {
	if !serve(&f.waiters, func() *Task { return f.takeLocked(now) }) {
		f.starveLocked()
	}
	serve(&f.resolvers, func() *Unplaced { return f.nextUnresolvedLocked(now) })
	if len(f.bench.refills) > 0 {
		signal(f.dry)
	}
	if f.bench.recrawl.wanted {
		f.starveLocked()
	}
	f.serveTakersLocked(now)
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

// serve answers waiters in their order while next returns something for them. It returns false if one still waits.
func serve[T any](waiters *fifo[*waiter[*T]], next func() *T) bool {
	for len(*waiters) > 0 {
		if w := (*waiters)[0]; !w.gone {
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

// serveTakersLocked answers the takers for which there is a task or an error.
func (f *front) serveTakersLocked(now time.Time) {
	f.takers = slices.DeleteFunc(f.takers, func(t *taker) bool {
		if t.gone {
			return true
		}
		if f.stoppedLocked(now) { // the taker before this one may have got the only try
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

// nextUnresolvedLocked hands out the next host whose name must be resolved, if no outage prevents it.
func (f *front) nextUnresolvedLocked(now time.Time) *Unplaced {
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
func (f *front) advance() error {
	f.update(f.bench.advance)
	return nil
}

// written ends a call that has raised f.ending. Until then the frontier is not idle, although no task is out.
func (f *front) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending--; f.ending == 0 {
		signal(f.quiet)
	}
}

// starveLocked asks for hosts from disk if any may come in.
func (f *front) starveLocked() {
	if f.supply() {
		signal(f.hungry)
	}
}

// pausedLocked says why no task is taken, or returns "".
func (f *front) pausedLocked() string {
	switch {
	case f.store.calls.hung(time.Now()):
		return "the disk does not answer"
	case f.full:
		return fmt.Sprintf("disk full: %d MiB must be free", f.cfg.watermark()>>20)
	case len(f.held) > 0:
		return f.held[slices.Min(slices.Collect(maps.Keys(f.held)))]
	case f.outage.why != "" && (f.outage.blind(time.Now()) || f.bench.inFlight == 0):
		return f.outage.why + "; waiting"
	}
	return ""
}

// checkInLocked suspends a host that came in until Suspend allows it.
func (f *front) checkInLocked(h *host) {
	if !f.cfg.Shared {
		return
	}
	h.suspended = unchecked
	f.entered = append(f.entered, h.name)
	signal(f.arrived)
}

// giveUp drops the pending URLs of a host and returns their number. Unless until is zero, links that come before that time are refused.
func (f *front) giveUp(ctx context.Context, name, reason string, until time.Time) (n int, err error) {
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

// waiter is a caller that waits until the frontier hands something out.
type waiter[T any] struct {
	answer chan T
	gone   bool // it has stopped waiting; guarded by the frontier's lock
}

func newWaiter[T any]() *waiter[T] { return &waiter[T]{answer: make(chan T, 1)} }

// next waits in a queue until dispatchLocked hands something out.
func next[T any](ctx context.Context, f *front, queue *fifo[*waiter[T]]) (T, error) {
	w := newWaiter[T]()
	f.update(func(time.Time) { queue.push(w) })
	return w.wait(ctx, f)
}

// wait waits for the answer. What was handed out is never lost: if it comes while the wait ends, wait returns it.
func (w *waiter[T]) wait(ctx context.Context, f *front) (answer T, err error) {
	if answer, err = await(ctx, f, w.answer); err == nil {
		return answer, nil
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

// await receives from a channel. It fails when the context or the frontier ends.
func await[T any](ctx context.Context, f *front, c <-chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-f.ledger.closed:
	case <-ctx.Done():
	}
	return v, cmp.Or(ctx.Err(), ErrClosed)
}

// awaitSome waits for a signal until take, called with mu held, returns something.
func awaitSome[T any](ctx context.Context, f *front, signalled <-chan struct{}, take func() []T) ([]T, error) {
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
