package member

import (
	"context"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"proxima/node/bell"
	"proxima/node/strict"
	"proxima/node/view"
)

const (
	// maxDials bounds concurrent dials of configured addresses, and of others; one without an answer takes seconds.
	maxDials = 8
	// firstRedial is the first wait while this node knows nobody, since its peers may be starting as well. Then Config.Redial is the longest.
	firstRedial = time.Second
	// redialFor is for how long a dead member is dialled at all, unless it is a voter.
	redialFor = 12 * time.Hour
)

// target is an address to dial until it answers.
type target struct {
	due  time.Time
	wait time.Duration
	busy atomic.Bool // it is being dialled
}

// toDial returns the addresses to dial, without those of live members. alone reports whether there are no live members but this one.
func (m *Members) toDial(now time.Time) (addrs []string, alone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	reached := m.reachedLocked()
	for _, r := range m.table.members {
		// Voters are dialled for ever, since this node waits for them.
		if r.phase == dead && r.dialable() && (now.Sub(r.since) < redialFor || m.table.paxos.set.has(r.id)) {
			addrs = append(addrs, r.gossip)
		}
	}
	addrs = append(addrs, m.cfg.Join...)
	if now.Sub(m.table.started) < redialFor || !m.table.majority {
		addrs = append(addrs, m.deps.Known...)
	}
	slices.Sort(addrs)
	return slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return reached[a] }), len(reached) == 1
}

// dialable reports whether a member can be dialled. Outbound-only nodes cannot: they dial by themselves.
func (r *record) dialable() bool { return r.gossip != "" && r.way.Reach != view.Outbound }

// redial dials the configured and known addresses, and the dead, until they are members: those that are due, as many as may be dialled at
// once. Those that are configured have places of their own: of the others many may be gone, and each of those takes seconds.
func (m *Members) redial(ctx context.Context, targets map[string]*target) {
	now := m.now()
	m.mu.Lock()
	for addr := range m.claims {
		if t := targets[addr]; t == nil || !t.busy.Load() {
			targets[addr] = &target{due: now} // it will answer with its id
		}
	}
	clear(m.claims)
	m.mu.Unlock()
	addrs, alone := m.toDial(now)
	maps.DeleteFunc(targets, func(a string, t *target) bool {
		_, wanted := slices.BinarySearch(addrs, a)
		return !wanted && t.wait > 0 && !t.busy.Load()
	})
	for _, a := range addrs {
		if targets[a] == nil {
			targets[a] = &target{due: now}
		}
	}
	first, most := m.cfg.Redial, m.cfg.RedialMax
	if alone {
		first, most = min(first, firstRedial), first
	}
	for a, t := range targets {
		if wait := t.due.Sub(now); t.busy.Load() || wait > 0 && wait <= most {
			continue
		}
		group := &m.dials
		if slices.Contains(m.cfg.Join, a) {
			group = &m.joins
		}
		t.busy.Store(true)
		if !group.TryGo(func() error { m.dial(ctx, a); t.busy.Store(false); return nil }) {
			t.busy.Store(false)
			continue
		}
		t.wait = min(max(2*t.wait, first), most)
		// A random half, so that peers that lost each other at the same time do not dial at the same time.
		t.due = now.Add(t.wait/2 + rand.N(t.wait/2+1))
	}
}

// dial exchanges states with the node at an address. The result shows in the table.
func (m *Members) dial(ctx context.Context, addr string) {
	host, port, err := strict.HostPort(addr)
	if err != nil {
		return
	}
	ips := []netip.Addr{}
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = append(ips, ip)
	} else if ips, err = m.deps.Resolve(ctx, host); err != nil {
		m.trouble(addr, "resolve address to join: "+err.Error())
	}
	bell.Each(maxDials, ips, func(ip netip.Addr) { // one that is dead does not hold up the others
		at := net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(port))
		m.mu.Lock()
		list, reached := m.list, m.reachedLocked()[at]
		m.metSelf = m.metSelf || at == m.gossip && len(ips) == 1
		m.mu.Unlock()
		if !reached && ctx.Err() == nil {
			_, _ = list.Join([]string{at})
		}
	})
}

// reachedLocked returns the gossip addresses of the live members, this node's included.
func (m *Members) reachedLocked() map[string]bool {
	reached := map[string]bool{m.gossip: true}
	for _, r := range m.table.members {
		if r.phase == alive && r != m.table.self {
			reached[r.gossip] = true
		}
	}
	return reached
}

// Known returns the gossip addresses of members, including the dead that are not forgotten yet, sorted. Keep them for the
// next life (Deps.Known).
func (m *Members) Known() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var addrs []string
	for _, r := range m.table.members {
		if r != m.table.self && r.dialable() && r.phase != left {
			addrs = append(addrs, r.gossip)
		}
	}
	slices.Sort(addrs)
	return addrs
}
