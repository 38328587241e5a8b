package member

import (
	"slices"
	"testing"
)

// Who was away while voters were decided hears of them in the first stream.
func TestVotersComeByStream(t *testing.T) {
	c := newClock(t)
	c.vote(1, 2)
	now := c.paxos.set
	told := state{sender: nodeID(2), set: voters{now.origin, now.version + 1, nil},
		members: []entry{{id: nodeID(1), voter: true}, {id: nodeID(2)}, {id: nodeID(3), voter: true}}}
	c.merge(told, c.now)
	if got, want := c.paxos.set, []string{nodeID(1), nodeID(3)}; got.version != now.version+1 || !slices.Equal(got.ids, want) {
		t.Errorf("version %d of the voters: %v, want version %d: %v", got.version, got.ids, now.version+1, want)
	}
	told.set.version = now.version
	c.merge(told, c.now)
	if c.paxos.set.version != now.version+1 {
		t.Error("older voters count")
	}
}

// A voter whose name is all that an earlier life has left was never here: it joins, and does not come back.
func TestVoterKnownByNameJoins(t *testing.T) {
	c := newClock(t)
	c.vote(1, 2)
	c.meet(2, 1, true)
	joins := slices.IndexFunc(c.events, func(e Event) bool { return e.Kind == EventJoin && e.ID == nodeID(2) })
	again := slices.IndexFunc(c.events, func(e Event) bool { return e.Kind == EventRejoin })
	if joins < 0 || again >= 0 {
		t.Errorf("events: %+v", c.events)
	}
}
