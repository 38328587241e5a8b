package batch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"proxima/assign"
	"proxima/frontier"
)

// Batches makes the batches of a home. All methods are safe for concurrent use; Run is called once.
type Batches struct {
	cfg  Config
	deps Deps
	walk walk
	made int // batches, to name them
	// wake is told of every view.
	wake chan struct{}

	// mu guards what follows.
	mu     sync.Mutex
	view   assign.View
	views  int // how many there were
	status Status
	since  time.Time // when the phase began
}

// New makes the room; Run starts it.
func New(cfg Config, deps Deps) (*Batches, error) {
	if err := errors.Join(cfg.Validate(), deps.Assign.Validate()); err != nil {
		return nil, fmt.Errorf("batches: %w", err)
	}
	if cfg.Mode == ModePersistent && deps.Own == nil {
		return nil, errors.New("batches: mode persistent needs to know which servers are one's own")
	}
	deps.fill()
	b := &Batches{cfg: cfg, deps: deps, walk: newWalk(), wake: make(chan struct{}, 1), since: time.Now()}
	b.status.Mode, b.status.Phase = cfg.Mode, PhaseIdle
	return b, nil
}

// fill replaces what may be nil.
func (d *Deps) fill() {
	if d.Paused == nil {
		d.Paused = func() string { return "" }
	}
	if d.Assigned == nil {
		d.Assigned = func(Decision) {}
	}
	if d.LeftOut == nil {
		d.LeftOut = func(string, string, int) {}
	}
	if d.Trickle == nil {
		d.Trickle = func(float64) {}
	}
	if d.OnLapse == nil {
		d.OnLapse = (*frontier.Task).OnExpire
	}
	if d.Trouble == nil {
		d.Trouble = func(error) {}
	}
}

// SetView tells who may be chosen, this node included. Members that are not in it are never chosen any more.
func (b *Batches) SetView(v assign.View) {
	b.mu.Lock()
	b.view = v
	b.views++
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *Batches) currentView() (assign.View, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view, b.views
}

// Busy says that a batch is under way: the crawl is not at its end.
func (b *Batches) Busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.status.Phase != PhaseIdle
}

// Status reports.
func (b *Batches) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.ForMs = time.Since(b.since).Milliseconds()
	return s
}

// count changes the counts of the status.
func (b *Batches) count(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
}

func (b *Batches) phase(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.status.Phase, b.since = name, time.Now()
}

// Run makes batches until the context ends. Its errors are those of the frontier: nothing that servers and peers do is
// one. Where it ends in the middle of a batch, the hosts stay with the home.
func (b *Batches) Run(ctx context.Context) error {
	if b.cfg.Mode == ModeCrawl {
		b.count(func(s *Status) { s.Why = "mode crawl makes no batches" })
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(b.cfg.Check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		more, err := b.check(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, frontier.ErrClosed) {
				return nil
			}
			return err
		}
		if !more {
			b.count(func(s *Status) { s.Why = "mode single has made its batch" })
			<-ctx.Done()
			return nil
		}
	}
}

// check looks for ready hosts and carries their batch out. More is false when there are to be no further batches.
func (b *Batches) check(ctx context.Context) (more bool, err error) {
	why := b.deps.Paused()
	if view, _ := b.currentView(); why == "" && len(view.Nodes) == 0 {
		why = "no member is known yet"
	}
	if why != "" {
		b.count(func(s *Status) { s.Why = why })
		return true, nil
	}
	hosts, err := b.gather(time.Now())
	b.count(func(s *Status) { s.Waiting, s.Resting = len(b.walk.noticed), len(b.walk.resting) })
	if err != nil {
		return true, err
	}
	if len(hosts) == 0 {
		b.count(func(s *Status) { s.Why = "no host is ready" })
		return true, nil
	}
	t := b.newBatch(hosts)
	defer func() {
		b.phase(PhaseIdle)
		b.count(func(s *Status) { s.Batch, s.Hosts, s.Servers = "", 0, 0 })
	}()
	assigned, err := t.run(ctx)
	return err != nil || b.cfg.Mode != ModeSingle || !assigned, err
}
