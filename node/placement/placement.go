// Package placement chooses nodes for hosts.
//
// # Batches
//
// A batch (batch.go) takes hosts of this home that are ready, and hands each to the node that the assigner chooses:
//
//	gather ─► resolve ─► lease ─► decide ─► compare ─► hand off
//	             │         │         ▲  │      (with more than one assigner)
//	             │         │         └──┴─ round ◄─┐
//	             │         │            └──────────┘ (mode persistent: rounds instead of a hand-off)
//	             ▼         ▼
//	    left out: its     joined: another node
//	    name does not     has the lease of its
//	    resolve           server
//
// From the lease to the hand-off the servers of a batch are reserved: their URLs are downloaded only by remote fetches, one at a
// time for each server (server.go), and spaced like any other request. Nothing here is on disk. A host that is not handed off
// stays with its home, and a batch that a crash ends is gathered anew. Package assign knows how to choose a node; decide.go makes
// the estimates that an assigner asks for.
//
// Servers whose hosts were assigned are reconsidered later (later.go). A server moves if another node is faster. A small share of
// its downloads is made by other nodes, so that a node that has recovered is noticed.
//
// # Remote fetches
//
// A remote fetch is one page that a node downloads for another. An estimate is a remote fetch whose timing shows how far a node
// is from a server. The asker repeats one call with the same number until it is answered or its time is over (remote.go). The
// other node carries it out and answers when the page is there (work.go):
//
//	asked ── queued ──► begun ──► ended: kept until nobody can ask for it any more
//	           └──── given back: it waited too long, the asker is gone, or the node stops
//
// A download that has begun ends before the asker stops waiting, and before the asker can lose the server. So it never overlaps
// with the next request to the server. The crawl loop makes the download, and finds what it must know in the Work. The
// frontier queues it.
package placement

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
)

// Placement chooses nodes for the hosts of a home, and moves servers later if another node is faster. It is safe for concurrent
// use. Run can be called once.
type Placement struct {
	cfg        Config
	deps       Deps
	walk       walk
	singleDone bool // mode single has made its batch
	neighbours
	subnets     map[string]assign.Assigner // by label: the ipmicra that decided last. The goroutine of the batches owns it
	betterSince map[netip.Addr]time.Time   // by server: since when another node has been the better one; reconsider owns it

	// mu guards the fields below. It is held while Frontier.Reserve is called, so that the frontier hears all calls in order.
	mu       sync.Mutex
	view     assign.View
	silent   map[string]time.Time // nodes that did not answer a remote fetch, and until when they are left out
	changed  chan struct{}        // closed by the next view
	paused   string               // why nothing may be assigned now, "" if it may
	status   Status
	since    time.Time            // when the phase began
	reserved map[netip.Addr]int   // how many batches and explorations have a server
	told     map[string]time.Time // by host: when it was last told to join the node with the lease of its server; later than now while it must not be told
	due      float64              // how many explorations should be made, by the downloads of this node
}

// New makes a Placement. It makes progress only while Run is running.
func New(cfg Config, deps Deps) *Placement {
	return &Placement{cfg: cfg, deps: deps, walk: newWalk(), neighbours: newNeighbours(), subnets: make(map[string]assign.Assigner), told: make(map[string]time.Time),
		changed: make(chan struct{}), silent: make(map[string]time.Time), since: time.Now(), reserved: make(map[netip.Addr]int),
		status: Status{Mode: cfg.Mode, Phase: PhaseIdle}}
}

// SetView sets the nodes that may be chosen, with this one among them, and why nothing may be assigned now ("" if it may). Nodes
// that are not in the view are not chosen any more.
func (p *Placement) SetView(v assign.View, paused string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.view, p.paused = v, paused
	if paused != "" {
		clear(p.silent) // it may be this node that was cut off
	}
	p.changedLocked()
}

// changedLocked tells those who wait for another view.
func (p *Placement) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// silentFor is how long a node that did not answer a remote fetch is left out. Each one it does not answer costs its batch a minute
// (RemoteWait), as a node may count as alive and answer nothing.
const silentFor = 5 * time.Minute

// leaveOut leaves a node out for some time.
func (p *Placement) leaveOut(node string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent[node] = time.Now().Add(silentFor)
	p.changedLocked()
}

// currentView returns the view without the nodes that are left out, and a channel that is closed when there is another.
func (p *Placement) currentView() (assign.View, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.silent, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	v := p.view
	if len(p.silent) > 0 {
		v.Nodes = slices.DeleteFunc(slices.Clone(v.Nodes), func(n assign.Node) bool { return !p.silent[n.ID].IsZero() })
	}
	return v, p.changed
}

// alive reports whether a node may be chosen and asked now: it is in the view, and was not left out.
func (p *Placement) alive(id string) bool {
	view, _ := p.currentView()
	return slices.ContainsFunc(view.Nodes, func(n assign.Node) bool { return n.ID == id })
}

// reserve keeps the tasks of a server for placement, or lets them go. A batch and an exploration may both have reserved a server;
// it is free when both have let it go.
func (p *Placement) reserve(addr netip.Addr, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.reserved[addr]++
	} else if p.reserved[addr]--; p.reserved[addr] > 0 {
		return
	} else {
		delete(p.reserved, addr)
	}
	p.deps.Frontier.Reserve(addr, on)
}

// Busy reports whether a batch is under way. The crawl must not end then.
func (p *Placement) Busy() bool { return p.Status().Phase != PhaseIdle }

// Status returns the present status.
func (p *Placement) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.ForMs = time.Since(p.since).Milliseconds()
	return s
}

// updateStatus changes the status.
func (p *Placement) updateStatus(f func(*Status)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.status)
}

// phase notes that the batch enters a phase.
func (p *Placement) phase(name string) {
	p.updateStatus(func(s *Status) { s.Phase, p.since = name, time.Now() })
}

// Run makes batches and reconsiders servers until the context ends. It returns only errors of the frontier, none of servers or
// peers. If it ends during a batch, the hosts stay with the home.
func (p *Placement) Run(ctx context.Context) error {
	g, running := errgroup.WithContext(ctx)
	every := func(interval time.Duration, do func(context.Context) error) error {
		return bell.Loop(running, nil, interval, func(bool) error { return do(running) })
	}
	g.Go(func() error { return every(lookEvery, p.reconsider) })
	if p.cfg.moves() {
		g.Go(func() error { return every(lookEvery, p.explore) }) // it may take minutes
	}
	if p.cfg.Mode == ModeCrawl {
		p.updateStatus(func(s *Status) { s.Why = "mode crawl makes no batches" })
	} else {
		g.Go(func() error { return every(p.cfg.Check, p.check) })
	}
	err := g.Wait()
	if ctx.Err() != nil || errors.Is(err, frontier.ErrClosed) || errors.Is(err, frontier.ErrDiskFull) {
		return nil // a full disk makes callers wait until the node stops
	}
	return err
}

// check looks for ready hosts, and carries out a batch of them.
func (p *Placement) check(ctx context.Context) error {
	if p.singleDone {
		return nil
	}
	p.mu.Lock()
	why := p.paused
	if why == "" && len(p.view.Nodes) == 0 {
		why = "no member is known yet"
	}
	p.mu.Unlock()
	var hosts []*host
	if why == "" {
		var err error
		if hosts, err = p.gather(time.Now(), nil); err != nil {
			return err
		}
		why = "no host is ready"
	}
	p.updateStatus(func(s *Status) { s.Why, s.Waiting, s.Resting = why, len(p.walk.noticed), len(p.walk.resting) })
	if len(hosts) == 0 {
		return nil
	}
	assigned, err := p.newBatch(hosts).run(ctx)
	p.phase(PhaseIdle)
	p.updateStatus(func(s *Status) { s.Batch, s.Hosts, s.Servers = "", 0, 0 })
	if p.singleDone = err == nil && assigned && p.cfg.Mode == ModeSingle; p.singleDone {
		p.updateStatus(func(s *Status) { s.Why = "mode single has made its batch" })
	}
	return err
}
