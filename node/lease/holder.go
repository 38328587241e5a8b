package lease

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
)

// Holder gets leases for what the frontier wants, renews them and gives them back. Its methods are safe for concurrent
// use.
type Holder struct {
	cfg  Config
	deps HolderDeps
	pace *pace
	kick chan struct{} // something is to be asked now
	done chan struct{} // Run has ended

	// mu is held while the frontier is called, so that it hears of leases in order, and while what a life of a peer asks for is
	// taken.
	mu      sync.Mutex
	book    *leases
	view    view.View
	members *members
	busy    map[string]bool // grantors that a call is under way to
	look    bool            // the next step looks at the frontier
	lookAt  time.Time       // when a step does in any case
	moved   []movement      // what Moved has to be told
	lives   lives

	// rightsMu is held for no call: MayAsk waits for nothing.
	rightsMu sync.RWMutex
	rights   map[netip.Addr]Right
}

type movement struct {
	addr   netip.Addr
	memory assign.Memory
}

// NewHolder makes a Holder; it acts once it has a view (SetView) and runs (Run).
func NewHolder(cfg Config, deps HolderDeps) *Holder {
	h := &Holder{cfg: cfg, deps: deps, pace: newPace(deps.Frontier.SetSpacing), kick: make(chan struct{}, 1), done: make(chan struct{}),
		busy: map[string]bool{}, rights: map[netip.Addr]Right{}, members: newMembers(cfg.Window()), lives: lives{}}
	h.book = &leases{cfg: &h.cfg, rnd: rand.New(rand.NewPCG(deps.Seed, deps.Seed>>32)), grant: h.grant, halt: h.halt, all: map[netip.Addr]*lease{},
		grantor: func(addr netip.Addr) string { return h.view.Grantor(addr) }}
	deps.Clock.OnGap(h.stopped)
	return h
}

// stopped has leases renewed, or ended: this node was stopped, and does not know what became of them.
func (h *Holder) stopped() {
	h.mu.Lock()
	h.book.stopped(h.deps.Clock.now())
	h.mu.Unlock()
	signal(h.kick)
}

// MayAsk says why this node must not write a request to a server now. It is to be asked just before the first byte.
func (h *Holder) MayAsk(addr netip.Addr) error {
	if err := h.deps.Clock.Check(h.right(addr)); err != nil {
		return fmt.Errorf("ask server %v: %w", addr, err)
	}
	return nil
}

// right is the right to ask a server; none where it is not held.
func (h *Holder) right(addr netip.Addr) Right {
	h.rightsMu.RLock()
	defer h.rightsMu.RUnlock()
	return h.rights[addr]
}

// SetView tells who is settled.
func (h *Holder) SetView(v view.View) {
	h.mu.Lock()
	h.view = v
	h.members.set(v, time.Now())
	h.book.setView(time.Now())
	h.mu.Unlock()
	signal(h.kick)
}

// Hold gets the lease on a server and keeps it, whether the frontier wants it or not, until Give. It blocks until the
// lease is here; a server that another node holds is a *HeldError, and so is one whose lease is lost that way later:
// OnHeld is told. Holds of one server are not counted: the first Give ends them. The memory is a copy, nil if nothing
// is known.
func (h *Holder) Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.book.leaving {
		return nil, fmt.Errorf("hold server %v: %w", addr, ErrStopped)
	}
	now := time.Now()
	l := h.book.get(addr)
	l.hold = true
	h.book.revive(addr, l, now)
	if l.live(now) && !l.withdrawn {
		return l.copy(), nil
	}
	heard := make(chan error, 1)
	l.waiters = append(l.waiters, heard)
	if l.none() {
		l.next = now // whoever had it when it was asked for last
	}
	h.mu.Unlock()
	signal(h.kick)
	var err error
	select {
	case err = <-heard:
	case <-ctx.Done():
		err = ctx.Err()
	case <-h.done:
		err = ErrStopped
	}
	h.mu.Lock()
	if err == nil {
		return l.copy(), nil
	}
	l.waiters = slices.DeleteFunc(l.waiters, func(w chan error) bool { return w == heard })
	l.hold = l.hold && len(l.waiters) > 0
	return nil, fmt.Errorf("hold server %v: %w", addr, err)
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
func (h *Holder) Give(addr netip.Addr, successor string, m *assign.Memory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	l := h.book.all[addr]
	if l == nil {
		return
	}
	l.hold = false
	if m != nil {
		c := m.Clone()
		l.memory, l.changed = &c, now
	}
	if successor == h.view.Self || !l.live(now) {
		return
	}
	l.successor = successor
	if !l.withdrawn {
		h.book.withdraw(addr, l, now)
	}
	h.look = true
	signal(h.kick)
}

// Observed applies a download, by any node, to the memory of a server that this node holds.
func (h *Holder) Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.book.all[addr]
	if l == nil {
		return
	}
	now := time.Now()
	if l.memory == nil {
		l.memory = &assign.Memory{}
	}
	l.memory.Observe(node, coord, t, now)
	l.changed = now
	h.pace.observe(addr, l.memory.Slowed())
}

// Memory is a copy of what is known of a server that this node holds.
func (h *Holder) Memory(addr netip.Addr) (*assign.Memory, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.book.all[addr]
	if l == nil || l.memory == nil || !l.live(time.Now()) {
		return nil, false
	}
	return l.copy(), true
}

// Until says until when no other node is granted a server, even if this one is not heard any more: the end of its lease, and the
// time by which its grantor waits longer. Of a server that this node does not hold it is a time that is past.
func (h *Holder) Until(addr netip.Addr) time.Time {
	r := h.right(addr)
	if h.deps.Clock.Check(r) != nil {
		return time.Time{}
	}
	return r.until.mono.Add(h.cfg.Skew)
}

// Held are the servers that this node holds now, in no order.
func (h *Holder) Held() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Collect(maps.Keys(h.book.all)), func(addr netip.Addr) bool {
		l := h.book.all[addr]
		return !l.live(now) || l.withdrawn
	})
}

// Why says why this node has no lease on a server, for people; "" if it has, or wants none.
func (h *Holder) Why(addr netip.Addr) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.book.all[addr]
	switch {
	case l == nil || l.live(time.Now()) && !l.withdrawn && !l.unsure:
		return ""
	case l.withdrawn:
		return "its lease is being given back"
	case l.why == "":
		return "its grantor has not answered yet"
	}
	return l.why
}

// Status counts.
func (h *Holder) Status() HolderStatus {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.book.counts
	s.Spared = len(h.pace.spared)
	for _, l := range h.book.all {
		switch {
		case l.live(now):
			s.Held++
		case l.needed():
			s.Waiting++
		}
	}
	return s
}
