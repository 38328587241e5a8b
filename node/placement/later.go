package placement

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
)

const (
	// exploreShare is the share of the downloads under nearest that others than the chosen node make, so that one that has
	// recovered is noticed.
	exploreShare = 0.015
	// lookEvery is how often this node looks whether others should have the servers that it has.
	lookEvery = 10 * time.Second
	// betterFor is how long others must be better before a server moves, to the best of them then: of two that are equally
	// good now this one is the best, now that one.
	betterFor = 30 * time.Second
	// exploreWait is how long an exploration waits for a page.
	exploreWait = 5 * time.Second
)

// later is what is remembered of servers and hosts that are somewhere already.
type later struct {
	mu sync.Mutex
	// meant are servers that another node should have, and since when.
	meant map[netip.Addr]time.Time
	// told are hosts that were told to join the node that has their server's lease, and when.
	told map[string]time.Time
	due  float64 // explorations that this node's downloads since the last are worth
}

func newLater() later {
	return later{meant: make(map[netip.Addr]time.Time), told: make(map[string]time.Time)}
}

// Downloaded counts a page that this node has downloaded.
func (p *Placement) Downloaded() {
	p.later.mu.Lock()
	defer p.later.mu.Unlock()
	p.later.due += exploreShare
}

// Received notes a host that was assigned to this node. The lease follows when its former owner has let it go: for a while
// the host does not go back for it.
func (p *Placement) Received(host string, patience time.Duration) {
	p.later.mu.Lock()
	defer p.later.mu.Unlock()
	p.later.told[host] = time.Now().Add(patience)
}

// LeasedTo hears that a server wanted here is another node's: its hosts join that node.
func (p *Placement) LeasedTo(addr netip.Addr, holder string) {
	if holder == "" || holder == p.deps.Self || !p.alive(holder) {
		return
	}
	now := time.Now()
	for _, host := range p.deps.Frontier.HostsAt(addr) {
		p.later.mu.Lock()
		again := now.Sub(p.later.told[host]) < p.deps.JoinEvery
		if !again {
			p.later.told[host] = now
		}
		p.later.mu.Unlock()
		if !again {
			p.deps.Owners.Wish(host, holder, "its server is leased to that node")
		}
	}
}

// reconsider looks from time to time whether another node should have the servers that this node has.
func (p *Placement) reconsider(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.later.mu.Lock()
		maps.DeleteFunc(p.later.told, func(_ string, at time.Time) bool { return time.Since(at) > time.Minute })
		p.later.mu.Unlock()
		if !p.cfg.moves() {
			continue
		}
		held := p.deps.Leases.Held()
		p.later.mu.Lock()
		maps.DeleteFunc(p.later.meant, func(addr netip.Addr, _ time.Time) bool { return !slices.Contains(held, addr) })
		p.later.mu.Unlock()
		for _, addr := range held {
			p.reconsiderServer(addr, time.Now())
		}
		p.explore(ctx, held)
	}
}

// reconsiderServer has the hosts of a server moved if another node has been the better one for long enough.
func (p *Placement) reconsiderServer(addr netip.Addr, now time.Time) {
	m, ok := p.deps.Leases.Memory(addr)
	if !ok {
		return
	}
	view, _ := p.currentView()
	node, gain, ok := assign.Better(p.deps.Assign, m, view, p.deps.Self)
	p.later.mu.Lock()
	since, meant := p.later.meant[addr]
	switch {
	case !ok:
		delete(p.later.meant, addr)
	case !meant:
		p.later.meant[addr] = now
	}
	p.later.mu.Unlock()
	if !ok || !meant || now.Sub(since) < betterFor {
		return
	}
	for _, host := range p.deps.Frontier.HostsAt(addr) {
		if _, assigned, err := p.deps.Owners.Record(host); err == nil && assigned {
			p.deps.Owners.Wish(host, node, fmt.Sprintf("%.0f ms faster there", gain))
		}
	}
}

// explorations is how many are to be made now; what is left of the share counts the next time.
func (p *Placement) explorations() int {
	p.later.mu.Lock()
	defer p.later.mu.Unlock()
	n := int(p.later.due)
	p.later.due -= float64(n)
	return n
}

// explore lets others make a small share of this node's downloads, at servers in no order. What cannot be made now is not
// made up for.
func (p *Placement) explore(ctx context.Context, held []netip.Addr) {
	n := p.explorations()
	for i := 0; i < len(held) && n > 0; i++ {
		made, err := p.exploreServer(ctx, held[i])
		if err != nil && ctx.Err() == nil {
			p.deps.Trouble(fmt.Errorf("explore %s: %w", held[i], err))
		}
		if made {
			n--
		}
	}
}

// exploreServer lets the node that would tell most download one page of a server; false if there is none.
func (p *Placement) exploreServer(ctx context.Context, addr netip.Addr) (made bool, err error) {
	m, ok := p.deps.Leases.Memory(addr)
	hosts := p.deps.Frontier.HostsAt(addr)
	if !ok || len(hosts) == 0 {
		return false, nil
	}
	view, _ := p.currentView()
	node, ok := assign.Explorer(p.deps.Assign, m, view, p.deps.Self, rand.Float64)
	if _, assigned, err := p.deps.Owners.Record(hosts[0]); !ok || err != nil || !assigned {
		return false, err
	}
	p.reserve(addr, true)
	defer p.reserve(addr, false)
	s := &server{Placement: p, addr: addr}
	short, cancel := context.WithTimeout(ctx, exploreWait)
	task, err := s.takeOf(ctx, short, &host{name: hosts[0]})
	cancel()
	if errors.Is(err, errNothing) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	r, failed := s.askFor(ctx, node, task, RemoteFetch{Labels: []string{assign.Nearest}, Assigned: true, Fresh: true})
	if useful(r, failed) && r.Placed {
		p.deps.Leases.Observed(addr, node, r.Coord, r.Timing)
	}
	return true, s.finish(ctx, task, outcome(p.deps.Self, node, r, failed))
}
