package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/lease"
	"proxima/node/runlog"
)

// batch is a batch under way.
type batch struct {
	*Placement
	id      string
	hosts   []*host
	servers []*server // whose leases this node holds
	plans   []*plan   // the latest decisions, in the order of the assigners
	loaded  bool      // this node downloaded from so many of the servers until the batch began that the downloads slowed each other
}

// host is a host of a batch.
type host struct {
	name    string
	pending int
	addrs   []netip.Addr
	fate    fate
	// The goroutine of its server owns the fields below.
	taken int  // number of URLs taken from it
	spent bool // this batch can take no more from it
	away  bool // it is at another server now
}

// fate is what becomes of a host of a batch.
type fate uint8

const (
	undecided  fate = iota // it may be in the next batch
	kept                   // it may be in a batch after a rest
	handedOff              // it went to the node that was chosen
	joined                 // it went to the holder of its server's lease
	unresolved             // its name did not resolve; it may be in a batch after a rest
)

// left returns how many URLs it still has, as far as is known.
func (h *host) left() int { return max(0, h.pending-h.taken) }

// newBatch begins a batch, and gives it its name.
func (p *Placement) newBatch(hosts []*host) *batch {
	b := &batch{Placement: p, hosts: hosts}
	p.updateStatus(func(s *Status) {
		s.Batches++
		b.id = fmt.Sprintf("%.12s-%d-%d", p.deps.Self, p.deps.Boot, s.Batches)
		s.Batch, s.Hosts, s.Why = b.id, len(hosts), ""
	})
	return b
}

// run carries a batch out. assigned tells whether a server was decided.
func (b *batch) run(ctx context.Context) (assigned bool, err error) {
	defer b.end()
	if b.cfg.Mode == ModePersistent {
		return true, b.runRounds(ctx)
	}
	if err := b.begin(ctx); err != nil || len(b.servers) == 0 {
		return false, err
	}
	if err := b.decide(ctx, b.id); err != nil {
		return true, err
	}
	if len(b.plans) > 1 {
		b.phase(PhaseCompare)
		if err := b.each(ctx, b.compare); err != nil {
			return true, err
		}
	}
	b.phase(PhaseHandOff)
	return true, b.each(ctx, b.handOff)
}

// begin finds the servers of the hosts and gets their leases.
func (b *batch) begin(ctx context.Context) error {
	if err := b.resolve(ctx); err != nil {
		return err
	}
	if err := b.lease(ctx); err != nil {
		return err
	}
	return b.settle(ctx)
}

const (
	// manyAtOnce is from how many of a batch's servers a node must be downloading at once for the downloads to slow each other.
	manyAtOnce = 8
	// settleFor is how long a batch waits at most for these downloads.
	settleFor = 10 * time.Second
)

// settle waits until no download of this node from the batch's servers is under way, if there are so many that they would slow each other, and
// the first estimates of this node with them.
func (b *batch) settle(ctx context.Context) error {
	b.loaded = b.underWay() >= manyAtOnce
	for until := time.Now().Add(settleFor); b.loaded && b.underWay() > 0 && time.Now().Before(until); {
		if err := bell.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// underWay returns from how many of the servers this node is downloading.
func (b *batch) underWay() (n int) {
	mine := make(map[netip.Addr]bool, len(b.servers))
	for _, s := range b.servers {
		mine[s.addr] = true
	}
	for _, s := range b.deps.Frontier.Servers() {
		if mine[s.Addr] && s.InFlight > 0 {
			n++
		}
	}
	return n
}

// each calls do for all servers in parallel, and returns the first error.
func (b *batch) each(ctx context.Context, do func(context.Context, *server) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range b.servers {
		g.Go(func() error { return do(ctx, s) })
	}
	return g.Wait()
}

// end gives back the leases that are left, and counts what became of the hosts.
func (b *batch) end() {
	for _, s := range b.servers {
		if s.held {
			s.give(b.deps.Self, nil)
		}
	}
	until := time.Now().Add(b.cfg.rest())
	b.updateStatus(func(s *Status) {
		for _, h := range b.hosts {
			switch h.fate {
			case kept:
				s.Kept++
				b.walk.resting[h.name] = until
			case unresolved:
				s.Unresolved++
				b.walk.resting[h.name] = until
			case handedOff:
				s.HandedOff++
			case joined:
				s.Joined++
			}
		}
	})
}

// poll is how often the frontier is asked whether the names of hosts are resolved.
const poll = 200 * time.Millisecond

// resolve finds the addresses of the hosts. The batch goes on without those whose names do not resolve.
func (b *batch) resolve(ctx context.Context) error {
	b.phase(PhaseResolve)
	short, cancel := context.WithTimeout(ctx, b.cfg.resolveFor())
	defer cancel()
	var g errgroup.Group
	for _, h := range b.hosts {
		g.Go(func() error {
			if err := b.deps.Frontier.Activate(short, h.name); err != nil && short.Err() == nil {
				return fmt.Errorf("activate %s: %w", h.name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	unplaced := slices.Clone(b.hosts)
	for {
		unplaced = slices.DeleteFunc(unplaced, func(h *host) (placed bool) {
			h.addrs, placed = b.deps.Frontier.Placed(h.name)
			return placed
		})
		if len(unplaced) == 0 || short.Err() != nil {
			break
		}
		_ = bell.Sleep(short, poll)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, h := range unplaced {
		h.fate = unresolved
		b.deps.LeftOut(h.name, fmt.Sprintf("its name did not resolve within %v of a batch", b.cfg.resolveFor()), h.pending)
	}
	return nil
}

// lease gets the leases of the servers and reserves them.
func (b *batch) lease(ctx context.Context) error {
	b.phase(PhaseLease)
	b.group()
	err := b.each(ctx, b.hold)
	b.servers = slices.DeleteFunc(b.servers, func(s *server) bool { return !s.held })
	b.updateStatus(func(s *Status) { s.Hosts, s.Servers = len(b.hosts), len(b.servers) })
	return err
}

// group makes the servers of the batch. A host belongs to the server at its first address. The other hosts of that server that this
// node may assign come along.
func (b *batch) group() {
	servers := make(map[netip.Addr]*server)
	known := make(map[string]bool, len(b.hosts))
	for _, h := range b.hosts {
		known[h.name] = true
		if len(h.addrs) == 0 {
			continue
		}
		addr := h.addrs[0]
		s := servers[addr]
		if s == nil {
			if b.cfg.Mode == ModePersistent && !b.deps.Frontier.OwnServer(addr) {
				h.fate = kept
				continue
			}
			s = &server{Placement: b.Placement, addr: addr, estimating: make(chan struct{}, 1)}
			servers[addr] = s
			b.servers = append(b.servers, s)
		}
		s.hosts = append(s.hosts, h)
	}
	if b.cfg.Mode == ModePersistent {
		return
	}
	for _, state := range b.deps.Frontier.Servers() {
		s := servers[state.Addr]
		if s == nil {
			continue
		}
		for _, name := range state.Hosts {
			if known[name] || !b.deps.Owners.Mine(name) {
				continue
			}
			h := &host{name: name, pending: 1, addrs: []netip.Addr{state.Addr}}
			b.hosts, s.hosts = append(b.hosts, h), append(s.hosts, h)
		}
	}
}

const reasonLeased = "server is leased"

// hold gets the lease of a server. If another node has it, the hosts join that node.
func (b *batch) hold(ctx context.Context, s *server) error {
	wait, cancel := context.WithTimeout(ctx, b.deps.LeaseFor)
	defer cancel()
	m, err := b.deps.Leases.Hold(wait, s.addr)
	if err == nil {
		if m != nil {
			s.memory = *m
		}
		b.reserve(s.addr, true)
		s.held = true
		return nil
	}
	var held *lease.HeldError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !errors.As(err, &held) || held.Holder == b.deps.Self || !b.alive(held.Holder):
		b.deps.Trouble(fmt.Errorf("take the lease of %s: %w", s.addr, err))
		s.keep()
		return nil
	case b.cfg.Mode == ModePersistent: // a later round may get it
		s.keep()
		return nil
	}
	err = b.move(ctx, s, held.Holder, reasonLeased, joined)
	for _, h := range s.hosts {
		if h.fate == joined {
			b.deps.Assigned(runlog.Assign{Decided: true, Batch: b.id, Host: h.name, Server: s.addr.String(), Owner: held.Holder,
				URLs: h.pending, Reason: reasonLeased})
		}
	}
	return err
}

// handOff gives a server with its hosts to the node that was chosen.
func (b *batch) handOff(ctx context.Context, s *server) error {
	p := b.plans[0]
	c := p.choices[s.addr]
	if c.Node == "" || !b.alive(c.Node) {
		b.deps.Trouble(fmt.Errorf("hand off the hosts of %s: %q is no member", s.addr, c.Node))
		s.keep()
		return nil
	}
	// The lease goes first, so that this node sends the server no more requests.
	s.give(c.Node, p.memory(s.addr))
	return b.move(ctx, s, c.Node, fmt.Sprintf("%s: %s", p.label, c.Reason), handedOff)
}

// move hands the hosts of a server off. A host stays if that fails or if it has gone to another server.
func (b *batch) move(ctx context.Context, s *server, to, reason string, moved fate) error {
	for _, h := range s.hosts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if h.fate = kept; h.away {
			continue
		}
		err := b.deps.Owners.HandOff(ctx, h.name, to, true, reason)
		switch {
		case err == nil:
			h.fate = moved
		case errors.Is(err, frontier.ErrClosed):
			return err
		case ctx.Err() == nil:
			b.deps.Trouble(fmt.Errorf("hand %s off to %s (%s): %w", h.name, to, reason, err))
		}
	}
	return nil
}
