package member

import (
	"cmp"
	"maps"
	"slices"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/relay"
	"proxima/node/view"
)

// SetFactors sets what the node has learnt about its own downloads, for publication. The wait in its queues goes into the height of the
// published coordinate, too, along with the recent excess of its round trips (ncoord.Node.Delay). It ignores factors that fail Factors.Check.
func (m *Members) SetFactors(f assign.Factors) {
	if f.Check() != nil {
		return
	}
	m.mu.Lock()
	if l := m.locator; f != l.place.factors {
		l.place.factors = f
		l.place.rev++
		l.store()
	}
	m.mu.Unlock()
	m.wakeTend.Ring()
}

// Coordinate returns this node's own coordinate as it moves.
func (m *Members) Coordinate() ncoord.Coordinate {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locator.node.Coordinate()
}

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
	if r := m.table.members[id]; r != nil && r.phase == alive {
		return r.addr, r.addr != ""
	}
	return "", false
}

// Way returns how to reach a member, by what it publishes, and whether it is alive.
func (m *Members) Way(id string) (way view.Way, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.table.members[id]; r != nil {
		return r.way, r.phase == alive
	}
	return view.Way{}, false
}

// Near returns the other live members that can be called, the nearest by coordinate first.
func (m *Members) Near() (all []relay.Neighbour) {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := m.locator.node.Coordinate()
	for id, r := range m.table.members {
		if r == m.table.self || r.phase != alive || r.addr == "" {
			continue
		}
		ms := 1e6 // without a coordinate it counts as far away
		if r.placed {
			ms = ncoord.Distance(own, r.place.coord)
		}
		all = append(all, relay.Neighbour{ID: id, Reach: r.way.Reach, Ms: ms})
	}
	slices.SortFunc(all, func(a, b relay.Neighbour) int { return cmp.Or(cmp.Compare(a.Ms, b.Ms), cmp.Compare(a.ID, b.ID)) })
	return all
}

// SetWay publishes how to reach this node.
func (m *Members) SetWay(way view.Way) {
	m.mu.Lock()
	m.table.setWay(m.table.self, way, m.now())
	m.mu.Unlock()
	m.wakeTend.Ring()
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
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table
	now := m.now()
	v := View{View: view.View{Self: m.deps.ID, Version: t.version, Settled: slices.Clone(t.settled), Homes: t.homes(), Majority: t.majority,
		Voting: t.paxos.set.ids}}
	v.Missing, v.Voters = t.missing(now)
	for _, w := range v.Missing {
		v.Absent = append(v.Absent, w.ID)
	}
	if !t.majority {
		v.Reason = t.whyMinority(now) // with the ages of this moment
	}
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		r := t.members[id]
		_, counts := slices.BinarySearch(t.settled, id)
		p := Peer{ID: id, Boot: r.boot, Addr: r.addr, Phase: r.phase.String(), For: now.Sub(r.since), Settled: counts, RTT: r.trips.median(),
			Placed: r.placed, Coord: r.place.coord, Factors: r.place.factors, Location: r.location, Way: r.way}
		if r == t.self {
			p.Addr, p.Placed, p.Coord, p.Factors, p.Location = m.deps.PeerAddr, true, m.locator.place.coord, m.locator.place.factors, m.deps.Location
		}
		v.Members = append(v.Members, p)
		if r.phase == alive {
			v.Alive = append(v.Alive, id)
		}
		if r.over {
			v.Over = append(v.Over, id)
		}
	}
	return v
}

// Gossip returns this node's gossip address, "" until Run has it.
func (m *Members) Gossip() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gossip
}

// Silence makes this node say nothing to the others until it is called with false. They go on as if it had died, and it has no majority.
func (m *Members) Silence(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.carrier != nil {
		m.carrier.silent.Store(on)
	}
}

// Traffic returns how much gossip this node has sent in this life.
func (m *Members) Traffic() (packets, bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.carrier == nil {
		return 0, 0
	}
	return m.carrier.sent.Load(), m.carrier.bytes.Load()
}
