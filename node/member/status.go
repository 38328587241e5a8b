package member

import (
	"cmp"
	"slices"
	"time"

	"proxima/node/view"
)

// Status is the state of the room for people and for load.jsonl, beside its View. It is a copy.
type Status struct {
	// Gossip is this node's gossip address; "" before Run has it.
	Gossip string
	// PacketsSent and BytesSent are the gossip of this life.
	PacketsSent, BytesSent uint64
	// Members are all that are known, the dead and those that left lately included, sorted by id.
	Members []MemberStatus
}

// MemberStatus is one member as this node sees it.
type MemberStatus struct {
	ID   string
	Boot uint64
	Addr string
	// Phase is "alive", "dead" or "left", For how long it has been that.
	Phase   string
	For     time.Duration
	Settled bool
	// Way is how it is reached.
	Way view.Way
	// RTT is the median of the latest round trips in ms, 0 if there was none.
	RTT float64
}

func (p phase) String() string { return [...]string{"alive", "dead", "left"}[p] }

// Status tells how it stands. Safe for concurrent use.
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
