package member

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxMessages bounds the messages that wait to be read. Senders repeat lost messages.
	maxMessages = 4096
	// packetMessage is the size of the longest message sent as a packet. Longer ones go by stream.
	packetMessage = 1200
	// maxStreams bounds the streams of messages at once. One to a member that takes none lasts for seconds.
	maxStreams = 64
)

// vote takes part in deciding whose votes count. It alone waits for the disk. What cannot be stored is not sent, and is stored later.
func (m *Members) vote() error {
	m.mu.Lock()
	now := m.now()
	idle, out := len(m.messages) == 0, m.readLocked(now)
	if idle {
		out = slices.Concat(out, m.table.decide(now, rand.Float64()), m.table.ask(now))
	}
	m.mu.Unlock()
	if !idle {
		m.wakeTend.Ring()
	}
	if err := m.store(); err != nil {
		m.trouble("", err.Error())
	} else {
		m.send(out)
	}
	return nil
}

// readLocked reads the messages that wait, and returns what is to be sent.
func (m *Members) readLocked(now time.Time) (out []outgoing) {
	for _, msg := range m.messages {
		out = append(out, m.table.read(msg, now)...)
	}
	m.messages = nil
	return out
}

// others returns the ids of the other members that are alive and readable, sorted.
func (t *table) others() (ids []string) {
	for id, r := range t.members {
		if r != t.self && r.phase == alive && !r.bad {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// store keeps what must survive this life, if it has changed. It is on disk when store returns.
func (m *Members) store() error {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	m.mu.Lock()
	dirty := m.table.paxos.dirty
	m.table.paxos.dirty = false
	k := m.table.keep()
	m.mu.Unlock()
	if !dirty || m.deps.Keep == nil {
		return nil
	}
	if err := m.deps.Keep(encode(nil, k)); err != nil {
		m.mu.Lock()
		m.table.paxos.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("keep who votes: %w", err)
	}
	return nil
}

// send sends messages. Messages to this node itself join those received. It does not wait for those that go by stream: a member that takes
// none would hold up all decisions.
func (m *Members) send(out []outgoing) {
	for _, p := range out {
		m.mu.Lock()
		list, r := m.list, m.table.members[p.to]
		var at *net.UDPAddr
		switch {
		case list == nil || r == nil:
		case r == m.table.self:
			m.messages = append(m.messages, p.message)
			m.wakeVoting.Ring()
		case r.phase == alive || p.kind == messageLeft:
			if at = r.at(); at != nil {
				m.sending.Add(1) // under the lock, so that Run waits for it
			}
		}
		m.mu.Unlock()
		if at == nil {
			continue
		}
		node, b := memberlist.Node{Name: p.to, Addr: at.IP, Port: uint16(at.Port)}, encode(nil, p.message)
		// Lost messages are written again sooner or later.
		if len(b) <= packetMessage {
			_ = list.SendBestEffort(&node, b)
			m.sending.Done()
			continue
		}
		m.streams.Go(func() error {
			defer m.sending.Done()
			return list.SendReliable(&node, b)
		})
	}
}

// GoAlone makes the nodes that answer this node now the only voters: an operator says that the others are gone for good. Gossip may not have
// found that out yet, so it takes some seconds. It returns the ids of the voters dropped.
func (m *Members) GoAlone(why string) (dropped []string, err error) {
	since := m.pingAll()
	m.mu.Lock()
	if !m.running || m.table.farewellAcks != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("go alone: this node is not running")
	}
	dropped = m.table.goAlone(m.now(), since, why)
	m.mu.Unlock()
	m.wakeTend.Ring()
	if err := m.store(); err != nil {
		return dropped, fmt.Errorf("go alone: %w", err)
	}
	return dropped, nil
}
