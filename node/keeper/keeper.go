package keeper

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"proxima/assign"
	"proxima/ncoord"
)

// Keeper lends and borrows servers. Its methods are safe for concurrent use.
type Keeper struct {
	cfg      Config
	deps     Deps
	memories memories
	pace     *pace
	kick     chan struct{} // something is to be asked now
	done     chan struct{} // Run has ended

	lenderMu sync.Mutex
	lender   *lender
	pruned   time.Time

	// mu is held while the frontier is called, so that it hears of leases in order.
	mu          sync.Mutex
	holder      *holder
	view        View
	busy        map[string]bool // keepers that a call is under way to
	look        bool            // the next step looks at the frontier
	moved       []movement      // what Moved has to be told
	unreachable uint64

	// wantedMu is held for no call: the frontier takes it with its own locks held.
	wantedMu sync.Mutex
	wanted   map[netip.Addr]struct{}
}

type movement struct {
	addr   netip.Addr
	memory assign.Memory
}

// New makes a Keeper; it acts once it has a view (SetView) and runs (Run).
func New(cfg Config, deps Deps) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Peers == nil || deps.Frontier == nil || deps.Shelf == nil {
		return nil, errors.New("make keeper: peers, frontier or shelf is missing")
	}
	k := &Keeper{cfg: cfg, deps: deps, memories: memories{shelf: deps.Shelf}, pace: newPace(cfg.Pace),
		kick: make(chan struct{}, 1), done: make(chan struct{}),
		busy: map[string]bool{}, wanted: map[netip.Addr]struct{}{}}
	k.lender = newLender(&k.cfg, deps.Boot)
	k.holder = newHolder(&k.cfg, rand.New(rand.NewPCG(deps.Seed, deps.Boot)), func(addr netip.Addr) string {
		return assign.Rendezvous(addr.String(), k.view.Settled)
	})
	return k, nil
}

// SetView tells who is settled. A view older than the current one is ignored.
func (k *Keeper) SetView(v View) {
	now := time.Now()
	k.lenderMu.Lock()
	if last := k.lender.history.current(); last != nil && v.Version < last.Version {
		k.lenderMu.Unlock()
		return
	}
	k.lender.setView(v, now)
	k.lenderMu.Unlock()

	k.mu.Lock()
	if v.Version >= k.view.Version {
		k.view = v
		k.view.Settled = slices.Clone(v.Settled)
		k.holder.setView(now)
	}
	k.mu.Unlock()
	k.wake()
}

// Wanted tells that the frontier wants a server without a lease. It does not block, and takes no lock that is held
// while the frontier is called.
func (k *Keeper) Wanted(addr netip.Addr) {
	k.wantedMu.Lock()
	k.wanted[addr] = struct{}{}
	k.wantedMu.Unlock()
	k.wake()
}

// Slowed is the factor (1 or more) by which the spacing of requests to a server grows because it is overloaded. Like
// Wanted it can be called from within the frontier.
func (k *Keeper) Slowed(addr netip.Addr) float64 { return k.pace.factor(addr) }

// Hold gets the lease on a server and keeps it, whether the frontier wants it or not, until Give. It blocks until the
// lease is here; a server that another node holds is a *HeldError, and so is one whose lease is lost that way later:
// OnHeld is told. Holds of one server are not counted: the first Give ends them. The memory is a copy, nil if nothing
// is known.
func (k *Keeper) Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error) {
	heard := make(chan error, 1)
	k.mu.Lock()
	if k.holder.leaving {
		k.mu.Unlock()
		return nil, fmt.Errorf("hold server %v: %w", addr, ErrStopped)
	}
	now := time.Now()
	l := k.holder.get(addr)
	l.hold = true
	k.holder.revive(addr, l, now)
	k.lendAll()
	if l.live(now) && !l.withdrawn {
		defer k.mu.Unlock()
		return l.copy(), nil
	}
	l.waiters = append(l.waiters, heard)
	if l.until.IsZero() {
		l.next = now // whoever had it when it was asked for last
	}
	k.mu.Unlock()
	k.wake()
	var err error
	select {
	case err = <-heard:
	case <-ctx.Done():
		err = ctx.Err()
	case <-k.done:
		err = ErrStopped
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		l.waiters = slices.DeleteFunc(l.waiters, func(w chan error) bool { return w == heard })
		if len(l.waiters) == 0 {
			l.hold = false
		}
		return nil, fmt.Errorf("hold server %v: %w", addr, err)
	}
	return l.copy(), nil
}

// copy is a copy of the memory, nil if nothing is known.
func (l *lease) copy() *assign.Memory {
	if l.memory == nil {
		return nil
	}
	c := l.memory.Clone()
	return &c
}

// Give ends a Hold: the server is released to the successor, the only node that may have it within the next lease time,
// with what was learnt, which replaces what was known (nil: nothing new). With this node as the successor it stays here
// while the frontier wants it; with "" anyone may have it. A server that this node does not hold is left alone.
func (k *Keeper) Give(addr netip.Addr, successor string, m *assign.Memory) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	l := k.holder.leases[addr]
	if l == nil {
		return
	}
	l.hold = false
	if m != nil {
		c := m.Clone()
		l.memory, l.changed = &c, now
	}
	if successor == k.view.Self || !l.live(now) {
		return
	}
	l.successor = successor
	if !l.withdrawn {
		k.holder.withdraw(addr, l, now)
		k.lendAll()
	}
	k.look = true
	k.wake()
}

// Observed applies a download, by any node, to the memory of a server that this node holds.
func (k *Keeper) Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.holder.leases[addr]
	if l == nil {
		return
	}
	now := time.Now()
	if l.memory == nil {
		l.memory = &assign.Memory{}
	}
	l.memory.Observe(node, coord, t, now)
	l.changed = now
	k.pace.observe(addr, l.memory.Slowed())
}

// Memory is a copy of what is known of a server that this node holds.
func (k *Keeper) Memory(addr netip.Addr) (*assign.Memory, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.holder.leases[addr]
	if l == nil || l.memory == nil || !l.live(time.Now()) {
		return nil, false
	}
	return l.copy(), true
}

// Lent says until when no other node is lent a server, even if this one is not heard any more: the end of its lease, and the
// time by which its keeper waits longer. Of a server that this node does not hold it is a time that is past.
func (k *Keeper) Lent(addr netip.Addr) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.holder.leases[addr]
	if l == nil || l.withdrawn || !l.live(time.Now()) {
		return time.Time{}
	}
	return l.until.Add(k.cfg.Skew)
}

// Held are the servers that this node holds now, in no order.
func (k *Keeper) Held() []netip.Addr {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Collect(maps.Keys(k.holder.leases)), func(addr netip.Addr) bool {
		l := k.holder.leases[addr]
		return !l.live(now) || l.withdrawn
	})
}

// Why says why a server is not lent to this node, for people; "" if it is, or is not wanted.
func (k *Keeper) Why(addr netip.Addr) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	l := k.holder.leases[addr]
	switch {
	case l == nil || l.live(time.Now()) && !l.withdrawn:
		return ""
	case l.withdrawn:
		return "its lease is being given back"
	case l.why == "":
		return "its keeper has not answered yet"
	}
	return l.why
}

// Status counts.
func (k *Keeper) Status() Status {
	now := time.Now()
	k.lenderMu.Lock()
	c := k.lender.counts
	s := Status{Blind: k.lender.history.start(now).Milliseconds(), Lent: k.lender.lent(now), Given: c.given, Refused: c.refused, Elsewhere: c.elsewhere, Later: c.later,
		Bad: c.bad, Stale: c.stale}
	k.lenderMu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.holder.leases {
		switch {
		case l.live(now):
			s.Held++
		case l.needed():
			s.Waiting++
		}
	}
	s.Lapsed, s.Released = k.holder.counts.lapsed, k.holder.counts.released
	s.Unreachable, s.Spared = k.unreachable, k.pace.count()
	return s
}
