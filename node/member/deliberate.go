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
	// maxLetters bounds the letters that wait to be read. Senders repeat lost letters.
	maxLetters = 4096
	// packetLetter is the size of the longest letter sent as a packet. Longer ones go by stream.
	packetLetter = 1200
)

// deliberate takes part in deciding whose votes count. It alone waits for the disk.
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
			woken = nil // unstored state would wake this loop at once; try again at the next tick
			m.trouble(now, "", err.Error())
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

// tellAllLocked queues the latest set for all live members. It needs mu held.
func (m *Members) tellAllLocked() {
	m.news = m.news[:0]
	for _, id := range m.table.others() {
		m.news = append(m.news, m.table.council.decided(id))
	}
	poke(m.lettered)
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
	dirty := m.table.council.dirty
	m.table.council.dirty = false
	k := m.table.keep()
	m.mu.Unlock()
	if !dirty || m.deps.Keep == nil {
		return nil
	}
	if err := m.deps.Keep(encode(nil, k)); err != nil {
		m.mu.Lock()
		m.table.council.dirty = true
		m.mu.Unlock()
		return fmt.Errorf("keep who votes: %w", err)
	}
	return nil
}

// send sends letters. Letters to this node itself join those received.
func (m *Members) send(list *memberlist.Memberlist, out []post) {
	if list == nil {
		return
	}
	for _, p := range out {
		m.mu.Lock()
		if p.to == m.deps.ID {
			m.letters = append(m.letters, p.letter)
			poke(m.lettered)
			m.mu.Unlock()
			continue
		}
		var at *net.UDPAddr
		if r := m.table.members[p.to]; r != nil && (r.phase == alive || p.kind == letterLeft) {
			at = r.at()
		}
		m.mu.Unlock()
		if at == nil {
			continue
		}
		node, b := memberlist.Node{Name: p.to, Addr: at.IP, Port: uint16(at.Port)}, encode(nil, p.letter)
		// Lost letters are written again sooner or later.
		if len(b) <= packetLetter {
			_ = list.SendBestEffort(&node, b)
		} else {
			_ = list.SendReliable(&node, b)
		}
	}
}

// GoAlone makes the nodes that this node sees now the only voters: an operator says that the others are gone for good.
// It returns the ids of the voters dropped.
func (m *Members) GoAlone(why string) (dropped []string, err error) {
	m.mu.Lock()
	if !m.running || m.table.bidden != nil {
		m.mu.Unlock()
		return nil, fmt.Errorf("go alone: this node is not running")
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

// publishedStampLocked returns the stamp in this node's meta. A node that has found the crawl over publishes the stamp
// from before it gave up its vote. It needs mu held.
func (m *Members) publishedStampLocked() uint64 {
	c := &m.table.council
	return marked(c.plain(), c.accepted, c.renounced && !m.over)
}
