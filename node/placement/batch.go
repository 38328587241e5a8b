package placement

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/journal"
	"proxima/node/lease"
)

// fate is what becomes of a host of a batch.
type fate uint8

const (
	undecided  fate = iota // back in the queue, at once
	kept                   // back in the queue, after a rest
	handedOff              // to the node that was chosen
	joined                 // to the holder of its server's lease
	unresolved             // dropped from the batch
)

// host is a host of a batch.
type host struct {
	name    string
	pending int
	addrs   []netip.Addr
	fate    fate
	// What follows belongs to the goroutine of its server.
	taken int
	spent bool // nothing more can be taken from it in this batch
	away  bool // it is at another server now
}

// left is how many URLs it has, as far as is known.
func (h *host) left() int { return max(0, h.pending-h.taken) }

// batch is one batch under way.
type batch struct {
	*Placement
	id      string
	hosts   []*host
	servers []*server
}

func (p *Placement) newBatch(hosts []*host) *batch {
	p.made++
	self := p.deps.Self
	if len(self) > 12 {
		self = self[:12]
	}
	t := &batch{Placement: p, id: fmt.Sprintf("%s-%d-%d", self, p.deps.Boot, p.made), hosts: hosts}
	p.count(func(s *Status) {
		s.Batch, s.Hosts, s.Why = t.id, len(hosts), ""
		s.Batches++
	})
	return t
}

// seed is the seed of the batch's decisions: that of its name.
func seed(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// run carries a batch out. Assigned says whether a server got as far as being decided.
func (t *batch) run(ctx context.Context) (assigned bool, err error) {
	defer t.end()
	t.phase(PhaseResolve)
	if err := t.resolve(ctx); err != nil {
		return false, err
	}
	t.phase(PhaseLease)
	defer t.release()
	if err := t.lease(ctx); err != nil {
		return false, err
	}
	if len(t.servers) == 0 {
		return false, ctx.Err()
	}
	t.count(func(s *Status) { s.Servers = len(t.servers) })
	if t.cfg.Mode == ModePersistent {
		return true, t.persist(ctx)
	}
	plans, err := t.decide(ctx, t.id, nil, nil)
	if err != nil {
		return true, err
	}
	if len(plans) > 1 {
		t.phase(PhaseCompare)
		if err := t.each(ctx, func(ctx context.Context, s *server) error { return t.compare(ctx, s, plans) }); err != nil {
			return true, err
		}
	}
	t.phase(PhaseHandOff)
	return true, t.each(ctx, func(ctx context.Context, s *server) error { return t.handOff(ctx, s, plans[0]) })
}

// each does something with all servers at once, and returns the first error.
func (t *batch) each(ctx context.Context, do func(context.Context, *server) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range t.servers {
		g.Go(func() error { return do(ctx, s) })
	}
	return g.Wait()
}

// end notes what became of the hosts.
func (t *batch) end() {
	until := time.Now().Add(t.cfg.rest())
	for _, h := range t.hosts {
		switch h.fate {
		case kept:
			t.count(func(s *Status) { s.Kept++ })
			t.walk.resting[h.name] = until
		case unresolved:
			t.count(func(s *Status) { s.Unresolved++ })
			t.walk.resting[h.name] = until
		case handedOff:
			t.count(func(s *Status) { s.HandedOff++ })
		case joined:
			t.count(func(s *Status) { s.Joined++ })
		}
	}
}

// release gives back what a batch that did not come to its end has left.
func (t *batch) release() {
	for _, s := range t.servers {
		if !s.given {
			s.give(t.deps.Self, nil)
		}
	}
}

// poll is how often the frontier is asked where a host is.
const poll = 200 * time.Millisecond

// resolve finds out where the hosts are, and goes on without those whose names do not resolve.
func (t *batch) resolve(ctx context.Context) error {
	var g errgroup.Group
	for _, h := range t.hosts {
		g.Go(func() error { return t.locate(ctx, h) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, h := range t.hosts {
		if len(h.addrs) == 0 && ctx.Err() == nil {
			h.fate = unresolved
			t.deps.LeftOut(h.name, fmt.Sprintf("its name did not resolve within %v of a batch", t.cfg.resolveFor()), h.pending)
		}
	}
	return ctx.Err()
}

// locate waits until the frontier knows where a host is.
func (t *batch) locate(ctx context.Context, h *host) error {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.resolveFor())
	defer cancel()
	if err := t.deps.Frontier.Activate(ctx, h.name); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("activate %s: %w", h.name, err)
	}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		if addrs, ok := t.deps.Frontier.Placed(h.name); ok && len(addrs) > 0 {
			h.addrs = addrs
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// lease takes the leases of the servers, and reserves them. Hosts whose server another node holds join that node.
func (t *batch) lease(ctx context.Context) error {
	t.group()
	var g sync.WaitGroup
	ok := make([]bool, len(t.servers))
	for i, s := range t.servers {
		g.Go(func() { ok[i] = t.hold(ctx, s) })
	}
	g.Wait()
	var got []*server
	for i, s := range t.servers {
		if ok[i] {
			got = append(got, s)
		}
	}
	t.servers = got
	return ctx.Err()
}

// group makes the servers of the batch: each host belongs to the first of its addresses, and brings along the other hosts
// of that server that the frontier names and that are this home's.
func (t *batch) group() {
	servers := make(map[netip.Addr]*server)
	known := make(map[string]bool, len(t.hosts))
	for _, h := range t.hosts {
		known[h.name] = true
		if len(h.addrs) == 0 {
			continue
		}
		addr := h.addrs[0]
		s := servers[addr]
		if s == nil {
			if t.cfg.Mode == ModePersistent && !t.deps.Frontier.OwnServer(addr) {
				h.fate = kept
				continue
			}
			s = &server{Placement: t.Placement, addr: addr, turns: make(chan struct{}, 1)}
			servers[addr] = s
			t.servers = append(t.servers, s)
		}
		s.hosts = append(s.hosts, h)
	}
	slices.SortFunc(t.servers, func(a, b *server) int { return a.addr.Compare(b.addr) })
	if t.cfg.Mode == ModePersistent {
		return
	}
	for _, state := range t.deps.Frontier.Servers() {
		s := servers[state.Addr]
		if s == nil {
			continue
		}
		for _, name := range state.Hosts {
			if known[name] || !t.deps.Owners.Mine(name) {
				continue
			}
			known[name] = true
			h := &host{name: name, pending: 1, addrs: []netip.Addr{state.Addr}}
			t.hosts = append(t.hosts, h)
			s.hosts = append(s.hosts, h)
		}
	}
	t.count(func(s *Status) { s.Hosts = len(t.hosts) })
}

// hold takes the lease of a server, and reports whether it is here.
func (t *batch) hold(ctx context.Context, s *server) bool {
	wait, cancel := context.WithTimeout(ctx, t.deps.LeaseFor)
	defer cancel()
	m, err := t.deps.Leases.Hold(wait, s.addr)
	if err == nil {
		if m != nil {
			s.memory = *m
		}
		t.reserve(s.addr, true)
		return true
	}
	if ctx.Err() != nil {
		return false
	}
	// A wait that was cut off may still bring the lease later.
	t.deps.Leases.Give(s.addr, t.deps.Self, nil)
	var held *lease.HeldError
	if !errors.As(err, &held) || held.Holder == t.deps.Self || !t.alive(held.Holder) {
		t.deps.Trouble(fmt.Errorf("take the lease of %s: %w", s.addr, err))
		s.keep()
		return false
	}
	for _, h := range s.hosts {
		if err := t.deps.Owners.HandOff(ctx, h.name, held.Holder, reasonLeased); err != nil {
			h.fate = kept
			t.deps.Trouble(fmt.Errorf("hand %s off to %s, which holds its server %s: %w", h.name, held.Holder, s.addr, err))
			continue
		}
		h.fate = joined
		t.deps.Assigned(journal.Assign{Decided: true, Batch: t.id, Host: h.name, Server: s.addr.String(), Owner: held.Holder, URLs: h.pending, Reason: reasonLeased})
	}
	return false
}

const reasonLeased = "server is leased"

// handOff gives a server to the node that was chosen, and its hosts with it.
func (t *batch) handOff(ctx context.Context, s *server, p *plan) error {
	c := p.choices[s.addr]
	if c.Node == "" || !t.alive(c.Node) {
		t.deps.Trouble(fmt.Errorf("hand off the hosts of %s: %q is no member", s.addr, c.Node))
		s.keep()
		return nil // release gives the server back
	}
	// The lease goes first: from then on nothing of the server is asked for here.
	s.give(c.Node, p.memory(s.addr))
	for _, h := range s.hosts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if h.away {
			h.fate = kept
			continue
		}
		err := t.deps.Owners.HandOff(ctx, h.name, c.Node, fmt.Sprintf("%s: %s", p.label, c.Reason))
		switch {
		case err == nil:
			h.fate = handedOff
		case errors.Is(err, frontier.ErrClosed):
			return err
		default:
			h.fate = kept
			if ctx.Err() == nil {
				t.deps.Trouble(fmt.Errorf("hand %s off to %s: %w", h.name, c.Node, err))
			}
		}
	}
	return nil
}
