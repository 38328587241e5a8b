package member

import (
	"cmp"
	"slices"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/view"
)

// SetLoad sets the expected wait in this node's queues, in ms. It goes into the height of the published coordinate,
// along with the recent excess of its round trips (ncoord.Node.Delay). Negative values and NaN count as 0.
func (m *Members) SetLoad(ms float64) {
	m.locator.setLoad(ms, m.now())
	m.wake()
}

// SetFactors sets what the node has learnt about its own downloads, for publication. It ignores factors that fail
// Factors.Check.
func (m *Members) SetFactors(f assign.Factors) {
	if f.Check() == nil {
		m.locator.setFactors(f)
		m.wake()
	}
}

// Coordinate returns this node's own coordinate as it moves.
func (m *Members) Coordinate() ncoord.Coordinate { return m.locator.coordinate() }

// Changed returns a channel that is closed at the next change of Settled, Majority or the live members. Call it before
// View, so that no change is missed in between.
func (m *Members) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// Addr returns the address of the peer protocol of a live member, or of this node.
func (m *Members) Addr(id string) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if id == m.deps.ID {
		return m.deps.PeerAddr, true
	}
	r := m.table.members[id]
	if r == nil || r.phase != alive || r.addr == "" {
		return "", false
	}
	return r.addr, true
}

// Way returns how to reach a member, by what it publishes, and whether it is alive.
func (m *Members) Way(id string) (way view.Way, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.table.members[id]
	if r == nil {
		return view.Way{}, false
	}
	return r.way, r.phase == alive
}

// SetWay publishes how to reach this node.
func (m *Members) SetWay(way view.Way) {
	m.mu.Lock()
	m.table.turn(m.table.self, way, m.now())
	m.mu.Unlock()
	m.wake()
}

// Knock sends a packet to a member's gossip port.
func (m *Members) Knock(id string, packet []byte) {
	var to string
	m.mu.Lock()
	c := m.carrier
	if r := m.table.members[id]; r != nil {
		to = r.gossip
	}
	m.mu.Unlock()
	if to != "" && c != nil {
		_, _ = c.WriteTo(packet, to) // packets may be lost anyway
	}
}

// View returns the overlay as this node sees it now.
func (m *Members) View() View {
	own := m.locator.current()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table
	now := m.now()
	v := View{View: view.View{Self: m.deps.ID, Version: t.version, Settled: slices.Clone(t.settled), Homes: t.homes(), Majority: t.majority}}
	v.Missing, v.Voters = t.missing(now)
	for _, w := range v.Missing {
		v.Absent = append(v.Absent, w.ID)
	}
	if !t.majority {
		v.Reason = t.waiting(now) // with the ages of this moment
	}
	for id, r := range t.members {
		if r.over && r != t.self {
			v.Over = append(v.Over, id)
		}
		switch {
		case r == t.self:
			v.Peers = append(v.Peers, Peer{ID: id, Addr: m.deps.PeerAddr, Placed: true, Coord: own.coord,
				Factors: own.factors, Location: m.deps.Location, Way: r.way})
		case r.phase == alive:
			v.Peers = append(v.Peers, Peer{ID: id, Addr: r.addr, Placed: r.placed, Coord: r.place.coord,
				Factors: r.place.factors, Location: r.location, Way: r.way})
		}
	}
	slices.Sort(v.Over)
	slices.SortFunc(v.Peers, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	for _, p := range v.Peers {
		v.Alive = append(v.Alive, p.ID)
	}
	return v
}
