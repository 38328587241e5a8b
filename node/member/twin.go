package member

import (
	"cmp"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// duplicateLocked handles the state of a live node with this node's id: the younger of the two gives way.
func (m *Members) duplicateLocked(s state, now time.Time) {
	own := now.Sub(m.table.started)
	younger := own < s.age
	if d := own - s.age; d > -time.Second && d < time.Second {
		younger = cmp.Or(cmp.Compare(m.deps.Boot, s.boot), cmp.Compare(m.nonce, s.nonce)) > 0
	}
	e := Event{Kind: EventDuplicate, Time: now, ID: m.deps.ID,
		Reason: "a younger node has this node's id; it gives way"}
	if younger {
		e.Reason = "an older node has this node's id"
		m.duplicateErr = fmt.Errorf("%w: %s, running for %v; was the data directory copied?", ErrDuplicate, m.deps.ID, s.age.Round(time.Millisecond))
	}
	m.emitLocked(e)
}

const (
	// twinAfter is how long another node must have had this node's id. Until then it may be this node's earlier life, which some take for alive.
	twinAfter = 5 * time.Minute
	// twinEvery is how often such a node is told of. If nothing is heard of it for so long, it is gone.
	twinEvery = 10 * time.Minute
)

// twin is another live node with this node's id, as far as others tell. If the two reached each other, the younger one would end (duplicateLocked).
type twin struct{ first, last, told time.Time }

// twinLocked notes that another node has this node's id.
func (m *Members) twinLocked(other *memberlist.Node) {
	now, t := m.now(), &m.twin
	if now.Sub(t.last) > twinEvery {
		t.first = now
	}
	if t.last = now; now.Sub(t.first) < twinAfter || now.Sub(t.told) < twinEvery {
		return
	}
	t.told = now
	m.emitLocked(Event{Kind: EventDuplicate, Time: now, ID: m.deps.ID, Addr: other.Address(),
		Reason: "another node has this node's id, at " + other.Address() + ", and cannot be reached: was the data directory copied? Stop one of the two"})
}
