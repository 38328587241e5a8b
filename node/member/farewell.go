package member

import (
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// farewell tells all that this node leaves. What cannot be told in time, they find out.
func (m *Members) farewell(list *memberlist.Memberlist) error {
	if err := m.giveUp(); err != nil {
		return err
	}
	m.bid(list)
	_ = list.Leave(max(m.cfg.LeaveTimeout/2, 1))
	return nil
}

// bidEvery is how long a farewell waits for an answer before it is said again.
const bidEvery = 250 * time.Millisecond

// bid says farewell to each member until all have answered, or half of LeaveTimeout has passed. The gossip comes after it:
// that makes no difference between who leaves and who dies.
func (m *Members) bid(list *memberlist.Memberlist) {
	m.mu.Lock()
	c := &m.table.council
	m.table.bidden = map[string]bool{}
	for _, id := range m.table.others() {
		m.news = append(m.news, c.decided(id))
	}
	m.mu.Unlock()
	over := time.NewTimer(m.cfg.LeaveTimeout / 2)
	defer over.Stop()
	again := time.NewTicker(bidEvery)
	defer again.Stop()
	for aloud := true; ; {
		now := m.now()
		m.mu.Lock()
		out := m.news
		m.news = nil
		for _, l := range m.letters { // others may leave at the same time
			out = append(out, m.table.read(l, now)...)
		}
		m.letters = nil
		waiting := slices.DeleteFunc(m.table.others(), func(id string) bool { return m.table.bidden[id] })
		for _, id := range waiting {
			if aloud {
				out = append(out, c.write(id, letter{kind: letterLeave, ballot: ballot{m.deps.Boot, m.deps.ID}, renounced: c.renounced && c.accepted.ids == nil}))
			}
		}
		m.mu.Unlock()
		m.send(list, out)
		if len(waiting) == 0 {
			return
		}
		select {
		case <-m.lettered:
			aloud = false
		case <-again.C:
			aloud = true
		case <-over.C:
			return
		}
	}
}

// giveUp gives this node's vote up. That is on disk before anybody counts on it.
func (m *Members) giveUp() error {
	m.mu.Lock()
	if !m.table.council.quit {
		m.table.depart(m.now())
	}
	m.mu.Unlock()
	return m.store()
}

// Over tells all members that the crawl is over: this node has found that nobody has anything left to do, and will leave.
// Those that miss the end see it there, also when this node is gone.
func (m *Members) Over() error {
	if err := m.giveUp(); err != nil {
		return fmt.Errorf("tell that the crawl is over: %w", err)
	}
	m.mu.Lock()
	m.over = true
	c, list := &m.table.council, m.list
	var out []post
	for _, id := range m.table.others() {
		out = append(out, c.write(id, letter{kind: letterOver, ballot: ballot{m.deps.Boot, m.deps.ID},
			renounced: c.renounced && c.accepted.ids == nil}))
	}
	m.mu.Unlock()
	// Twice: gossip tells the dead as often as the living, and may not reach all before this node is gone.
	m.send(list, out)
	poke(m.pressed)
	return nil
}
