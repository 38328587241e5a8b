package ownership

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/lease"
	"proxima/node/netsim"
	"proxima/node/peer"
)

// life is one life of a node, from its start to its end.
type life struct {
	*actor
	disk    *disk
	owner   *Ownership
	outbox  *peer.Outbox
	clock   *lease.Clock
	grantor *lease.Grantor
	holder  *lease.Holder
	boot    uint64
	feed    chan netip.Addr // servers that are wanted
	visits  sync.WaitGroup  // requests that are out

	// The lock of the world guards the fields below.
	dead     bool // it was killed, and sends nothing any more
	messages uint64
	members  string        // those of the view in which the outbox was last told to try again
	frozen   chan struct{} // closed when the process runs again; nil while it runs
	since    time.Time     // when it was frozen
	jumped   time.Duration // how far the wall clock was set
	stalled  chan struct{} // closed when the disk answers again; nil while it does
	servers  map[netip.Addr]*server
}

// start begins a life of a node.
func (a *actor) start() {
	w := a.w
	a.boot++
	l := &life{actor: a, disk: a.disk, boot: a.boot, feed: make(chan netip.Addr, 100), servers: map[netip.Addr]*server{}}
	l.clock = lease.NewClock(l.jump)
	a.disk.gate = func() { l.gate(); l.stall() }
	l.outbox = l.newOutbox()
	l.owner = New(w.cfg, Deps{Frontier: l.disk, Peers: l.calls(), Outbox: l.outbox, Records: l.disk,
		Admit: func(frontier.Link) string { return "" },
		Event: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
		Warn: func(error) {},
	})
	l.grantor = lease.NewGrantor(w.leases, lease.GrantorDeps{Clock: l.clock, Boot: l.boot, Rights: l.Rights, Shelf: new(netsim.Shelf)})
	l.holder = lease.NewHolder(w.leases, lease.HolderDeps{Clock: l.clock, Boot: l.boot, Lease: l.Lease, Frontier: leased{l},
		Remote: func() []lease.Remote { return nil }, Moved: func(netip.Addr, *assign.Memory) {},
		OnHeld: l.heldBy, Seed: uint64(w.draw(1 << 40))})
	l.clock.OnGap(l.owner.Stopped)
	ctx, cancel := context.WithCancel(w.ctx)
	over := make(chan struct{})
	w.mu.Lock()
	a.owner, a.now, a.stop, a.over, a.left = l.owner, l, cancel, over, false
	a.sit(time.Now())
	w.mu.Unlock()
	w.see(a)
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{l.owner.Run, l.clock.Run, l.grantor.Run, l.holder.Run, l.crawl, l.outbox.Run} {
		all.Go(func() {
			if err := part(ctx); err != nil && !errors.Is(err, frontier.ErrClosed) {
				w.t.Errorf("node %d: %v", a.at, err)
			}
		})
	}
	go func() { all.Wait(); l.visits.Wait(); close(over) }()
}

// kill ends a life at once. After a power cut the disk is as it was last synced.
func (a *actor) kill(powerCut bool) {
	if !a.running() {
		return
	}
	a.w.mu.Lock()
	a.now.dead = true
	a.w.mu.Unlock()
	a.disk = a.disk.next(powerCut)
	a.end()
}

// end stops what runs, and waits for it.
func (a *actor) end() {
	a.stop()
	a.thaw()
	a.w.mu.Lock()
	a.now.unhangLocked()
	a.w.mu.Unlock()
	<-a.over
	a.w.mu.Lock()
	a.now.dead, a.stop, a.down = true, nil, time.Now()
	a.w.mu.Unlock()
}

// gate waits while the process is frozen. A node passes it before everything that it does outside its own memory.
func (l *life) gate() {
	for {
		l.w.mu.Lock()
		frozen := l.frozen
		l.w.mu.Unlock()
		if frozen == nil {
			return
		}
		<-frozen
	}
}

// jump returns how far the wall clock was set. A lease.Clock calls it at each look, so a frozen node waits here.
func (l *life) jump() time.Duration {
	l.gate()
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.jumped
}

// freeze stops the process until thaw. Messages to it wait.
func (a *actor) freeze() {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.stop != nil && a.now.frozen == nil {
		a.now.frozen, a.now.since = make(chan struct{}), time.Now()
	}
}

func (a *actor) thaw() {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if a.now == nil || a.now.frozen == nil {
		return
	}
	close(a.now.frozen)
	a.slept(time.Since(a.now.since))
	a.now.frozen = nil
}

// setClock moves the wall clock.
func (a *actor) setClock(by time.Duration) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.now.jumped += by
}

// stall waits while the disk does not answer.
func (l *life) stall() {
	for {
		l.w.mu.Lock()
		stalled := l.stalled
		l.w.mu.Unlock()
		if stalled == nil {
			return
		}
		<-stalled
	}
}

// hang has the disk of a node answer nothing for some time.
func (a *actor) hang(d time.Duration) {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	l := a.now
	if a.stop == nil || l.stalled != nil {
		return
	}
	stalled := make(chan struct{})
	l.stalled = stalled
	time.AfterFunc(d, func() {
		a.w.mu.Lock()
		defer a.w.mu.Unlock()
		if l.stalled == stalled {
			l.unhangLocked()
		}
	})
}

// unhangLocked has the disk answer. The lock of the world is held.
func (l *life) unhangLocked() {
	if l.stalled != nil {
		close(l.stalled)
		l.stalled = nil
	}
}

func (l *life) isDead() bool {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	return l.dead
}
