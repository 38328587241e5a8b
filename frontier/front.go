package frontier

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// front is what the parts of the frontier have in common: the ledger, the workbench with its lock, and who waits for something of it.
type front struct {
	cfg    Config
	deps   Deps
	store  *store
	ledger *ledger

	quiet   chan struct{} // nobody is at work
	kick    chan struct{} // the clock has to be set, or the ends of leases told
	wanted  chan struct{} // a server wants a lease
	hungry  chan struct{} // fetchers starve
	dry     chan struct{} // a window runs low
	arrived chan struct{} // a host has come in that is not checked

	// mu guards what follows, and what the parts say that it guards. It is never held across I/O.
	mu        sync.Mutex
	bench     *workbench
	waiters   fifo[*waiter[*Task]]
	craving   bool        // a fetcher got a remote fetch where no host was ready
	supply    func() bool // says whether hosts on disk may come in; set once
	resolvers fifo[*waiter[*host]]
	takers    []*taker
	clockAt   time.Time         // when the clock wakes next
	ending    int               // calls whose changes the bench knows and the disk does not yet
	full      string            // why nothing is taken for want of room on the disk, "" when something is
	held      map[string]string // why Hold wants nothing to be taken, by who said so
	outage    outage
	entered   []string // hosts that came onto the bench and are not checked yet
}

func newFront(cfg Config, deps Deps, s *store, bench *workbench) *front {
	wake := func() chan struct{} { return make(chan struct{}, 1) }
	return &front{cfg: cfg, deps: deps, store: s, bench: bench, held: make(map[string]string),
		quiet: wake(), kick: wake(), wanted: wake(), hungry: wake(), dry: wake(), arrived: wake()}
}

// take needs mu held.
func (f *front) take(now time.Time) *Task {
	if f.full != "" || len(f.held) > 0 || f.outage.keepsTasks(now) {
		return nil
	}
	task := f.bench.take(now)
	if f.bench.recrawl.wanted {
		f.starveLocked()
	}
	if task != nil {
		task.try = f.outage.try(true, now)
	}
	if task != nil && task.remote && !f.bench.anyReady(now) {
		// Whoever works for others only, because no host here is ready, starves as well.
		f.craving = true
		f.starveLocked()
	}
	return task
}

// dispatch serves those who wait, after anything that may have made a task ready. It needs mu held.
func (f *front) dispatch(now time.Time) {
	for f.waiters.len() > 0 {
		w := *f.waiters.peek()
		if !w.gone {
			t := f.take(now)
			if t == nil {
				f.starveLocked()
				break
			}
			w.answer <- t
		}
		f.waiters.pop()
	}
	for f.resolvers.len() > 0 {
		r := *f.resolvers.peek()
		if !r.gone {
			h := f.nextUnresolved(now)
			if h == nil {
				break
			}
			r.answer <- h
		}
		f.resolvers.pop()
	}
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

// serveTakers answers those takers for whom there is a task or an error. It needs mu held.
func (f *front) serveTakers(now time.Time) {
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

// runClock dispatches what time alone makes ready.
func (f *front) runClock(stop <-chan struct{}) error {
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
		case <-f.kick: // dispatch meant this goroutine, which looks at clockAt anyway
		default:
		}
		if f.clockAt.IsZero() {
			timer.Reset(time.Hour)
		} else {
			// Timers stand still while the machine sleeps, the hours of sites do not.
			timer.Reset(min(f.clockAt.Sub(now), time.Minute))
		}
		f.mu.Unlock()
		f.tell()
	}
}

// tell calls those who are to be told of leases. It is called without locks, from one goroutine.
func (f *front) tell() {
	f.mu.Lock()
	expired := f.bench.expired
	f.bench.expired = nil
	f.mu.Unlock()
	for _, l := range expired {
		l.fire()
	}
}

func (f *front) giveUp(ctx context.Context, name, reason string, until time.Time) (int, error) {
	n := 0
	err := f.ledger.change(ctx, true, func(b *batch) error {
		h, err := f.ledger.entry(b, name)
		if err == nil {
			n, err = f.ledger.decideDrop(b, h, reason, until)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("drop %s: %w", name, err)
	}
	f.deps.Event(Event{Kind: HostDropped, Host: name, Reason: reason, URLs: n})
	return n, nil
}

// written ends a call that counted itself in ending: until then the frontier is not idle, though no task is out.
func (f *front) written() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending--; f.ending == 0 {
		signal(f.quiet)
	}
}

// nextUnresolved is the next host to look up, if one may be. It needs mu held.
func (f *front) nextUnresolved(now time.Time) *host {
	if f.outage.keepsNames(now) {
		return nil
	}
	h := f.bench.nextUnresolved(now)
	if h != nil {
		f.outage.try(false, now)
	}
	return h
}

// pausedLocked says why nothing is taken, "" where something may be. It needs mu held.
func (f *front) pausedLocked() string {
	switch {
	case f.full != "":
		return f.full
	case len(f.held) > 0:
		return f.held[slices.Min(slices.Collect(maps.Keys(f.held)))]
	case f.outage.why != "" && (f.outage.blind(time.Now()) || f.bench.inFlight == 0):
		return f.outage.why + "; waiting"
	}
	return ""
}

// tried ends a try that said nothing.
func (o *outage) tried(was bool) { o.trying = o.trying && !was }

// checkInLocked lets a host wait until Suspend says that it may be crawled. It needs mu held.
func (f *front) checkInLocked(h *host) {
	if !f.cfg.Shared {
		return
	}
	h.suspended = unchecked
	f.entered = append(f.entered, h.name)
	signal(f.arrived)
}

// starveLocked asks for hosts from the disk, where there may be any. It needs mu held.
func (f *front) starveLocked() {
	if f.supply() {
		signal(f.hungry)
	}
}

// signal wakes a goroutine that looks at shared state; one waiting signal is as good as many.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
