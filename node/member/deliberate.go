package member

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// maxLetters bounds the letters that wait to be read: they are sent again.
	maxLetters = 4096
	// packetLetter is the longest letter that goes by a packet; longer ones go by a stream.
	packetLetter = 1200
)

// deliberate decides with the other voters whose votes count. It is the one place of the room that waits for the disk.
func (m *Members) deliberate(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		m.mu.Lock()
		now := m.now()
		letters := m.letters
		m.letters = nil
		var out []post
		if len(letters) == 0 {
			out = append(m.table.decide(now, m.jitter.Float64()), m.table.ask(now)...)
		}
		for _, l := range letters {
			out = append(out, m.table.read(l, now)...)
		}
		out = append(out, m.news...)
		m.news = nil
		list := m.list
		m.mu.Unlock()
		if len(letters) > 0 {
			m.update()
		}
		woken := m.lettered
		if err := m.store(); err != nil {
			woken = nil // what could not be kept wakes this loop at once: it is tried again with the next tick
			m.mu.Lock()
			m.emit(Event{Kind: EventTrouble, Time: now, Reason: err.Error()})
			m.mu.Unlock()
		} else {
			m.send(list, out)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-woken:
		case <-ticker.C:
		}
	}
}

// tellAllLocked has the latest set told to all that are alive. It needs mu held.
func (m *Members) tellAllLocked() {
	m.news = m.news[:0]
	for _, id := range m.table.others() {
		m.news = append(m.news, m.table.council.decided(id))
	}
	poke(m.lettered)
}

// others are the members that are alive and can be read, without this node, sorted.
func (t *table) others() (ids []string) {
	for id, r := range t.members {
		if r != t.self && r.phase == alive && !r.bad {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// store keeps what must not be forgotten, if it has changed. It does not return before it is on disk.
func (m *Members) store() error {
	m.storeMu.Lock()
	defer m.storeMu.Unlock()
	m.mu.Lock()
	dirty := m.table.council.dirty
	m.table.council.dirty = false
	k := m.table.keep()
	m.mu.Unlock()
	if !dirty || m.deps.Keep == nil {
		return nil
	}
	if err := m.deps.Keep(appendKept(nil, k)); err != nil {
		m.mu.Lock()
		m.table.council.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("keep who votes: %w", err)
	}
	return nil
}

// send sends letters, and puts those to this node itself with those that have come.
func (m *Members) send(list *memberlist.Memberlist, out []post) {
	if list == nil {
		return
	}
	var node memberlist.Node
	for _, p := range out {
		m.mu.Lock()
		if p.to == m.deps.ID {
			m.letters = append(m.letters, p.letter)
			poke(m.lettered)
			m.mu.Unlock()
			continue
		}
		r := m.table.members[p.to]
		known := r != nil && (r.phase == alive || p.kind == letterLeft)
		if known {
			host, port, err := hostPort(r.gossip)
			known = err == nil
			node = memberlist.Node{Name: p.to, Addr: net.ParseIP(host), Port: uint16(port)}
		}
		m.mu.Unlock()
		if !known {
			continue
		}
		b := appendLetter(nil, p.letter)
		// A letter that is lost is written again, sooner or later.
		if len(b) <= packetLetter {
			_ = list.SendBestEffort(&node, b)
		} else {
			_ = list.SendReliable(&node, b)
		}
	}
}

// GoAlone makes the voters those that this node sees now: an operator says that the others are gone for good. It gives
// the ids of those that it has dropped.
func (m *Members) GoAlone(why string) (dropped []string, err error) {
	m.mu.Lock()
	if !m.running || m.table.bidden != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("go alone: this node does not run")
	}
	dropped = m.table.goAlone(m.now(), why)
	m.tellAllLocked()
	m.mu.Unlock()
	m.wake()
	if err := m.store(); err != nil {
		return dropped, fmt.Errorf("go alone: %w", err)
	}
	return dropped, nil
}

// publishedStampLocked is the stamp in this node's meta. Who has found that the crawl is over shows what it held when it gave
// its vote up. It needs mu held.
func (m *Members) publishedStampLocked() uint64 {
	c := &m.table.council
	return marked(c.plain(), c.accepted, c.renounced && !m.over)
}
