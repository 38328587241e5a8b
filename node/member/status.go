package member

import (
	"cmp"
	"slices"
	"time"

	"proxima/ncoord"
)

// Status is the state of the room for people and for load.jsonl. It is a copy.
type Status struct {
	// Gossip is this node's gossip address; "" before Run has it.
	Gossip string
	// Settled says whether this node counts for homes and grantors; Age how long it has run.
	Settled bool
	Age     time.Duration
	// Majority says whether this side may raise epochs; Reason why it may not.
	Majority bool
	Reason   string
	// Coord is the node's moving coordinate, Published the one that others know.
	Coord, Published ncoord.Coordinate
	// Samples are the round trips that moved it, Refused those that did not, by peer and reason, Unread the answers to
	// pings that could not be read.
	Samples uint64
	Refused map[string]ncoord.Refusals
	Unread  uint64
	// Health is memberlist's score of this node: 0 is well, more is late with its answers.
	Health int
	// PacketsSent and BytesSent are the gossip of this life.
	PacketsSent, BytesSent uint64
	// EventsDropped counts events that Deps.Event was too slow for.
	EventsDropped uint64
	// Members are all that are known, the dead and those that left lately included, sorted by id.
	Members []MemberStatus
}

// MemberStatus is one member as this node sees it.
type MemberStatus struct {
	ID     string
	Boot   uint64
	Gossip string
	Addr   string
	// Phase is "alive", "dead" or "left", For how long it has been that.
	Phase   string
	For     time.Duration
	Settled bool
	// RTT is the median of the latest round trips in ms, 0 if there was none.
	RTT float64
}

func (p phase) String() string { return [...]string{"alive", "dead", "left"}[p] }

// Status tells how it stands. Safe for concurrent use.
func (m *Members) Status() Status {
	now := m.now()
	l := m.locator
	l.mu.Lock()
	s := Status{Coord: l.node.Coordinate(), Published: l.place.coord,
		Samples: l.samples, Refused: l.node.Refused(), Unread: l.unread}
	l.mu.Unlock()

	m.mu.Lock()
	list := m.list
	t := m.table
	s.Gossip, s.Age, s.Majority, s.Reason = m.gossip, now.Sub(t.started), t.majority, ""
	if !t.majority {
		s.Reason = t.waiting(now)
	}
	s.EventsDropped = m.dropped
	if m.carrier != nil {
		s.PacketsSent, s.BytesSent = m.carrier.packets.Load(), m.carrier.bytes.Load()
	}
	for _, r := range t.members {
		_, counts := slices.BinarySearch(t.settled, r.id)
		member := MemberStatus{ID: r.id, Boot: r.boot, Gossip: r.gossip, Addr: r.addr, Phase: r.phase.String(),
			For: now.Sub(r.since), Settled: counts, RTT: r.trips.median()}
		if r == t.self {
			s.Settled, member.Gossip, member.Addr = counts, m.gossip, m.deps.PeerAddr
		}
		s.Members = append(s.Members, member)
	}
	m.mu.Unlock()

	if list != nil { // not under mu: memberlist has locks of its own
		s.Health = list.GetHealthScore()
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Compare(a.ID, b.ID) })
	return s
}
