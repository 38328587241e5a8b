package member

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// farewell tells all members that this node leaves. Members not reached in time find out by themselves.
func (m *Members) farewell(list *memberlist.Memberlist) error {
	if err := m.giveUp(); err != nil {
		return err
	}
	wait := m.cfg.LeaveTimeout / 2
	if m.sayFarewell() {
		wait = min(wait, preset(m.cfg.Preset).GossipInterval) // they know: gossiping once is enough for nodes that join just now
	}
	_ = list.Leave(max(wait, 1))
	return nil
}

// farewellEvery is how long a farewell waits for answers before it is repeated.
const farewellEvery = 250 * time.Millisecond

// sayFarewell says farewell to each member until all have answered, or half of LeaveTimeout has passed. It reports whether all have.
// Gossip follows after that; by itself it does not tell leaving from dying.
func (m *Members) sayFarewell() bool {
	m.mu.Lock()
	m.table.farewellAcks = map[string]bool{}
	m.mu.Unlock()
	over := time.NewTimer(m.cfg.LeaveTimeout / 2)
	defer over.Stop()
	again := time.NewTicker(farewellEvery)
	defer again.Stop()
	for aloud := true; ; {
		now := m.now()
		m.mu.Lock()
		out := m.readLocked(now) // others may be leaving, too
		waiting := slices.DeleteFunc(m.table.others(), func(id string) bool { return m.table.farewellAcks[id] })
		if aloud {
			for _, id := range waiting {
				out = append(out, m.table.paxos.decided(id), m.table.farewellMessage(messageLeave, id)) // it may be a voter only now
			}
		}
		m.mu.Unlock()
		m.send(out)
		if len(waiting) == 0 {
			return true
		}
		select {
		case <-m.wakeVoting:
			aloud = false
		case <-again.C:
			aloud = true
		case <-over.C:
			return false
		}
	}
}

// farewellMessage is a message that the crawl is over, or that this node leaves.
func (t *table) farewellMessage(kind int, to string) outgoing {
	c := &t.paxos
	return c.write(to, message{kind: kind, ballot: ballot{t.self.boot, t.self.id}, renounced: c.renounced && c.accepted.ids == nil})
}

// giveUp gives up this node's vote. That is on disk before anybody relies on it.
func (m *Members) giveUp() error {
	m.mu.Lock()
	m.table.depart(m.now())
	m.mu.Unlock()
	return m.store()
}

// Over tells all members that this node has found the crawl to be over, and will leave. Members that miss the end learn
// it from that, even after this node is gone.
func (m *Members) Over() error {
	if err := m.giveUp(); err != nil {
		return fmt.Errorf("tell that the crawl is over: %w", err)
	}
	m.mu.Lock()
	m.over = true
	var out []outgoing
	for _, id := range m.table.others() {
		out = append(out, m.table.farewellMessage(messageOver, id))
	}
	m.mu.Unlock()
	// Send it directly, too: the gossip may not reach all before this node is gone.
	m.send(out)
	m.wakeTend.Ring()
	return nil
}
