package placement

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"time"

	"proxima/assign"
)

const (
	// exploreShare is the share of the downloads under nearest that other nodes than the chosen one make, so that a node that has
	// recovered is noticed.
	exploreShare = 0.015
	// lookEvery is how often this node reconsiders its servers.
	lookEvery = 10 * time.Second
	// betterFor is how long other nodes must be better before a server moves to the best of them. Which of two equally good nodes is
	// the best changes all the time.
	betterFor = 30 * time.Second
	// exploreWait is how long an exploration waits for a page.
	exploreWait = 5 * time.Second
)

// Downloaded counts a page that this node has downloaded.
func (p *Placement) Downloaded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due += exploreShare
}

// Received notes a host that was assigned to this node. Its former owner may hold the lease of its server for a while, so the host is
// not told to join that node before patience has passed.
func (p *Placement) Received(host string, patience time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[host] = time.Now().Add(patience)
}

// LeasedTo hears that another node holds a server that is wanted here. Its hosts join that node. In mode persistent they stay with
// their home, which waits for the lease.
func (p *Placement) LeasedTo(addr netip.Addr, holder string) {
	if p.cfg.Mode == ModePersistent || holder == p.deps.Self || !p.alive(holder) {
		return
	}
	for _, host := range p.deps.Frontier.HostsAt(addr) {
		if p.toTell(host, time.Now()) {
			p.deps.Owners.Wish(host, holder, "its server is leased to that node")
		}
	}
}

// toTell reports whether a host should be told now to join another node, and notes that it was told.
func (p *Placement) toTell(host string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.told[host]) < p.deps.JoinEvery {
		return false
	}
	p.told[host] = now
	return true
}

// reconsider looks whether another node should have a server of this node.
func (p *Placement) reconsider(context.Context) error {
	now := time.Now()
	p.mu.Lock()
	maps.DeleteFunc(p.told, func(_ string, at time.Time) bool { return now.Sub(at) > time.Minute })
	p.mu.Unlock()
	if !p.cfg.moves() {
		return nil
	}
	was := p.betterSince
	p.betterSince = make(map[netip.Addr]time.Time)
	for _, addr := range p.deps.Leases.Held() {
		p.reconsiderServer(addr, was, now)
	}
	return nil
}

// explore lets other nodes make a small share of this node's downloads, at servers in random order. Explorations that cannot be made now
// are dropped.
func (p *Placement) explore(ctx context.Context) error {
	held, n := p.deps.Leases.Held(), p.explorations()
	for i := 0; i < len(held) && n > 0; i++ {
		made, err := p.exploreServer(ctx, held[i])
		if err != nil && ctx.Err() == nil {
			p.deps.Trouble(fmt.Errorf("explore %s: %w", held[i], err))
		}
		if made {
			n--
		}
	}
	return nil
}

// reconsiderServer has the hosts of a server moved if another node has been the better one for long enough. was is what betterSince was at the
// last look.
func (p *Placement) reconsiderServer(addr netip.Addr, was map[netip.Addr]time.Time, now time.Time) {
	m, ok := p.deps.Leases.Memory(addr)
	if !ok {
		return
	}
	view, _ := p.currentView()
	node, gain, ok := assign.Better(p.deps.Assign, m, view, p.deps.Self)
	if !ok {
		return
	}
	since, before := was[addr]
	if !before {
		since = now
	}
	if p.betterSince[addr] = since; now.Sub(since) < betterFor {
		return
	}
	for _, host := range p.deps.Frontier.HostsAt(addr) {
		if r, _, err := p.deps.Owners.Record(host); err == nil && r.Assigned {
			p.deps.Owners.Wish(host, node, fmt.Sprintf("%.0f ms faster there", gain))
		}
	}
}

// explorations returns how many explorations to make now. The fraction that is left counts the next time.
func (p *Placement) explorations() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := int(p.due)
	p.due -= float64(n)
	return n
}

// exploreServer lets the node whose result would tell most download one page of a server. It returns false if there is no such node
// or no page.
func (p *Placement) exploreServer(ctx context.Context, addr netip.Addr) (made bool, err error) {
	m, ok := p.deps.Leases.Memory(addr)
	hosts := p.deps.Frontier.HostsAt(addr)
	if !ok || len(hosts) == 0 {
		return false, nil
	}
	view, _ := p.currentView()
	node, ok := assign.Explorer(p.deps.Assign, m, view, p.deps.Self, rand.Float64)
	if r, _, err := p.deps.Owners.Record(hosts[0]); !ok || err != nil || !r.Assigned {
		return false, err
	}
	p.reserve(addr, true)
	defer p.reserve(addr, false)
	s := &server{Placement: p, addr: addr}
	short, cancel := context.WithTimeout(ctx, exploreWait)
	task, err := s.takeOf(ctx, short, &host{name: hosts[0]})
	cancel()
	if task == nil {
		return false, err
	}
	r, ok, err := s.askFor(ctx, node, task, RemoteFetch{Labels: s.cfg.Assigners, Assigned: true, Fresh: true})
	if ok {
		p.deps.Leases.Observed(addr, node, r.Coord, r.Timing)
	} else if othersTrouble(p.deps.Self, node, r) {
		p.deps.Leases.Failed(addr, node)
	}
	return true, err
}
