package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/frontier"
)

// Placement chooses nodes for the hosts of a home, and moves later what turns out to be better elsewhere. All methods are safe
// for concurrent use; Run is called once.
type Placement struct {
	cfg  Config
	deps Deps
	walk walk
	made int // batches, to name them
	// wake is told of every view.
	wake  chan struct{}
	later later

	// mu guards what follows.
	mu     sync.Mutex
	view   assign.View
	views  int    // how many there were
	paused string // why nothing may be assigned now
	status Status
	since  time.Time // when the phase began

	// reservedMu is held over the frontier's call: reservations arrive in the order in which they are counted.
	reservedMu sync.Mutex
	reserved   map[netip.Addr]int // how many have it
}

// New makes the room; Run starts it.
func New(cfg Config, deps Deps) (*Placement, error) {
	if err := errors.Join(cfg.Validate(), deps.Assign.Validate()); err != nil {
		return nil, fmt.Errorf("make placement: %w", err)
	}
	p := &Placement{cfg: cfg, deps: deps, walk: newWalk(), later: newLater(), wake: make(chan struct{}, 1), since: time.Now(),
		reserved: make(map[netip.Addr]int)}
	p.status.Mode, p.status.Phase = cfg.Mode, PhaseIdle
	return p, nil
}

// SetView tells who may be chosen, this node included, and why nothing may be assigned now ("" if it may). Members that are
// not in the view are never chosen any more.
func (p *Placement) SetView(v assign.View, paused string) {
	p.mu.Lock()
	p.view, p.paused = v, paused
	p.views++
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Placement) currentView() (assign.View, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view, p.views
}

func (p *Placement) alive(id string) bool {
	view, _ := p.currentView()
	return slices.ContainsFunc(view.Nodes, func(n assign.Node) bool { return n.ID == id })
}

// reserve keeps the tasks of a server for this room. A batch and an exploration may have the same one: it is free when both
// have let it go. Every call with true needs one with false.
func (p *Placement) reserve(addr netip.Addr, on bool) {
	p.reservedMu.Lock()
	defer p.reservedMu.Unlock()
	if on {
		p.reserved[addr]++
	} else if p.reserved[addr]--; p.reserved[addr] > 0 {
		return
	} else {
		delete(p.reserved, addr)
	}
	p.deps.Frontier.Reserve(addr, on)
}

// Busy says that a batch is under way: the crawl is not at its end.
func (p *Placement) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.Phase != PhaseIdle
}

// Status reports.
func (p *Placement) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.ForMs = time.Since(p.since).Milliseconds()
	return s
}

// count changes the counts of the status.
func (p *Placement) count(f func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.status)
}

func (p *Placement) phase(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Phase, p.since = name, time.Now()
}

// Run makes batches and looks at the servers that this node has until the context ends. Its errors are those of the frontier: nothing that servers and peers do is
// one. Where it ends in the middle of a batch, the hosts stay with the home.
func (p *Placement) Run(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { p.reconsider(ctx); return nil })
	g.Go(func() error { return p.batches(ctx) })
	return g.Wait()
}

// batches makes batch after batch.
func (p *Placement) batches(ctx context.Context) error {
	if p.cfg.Mode == ModeCrawl {
		p.count(func(s *Status) { s.Why = "mode crawl makes no batches" })
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(p.cfg.Check)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		more, err := p.check(ctx)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, frontier.ErrClosed) {
				return nil
			}
			return err
		}
		if !more {
			p.count(func(s *Status) { s.Why = "mode single has made its batch" })
			<-ctx.Done()
			return nil
		}
	}
}

// check looks for ready hosts and carries their batch out. More is false when there are to be no further batches.
func (p *Placement) check(ctx context.Context) (more bool, err error) {
	p.mu.Lock()
	why := p.paused
	if why == "" && len(p.view.Nodes) == 0 {
		why = "no member is known yet"
	}
	p.mu.Unlock()
	if why != "" {
		p.count(func(s *Status) { s.Why = why })
		return true, nil
	}
	hosts, err := p.gather(time.Now())
	p.count(func(s *Status) { s.Waiting, s.Resting = len(p.walk.noticed), len(p.walk.resting) })
	if err != nil {
		return true, err
	}
	if len(hosts) == 0 {
		p.count(func(s *Status) { s.Why = "no host is ready" })
		return true, nil
	}
	t := p.newBatch(hosts)
	defer func() {
		p.phase(PhaseIdle)
		p.count(func(s *Status) { s.Batch, s.Hosts, s.Servers = "", 0, 0 })
	}()
	assigned, err := t.run(ctx)
	return err != nil || p.cfg.Mode != ModeSingle || !assigned, err
}
