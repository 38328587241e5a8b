package member

import (
	"cmp"
	"slices"
	"time"

	"proxima/node/view"
)

// Status is the state of the room for people and load.jsonl, beside its View. It is a copy.
type Status struct {
	// Gossip is this node's gossip address, "" until Run has it.
	Gossip string
	// PacketsSent and BytesSent count the gossip of this life.
	PacketsSent, BytesSent uint64
	// Members are all members known, including the dead and those that left lately, sorted by id.
	Members []MemberStatus
}

// MemberStatus is one member as this node sees it.
type MemberStatus struct {
	ID   string
	Boot uint64
	Addr string
	// Phase is "alive", "dead" or "left"; For is how long it has been that.
	Phase   string
	For     time.Duration
	Settled bool
	// Way is how to reach it.
	Way view.Way
	// RTT is the median of the latest round trips in ms, 0 if there were none.
	RTT float64
}

func (p phase) String() string { return [...]string{"alive", "dead", "left"}[p] }

// Status returns the present state.
func (m *Members) Status() Status {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table
	s := Status{Gossip: m.gossip}
	if m.carrier != nil {
		s.PacketsSent, s.BytesSent = m.carrier.sent.Load(), m.carrier.bytes.Load()
	}
	for _, r := range t.members {
		_, counts := slices.BinarySearch(t.settled, r.id)
		member := MemberStatus{ID: r.id, Boot: r.boot, Addr: r.addr, Phase: r.phase.String(),
			For: now.Sub(r.since), Settled: counts, RTT: r.trips.median(), Way: r.way}
		if r == t.self {
			member.Addr = m.deps.PeerAddr
		}
		s.Members = append(s.Members, member)
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Compare(a.ID, b.ID) })
	return s
}
