package member

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A node that is cut off finds its peers dead one by one, and with many peers that takes long. So the majority rests on
// who was heard, not on who was found dead: a voter counts only while it has answered a question of this node, asked no
// longer than Config.HearWithin ago. That proves both directions work. Gossip probes are such questions; where they are
// too few for a majority, this node pings more voters.

// maxQuestions bounds the members pinged at one tick.
const maxQuestions = 32

// answered notes that a member has answered a question asked at a given time.
func (t *table) answered(id string, asked time.Time) {
	if r := t.members[id]; r != nil && asked.After(r.heard) && !asked.Before(t.stopped) {
		r.heard = asked
	}
}

// forgetAnswers drops all answers of members, and those still to come to earlier questions.
func (t *table) forgetAnswers(now time.Time) {
	t.stopped = now
	for _, r := range t.members {
		r.heard = time.Time{}
	}
}

// Stopped says that this node stood still, or that its clock jumped. It is in no majority until a majority has answered
// it again.
func (m *Members) Stopped() {
	m.mu.Lock()
	m.table.forgetAnswers(m.now())
	m.mu.Unlock()
	m.wakeTend.Ring()
}

// hears reports whether a member has answered within a time.
func (t *table) hears(r *record, within time.Duration, now time.Time) bool {
	return r == t.self || now.Sub(r.heard) < within
}

// toPing returns the members to ping now, those first that were not pinged for longest. They are as many as are needed so that a majority of the
// voters has answered lately, and a majority of all live members, which may be the next voters.
func (t *table) toPing(now time.Time) (quiet []*record) {
	voters, all := len(t.paxos.set.ids)/2+1, 0
	for id, r := range t.members {
		if r.phase != alive || r.bad {
			continue
		}
		all++
		switch {
		case !t.hears(r, t.cfg.HearWithin/2, now):
			quiet = append(quiet, r)
		case t.paxos.set.has(id):
			voters--
		}
	}
	all = all/2 + 1 - (all - len(quiet))
	slices.SortFunc(quiet, func(a, b *record) int { return cmp.Or(a.pinged.Compare(b.pinged), cmp.Compare(a.id, b.id)) })
	quiet = slices.DeleteFunc(quiet, func(r *record) bool {
		needed := all > 0
		if t.paxos.set.has(r.id) {
			needed = needed || voters > 0
			voters--
		}
		all--
		return !needed
	})
	quiet = quiet[:min(len(quiet), maxQuestions)]
	for _, r := range quiet {
		r.pinged = now
	}
	return quiet
}

// pingQuiet pings members if gossip probes are too few.
func (m *Members) pingQuiet() {
	var g sync.WaitGroup
	defer g.Wait() // lost pings are repeated
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.pingLocked(&g, m.table.toPing(now), now)
}

// pingsEach is how often pingAll pings a member that does not answer: a lost packet must not make it count as gone.
const pingsEach = 4

// pingAll pings all live members until each has answered or was asked often enough. It returns when it began.
func (m *Members) pingAll() (since time.Time) {
	since = m.now()
	for range pingsEach {
		var g sync.WaitGroup
		m.mu.Lock()
		m.pingLocked(&g, m.table.silent(since), m.now())
		m.mu.Unlock()
		g.Wait()
	}
	return since
}

// silent returns the live members that have answered no question since.
func (t *table) silent(since time.Time) (silent []*record) {
	for _, id := range t.others() {
		if r := t.members[id]; r.heard.Before(since) {
			silent = append(silent, r)
		}
	}
	return silent
}

// pingLocked pings members, and notes who answers. The group ends when all have answered or had time for it.
func (m *Members) pingLocked(g *sync.WaitGroup, those []*record, now time.Time) {
	list := m.list
	for _, r := range those {
		id, at := r.id, r.at()
		if at == nil || list == nil {
			continue
		}
		m.sending.Add(1) // under the lock, so that Run waits for it
		g.Go(func() {
			defer m.sending.Done()
			if _, err := list.Ping(id, at); err == nil {
				m.mu.Lock()
				m.table.answered(id, now)
				m.mu.Unlock()
				m.wakeTend.Ring()
			}
		})
	}
}
