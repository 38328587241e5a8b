package lease

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
	"proxima/frontier"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// Server is the state of a server at the frontier.
type Server = frontier.ServerState

// Frontier is told what it may ask. It must not call the Holder from within these calls.
type Frontier interface {
	// Grant allows requests to a server until a time, the first one after wait. It replaces an earlier grant. A past time ends the
	// grant and cancels requests under way.
	Grant(addr netip.Addr, until time.Time, wait time.Duration)
	// Withdraw forbids new requests. Those under way may finish until the time of Grant.
	Withdraw(addr netip.Addr)
	// Wanted waits for servers that are wanted and not leased.
	Wanted(ctx context.Context) ([]netip.Addr, error)
	// SetSpacing sets the factor by which the spacing of requests to an overloaded server grows.
	SetSpacing(addr netip.Addr, factor float64)
	// Servers returns the servers that are wanted or leased.
	Servers() []Server
}

// Remote is a page that this node downloads, or will, under the lease of another node.
type Remote struct {
	Server netip.Addr
	Holder string // of the lease
	Until  time.Time
}

// HolderDeps are the dependencies of a Holder. The callbacks are called without locks, and must not block for long.
type HolderDeps struct {
	Clock    *Clock
	Boot     uint64 // the number of this life
	Frontier Frontier
	// Lease asks other nodes, and this node itself. It fills in the header, with an id that grows with each call.
	Lease peer.Call[wire.LeaseRequest, wire.LeaseResponse]
	// OnHeld hears that a wanted server is leased to, or reserved for, another node.
	OnHeld func(addr netip.Addr, holder string)
	// Remote returns the pages that this node downloads for others.
	Remote func() []Remote
	// Moved gets a copy of each memory that is sent to a grantor.
	Moved func(addr netip.Addr, m *assign.Memory)
	// Seed of the jitter.
	Seed uint64
}

// errStopped is returned when the Holder no longer runs.
var errStopped = errors.New("holder of leases stopped")

// HeldError is returned when another node holds the lease on a server.
type HeldError struct {
	Addr   netip.Addr
	Holder string
}

func (e *HeldError) Error() string { return fmt.Sprintf("server %v is leased to %s", e.Addr, e.Holder) }

// Holder gets leases for the servers that the frontier wants, renews them and gives them back. It is safe for concurrent use.
type Holder struct {
	cfg  Config
	deps HolderDeps
	pace *pace
	kick bell.Bell // wakes loop

	// mu guards the fields below. It is held during calls of the frontier, so that they are in order, and during FromLife.
	mu      sync.Mutex
	book    *leases
	view    view.View
	members *members
	busy    map[string]bool // grantors with a call under way
	lookAt  time.Time       // when a step must look at the frontier
	after   []func()        // calls of OnHeld and Moved that unlockAndTell makes
	lives   lives

	rights sync.Map // the Right of each server (netip.Addr) that may be asked; MayAsk must not wait for mu
}

// NewHolder makes a Holder. It needs a view (SetView) and Run.
func NewHolder(cfg Config, deps HolderDeps) *Holder {
	h := &Holder{cfg: cfg, deps: deps, pace: newPace(deps.Frontier.SetSpacing), kick: bell.New(),
		busy: map[string]bool{}, members: newMembers(cfg.Window()), lives: lives{}}
	h.book = &leases{cfg: &h.cfg, rnd: rand.New(rand.NewPCG(deps.Seed, deps.Seed>>32)), grant: h.grant, halt: h.halt,
		deny: func(e *HeldError) { h.after = append(h.after, func() { h.deps.OnHeld(e.Addr, e.Holder) }) },
		all:  map[netip.Addr]*lease{}, grantor: func(addr netip.Addr) string { return h.view.Grantor(addr) }}
	deps.Clock.OnGap(h.stopped)
	return h
}

// stopped has all leases renewed or ended after a gap.
func (h *Holder) stopped() {
	h.mu.Lock()
	h.book.stopped(h.deps.Clock.now())
	h.mu.Unlock()
	h.kick.Ring()
}

// MayAsk returns an error if this node must not send a request to a server now. Call it just before the first byte.
func (h *Holder) MayAsk(addr netip.Addr) error {
	if _, err := h.right(addr); err != nil {
		return fmt.Errorf("ask server %v: %w", addr, err)
	}
	return nil
}

// right returns the right to ask a server, or why there is none. It looks for a gap first, because a gap that has been dealt with has
// taken rights away.
func (h *Holder) right(addr netip.Addr) (Right, error) {
	if err := h.deps.Clock.Awake(); err != nil {
		return Right{}, err
	}
	r, _ := h.rights.Load(addr)
	right, _ := r.(Right)
	return right, h.deps.Clock.Check(right)
}

// SetView installs a new view.
func (h *Holder) SetView(v view.View) {
	h.mu.Lock()
	h.view = v
	h.members.set(v, time.Now())
	h.lives.prune(time.Now(), h.cfg.Window())
	h.book.setView(time.Now())
	h.mu.Unlock()
	h.kick.Ring()
}

// Hold gets the lease on a server and keeps it until Give, whether the frontier wants it or not. It blocks until the lease is here,
// and returns a *HeldError if another node holds the server. If another node gets it later, OnHeld is told. Holds of a server are
// not counted: the first Give ends them all. The returned memory is a copy, nil if nothing is known.
func (h *Holder) Hold(ctx context.Context, addr netip.Addr) (*assign.Memory, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.book.leaving {
		return nil, fmt.Errorf("hold server %v: %w", addr, errStopped)
	}
	now := time.Now()
	l := h.book.get(addr)
	l.hold = true
	h.book.revive(addr, l, now)
	if l.live(now) && !l.withdrawn {
		return l.memory.Copy(), nil
	}
	heard := make(chan error, 1)
	l.waiters = append(l.waiters, heard)
	if l.none() {
		l.next = now // even if it was refused just now
	}
	h.mu.Unlock()
	h.kick.Ring()
	var err error
	select {
	case err = <-heard:
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.mu.Lock()
	if err == nil {
		return l.memory.Copy(), nil
	}
	l.waiters = slices.DeleteFunc(l.waiters, func(w chan error) bool { return w == heard })
	l.hold = l.hold && len(l.waiters) > 0
	return nil, fmt.Errorf("hold server %v: %w", addr, err)
}

// Give ends a Hold and releases the server to the successor, the only node that may have it within the next lease time. If the
// successor is "" any node may have it; if it is this node, the lease stays while the frontier wants it. m replaces the memory of
// the server, unless it is nil. A server that this node does not hold is left alone.
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
		l.memory, l.changed = m.Copy(), now
	}
	if successor == h.view.Self || !l.live(now) {
		return
	}
	l.successor = successor
	if !l.withdrawn {
		h.book.withdraw(addr, l, now)
	}
	h.lookAt = now
	h.kick.Ring()
}

// Observed adds a download, by any node, to the memory of a server that this node holds.
func (h *Holder) Observed(addr netip.Addr, node string, coord ncoord.Coordinate, t assign.Timing) {
	h.learn(addr, func(m *assign.Memory, now time.Time) { m.Observe(node, coord, t, now) })
}

// Failed notes in the memory of a server that this node holds that another node could not reach it.
func (h *Holder) Failed(addr netip.Addr, node string) {
	h.learn(addr, func(m *assign.Memory, now time.Time) { m.Fail(node, now) })
}

func (h *Holder) learn(addr netip.Addr, what func(m *assign.Memory, now time.Time)) {
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
	what(l.memory, now)
	l.changed = now
	h.pace.observe(addr, l.memory.Slowed())
}

// Memory returns a copy of what is known of a server, false if this node does not hold it.
func (h *Holder) Memory(addr netip.Addr) (*assign.Memory, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.book.all[addr]
	if l == nil || l.memory == nil || !l.live(time.Now()) {
		return nil, false
	}
	return l.memory.Copy(), true
}

// Until returns until when no other node is granted a server, even if this node falls silent: the end of the lease plus the skew.
// It returns the zero time if this node does not hold the server.
func (h *Holder) Until(addr netip.Addr) time.Time {
	r, err := h.right(addr)
	if err != nil {
		return time.Time{}
	}
	return r.until.mono.Add(h.cfg.Skew)
}

// Held returns the servers that this node holds, in no order.
func (h *Holder) Held() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return slices.DeleteFunc(slices.Collect(maps.Keys(h.book.all)), func(addr netip.Addr) bool {
		l := h.book.all[addr]
		return !l.live(now) || l.withdrawn
	})
}

// Why tells people why this node has no lease on a server, "" if it has one or wants none.
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

// HolderStatus is the counts of a Holder.
type HolderStatus struct {
	Held        int    // leases held now
	Waiting     int    // servers wanted and not leased
	Expired     uint64 // leases that expired before they were renewed
	Released    uint64 // leases given back
	Unreachable uint64 // calls that failed
	Spared      int    // servers asked less often because they are overloaded
}

// Status joins the counts of a node's Grantor and Holder. Counters are totals since the start.
type Status struct {
	GrantorStatus
	HolderStatus
}

// Status returns the counts.
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
