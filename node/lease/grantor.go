package lease

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"proxima/assign"
	"proxima/node/wire"
)

// Grantor grants leases on the servers that this node is the grantor of, and keeps what is known of them. Its methods are
// safe for concurrent use.
type Grantor struct {
	cfg      Config
	deps     GrantorDeps
	memories memories
	kick     chan struct{} // somebody may wait for an inquiry

	// mu guards what follows.
	mu     sync.Mutex
	grants *grants
	pruned time.Time
	// inquiries counts those that ended well.
	inquiries uint64
}

// NewGrantor makes a Grantor; it grants once it has a view (SetView).
func NewGrantor(cfg Config, deps GrantorDeps) (*Grantor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Clock == nil || deps.Peers == nil || deps.Shelf == nil {
		return nil, errors.New("make grantor of leases: clock, peers or shelf is missing")
	}
	g := &Grantor{cfg: cfg, deps: deps, memories: memories{shelf: deps.Shelf}, kick: make(chan struct{}, 1)}
	g.grants = newGrants(&g.cfg, deps.Boot)
	deps.Clock.OnGap(g.forget)
	return g, nil
}

// forget has this node's knowledge of its grants begin anew: it was stopped, and others may have granted what it keeps.
func (g *Grantor) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants.history.begin(time.Now())
}

// SetView tells who is settled. A view older than the current one is ignored.
func (g *Grantor) SetView(v View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if last := g.grants.history.current(); last == nil || v.Version >= last.Version {
		g.grants.setView(v, time.Now())
		g.wake()
	}
}

// Status counts.
func (g *Grantor) Status() GrantorStatus {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.grants.counts
	return GrantorStatus{Blind: g.grants.history.start(now).Milliseconds(), Granted: g.grants.granted(now), Given: c.given,
		Refused: c.refused, Elsewhere: c.elsewhere, Later: c.later, Bad: c.bad, Stale: c.stale,
		Inquiries: g.inquiries}
}

// sweepEvery is how often old memories are looked for.
const sweepEvery = 6 * time.Hour

// Run asks the members what was granted where this node does not know it, and deletes old memories now and then, until the
// context ends.
func (g *Grantor) Run(ctx context.Context) error {
	var inquiries sync.WaitGroup
	defer inquiries.Wait()
	inquiries.Go(func() { g.inquireLoop(ctx) })
	for {
		g.trouble(g.memories.sweep(memoryKeep, maxMemories, time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(sweepEvery):
		}
	}
}

// Lease answers a request of a peer, or of this node. Items that cannot be read are refused (GRANT_UNSPECIFIED) and
// counted; the others count nonetheless.
func (g *Grantor) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nobody would hear the answer
	}
	if _, err := g.deps.Clock.Awake(); err != nil {
		return nil, err // what it knows is forgotten first
	}
	items := req.GetItems()
	resp := &wire.LeaseResponse{Answers: make([]*wire.LeaseAnswer, len(items))}
	requests := make([]request, len(items))
	faults := make([]error, len(items))
	now := time.Now()
	for i, item := range items {
		if requests[i], faults[i] = readItem(from, req.GetHeader(), item, now); i >= maxItems {
			faults[i] = errTooMany
		}
	}
	replies := make([]reply, len(items))
	g.mu.Lock()
	if now = time.Now(); now.Sub(g.pruned) >= pruneEvery {
		g.grants.prune(now)
		g.pruned = now
	}
	for i := range requests {
		if faults[i] != nil {
			g.grants.counts.bad++
			continue
		}
		replies[i] = g.grants.answer(requests[i], now)
	}
	if g.grants.ask {
		g.wake()
	}
	g.mu.Unlock()
	for i, r := range replies {
		resp.Answers[i] = &wire.LeaseAnswer{Grant: r.grant, ForMs: r.until.Milliseconds(), Holder: r.holder,
			WaitMs: r.wait.Milliseconds(), Level: r.level, RetryMs: r.retry.Milliseconds()}
		if r.grant == wire.Grant_GRANT_GIVEN {
			g.exchange(requests[i], items[i].GetMemory(), resp.Answers[i], now)
		}
	}
	return resp, nil
}

// exchange stores the memory that came with a request which was granted, or fetches the one that goes with a new lease.
func (g *Grantor) exchange(r request, memory []byte, a *wire.LeaseAnswer, now time.Time) {
	if len(memory) > 0 {
		g.trouble(g.memories.put(r.addr, memory, now))
		return
	}
	if r.wish != wire.Wish_WISH_ACQUIRE {
		return
	}
	stored, age, err := g.memories.get(r.addr, now)
	g.trouble(err)
	a.Memory, a.MemoryAgeMs = stored, age.Milliseconds()
}

func (g *Grantor) trouble(err error) {
	if err != nil && g.deps.Trouble != nil {
		g.deps.Trouble(err)
	}
}

var (
	errTooMany = errors.New("more items than a message may have")
	errServer  = errors.New("no address of a server")
	errWish    = errors.New("an unknown wish")
	errSender  = errors.New("nobody to grant to")
	errID      = errors.New("an id that is too long")
)

// maxID is the longest id of a node, in bytes.
const maxID = 64

// readItem checks one item. It has no effect.
func readItem(from string, head *wire.Header, item *wire.LeaseItem, now time.Time) (request, error) {
	addr, ok := netip.AddrFromSlice(item.GetServer())
	switch {
	case !ok || addr != addr.Unmap() || addr.IsUnspecified():
		return request{}, errServer
	case from == "":
		return request{}, errSender
	case len(from) > maxID || len(item.GetSuccessor()) > maxID:
		return request{}, errID
	case item.GetWish() < wire.Wish_WISH_ACQUIRE || item.GetWish() > wire.Wish_WISH_RELEASE:
		return request{}, errWish
	}
	if m := item.GetMemory(); len(m) > 0 {
		if _, err := assign.DecodeMemory(m, now); err != nil {
			return request{}, err
		}
	}
	wait := min(max(item.GetWaitMs(), 0), maxWait.Milliseconds())
	return request{from: from, boot: head.GetBoot(), id: head.GetId(), addr: addr, wish: item.GetWish(),
		wait: time.Duration(wait) * time.Millisecond, level: item.GetLevel(), successor: item.GetSuccessor()}, nil
}
