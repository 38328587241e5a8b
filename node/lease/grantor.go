package lease

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"proxima/assign"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
	"proxima/node/wire"
)

// GrantorDeps are the dependencies of a Grantor.
type GrantorDeps struct {
	Clock *Clock
	Boot  uint64 // the number of this life; 1 is the first
	Shelf Shelf
	// Rights asks other nodes, and this node itself.
	Rights peer.Call[wire.RightsRequest, wire.RightsResponse]
	// Trouble hears of errors of the disk. Leases go on without it.
	Trouble func(error)
}

// Grantor grants leases on this node's share of the servers, and keeps what is known of them. It is safe for concurrent use.
type Grantor struct {
	cfg      Config
	deps     GrantorDeps
	memories memories
	kick     bell.Bell // wakes inquireLoop

	// mu guards the fields below.
	mu     sync.Mutex
	grants *grants
	pruned time.Time
}

// NewGrantor makes a Grantor. It grants nothing before its first view (SetView).
func NewGrantor(cfg Config, deps GrantorDeps) *Grantor {
	g := &Grantor{cfg: cfg, deps: deps, memories: memories{shelf: deps.Shelf}, kick: bell.New()}
	g.grants = newGrants(&g.cfg, deps.Boot)
	deps.Clock.OnGap(g.forget)
	return g
}

// forget ends what this node knows of grants. After a gap others may have granted its servers.
func (g *Grantor) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants.forget(time.Now())
}

// SetView installs a new view.
func (g *Grantor) SetView(v view.View) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.grants.setView(v, time.Now())
}

// GrantorStatus is the counts of a Grantor.
type GrantorStatus struct {
	Blind     int64  // ms until it is known what was granted before
	Granted   int    // servers granted now, to this node as well
	Given     uint64 // grants and renewals
	Refused   uint64 // items answered with HELD
	Elsewhere uint64 // items about servers of other grantors
	Later     uint64 // items answered with LATER
	Bad       uint64 // malformed items
	Stale     uint64 // items out of order
	Inquiries uint64 // successful inquiries
}

// Status returns the counts.
func (g *Grantor) Status() GrantorStatus {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.grants.counts
	s.Granted = g.grants.granted(now)
	s.Blind = g.grants.history.Blind(now, g.cfg.Window(), func(*view.View) bool { return true }).Milliseconds()
	return s
}

// sweepEvery is how often old memories are deleted.
const sweepEvery = 6 * time.Hour

// Run asks the members what they hold when this node does not know it, and deletes old memories, until the context ends.
func (g *Grantor) Run(ctx context.Context) error {
	var inquiries sync.WaitGroup
	defer inquiries.Wait()
	inquiries.Go(func() { g.inquireLoop(ctx) })
	for {
		g.trouble(g.memories.sweep(memoryKeep, maxMemories, time.Now()))
		if bell.Sleep(ctx, sweepEvery) != nil {
			return nil
		}
	}
}

// Lease answers a request of a peer or of this node. Malformed items are refused (GRANT_UNSPECIFIED) and counted; the others are
// answered all the same.
func (g *Grantor) Lease(ctx context.Context, from string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nobody waits for the answer
	}
	if err := g.deps.Clock.Awake(); err != nil {
		return nil, err // forget must run first
	}
	resp := &wire.LeaseResponse{}
	for i, item := range req.GetItems() {
		now := time.Now()
		r, ok := readItem(from, req.GetHeader(), item, now)
		a := g.answer(r, ok && i < maxItems, now)
		if a.GetGrant() == wire.Grant_GRANT_GIVEN {
			g.exchange(r, item.GetMemory(), a, now)
		}
		resp.Answers = append(resp.Answers, a)
	}
	return resp, nil
}

// answer decides one item. If ok is not set the item is malformed.
func (g *Grantor) answer(r request, ok bool, now time.Time) *wire.LeaseAnswer {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ok {
		g.grants.counts.Bad++
		return &wire.LeaseAnswer{}
	}
	if now.Sub(g.pruned) >= pruneEvery {
		g.grants.prune(now)
		g.pruned = now
	}
	a := g.grants.answer(r, now)
	if g.grants.ask {
		g.kick.Ring()
	}
	return a
}

// exchange stores the memory that came with a granted request, or adds the stored one to a new lease.
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
	if err != nil {
		g.deps.Trouble(err)
	}
}

// readItem reads an item, and checks what it means. Package peer has checked its form.
func readItem(from string, head *wire.Header, item *wire.LeaseItem, now time.Time) (r request, ok bool) {
	addr, ok := netip.AddrFromSlice(item.GetServer())
	if !ok || addr != addr.Unmap() || addr.IsUnspecified() || item.GetWish() < wire.Wish_WISH_ACQUIRE || item.GetWish() > wire.Wish_WISH_RELEASE {
		return request{}, false
	}
	if m := item.GetMemory(); len(m) > 0 {
		if _, err := assign.DecodeMemory(m, now); err != nil {
			return request{}, false
		}
	}
	wait := min(max(item.GetWaitMs(), 0), maxWait.Milliseconds())
	return request{from: from, boot: head.GetBoot(), id: head.GetId(), addr: addr, wish: item.GetWish(),
		wait: time.Duration(wait) * time.Millisecond, successor: item.GetSuccessor()}, true
}
