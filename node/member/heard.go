package member

import (
	"cmp"
	"context"
	"net"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// A node that is cut off finds its peers dead one by one, and the more of them there are, the longer that takes. So the
// majority rests on what was heard of, not on who was found dead: a voter counts only while it has answered a question of
// this node, asked no longer than Config.HearWithin ago. Both ways must work for that. The probes of the gossip are such
// questions; where they are too few for a majority, this node asks more voters.

// maxQuestions is how many members are asked at a tick, at most.
const maxQuestions = 32

// answered notes that a member has answered what it was asked at a time.
func (t *table) answered(id string, asked time.Time) {
	if r := t.members[id]; r != nil && asked.After(r.heard) && !asked.Before(t.stopped) {
		r.heard = asked
	}
}

// forget ends what was heard, now and by answers to what was asked before.
func (t *table) forget(now time.Time) {
	t.stopped = now
	for _, r := range t.members {
		r.heard = time.Time{}
	}
}

// Stopped says that this node stood still, or that its clock jumped: it is in no majority until one has answered it anew.
func (m *Members) Stopped() {
	m.mu.Lock()
	m.table.forget(m.now())
	m.mu.Unlock()
	m.wake()
}

// hears says whether a member has answered within a time.
func (t *table) hears(r *record, within time.Duration, now time.Time) bool {
	return r == t.self || !r.heard.IsZero() && now.Sub(r.heard) < within
}

// quiet are members to be asked, so that a majority of the voters has answered lately, and of all that are alive: they
// are the next voters. Those come first that were asked longest ago.
func (t *table) quiet(now time.Time) (quiet []*record) {
	voters, all := len(t.council.set.ids)/2+1, 0
	for id, r := range t.members {
		if r.phase != alive || r.bad {
			continue
		}
		all++
		switch {
		case !t.hears(r, t.cfg.HearWithin/2, now):
			quiet = append(quiet, r)
		case t.council.set.has(id):
			voters--
		}
	}
	all = all/2 + 1 - (all - len(quiet))
	slices.SortFunc(quiet, func(a, b *record) int { return cmp.Or(a.pinged.Compare(b.pinged), cmp.Compare(a.id, b.id)) })
	quiet = slices.DeleteFunc(quiet, func(r *record) bool {
		needed := all > 0
		if t.council.set.has(r.id) {
			needed = needed || voters > 0
			voters--
		}
		all--
		return !needed
	})
	return quiet[:min(len(quiet), maxQuestions)]
}

// listen asks members for signs of life, as long as the gossip's own probes bring too few.
func (m *Members) listen(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var g errgroup.Group
		now := m.now()
		m.mu.Lock()
		for _, r := range m.table.quiet(now) {
			r.pinged = now
			id, gossip, list := r.id, r.gossip, m.list
			g.Go(func() error {
				host, port, err := hostPort(gossip)
				if err != nil {
					return nil // it is not dialled either
				}
				if _, err := list.Ping(id, &net.UDPAddr{IP: net.ParseIP(host), Port: port}); err == nil {
					m.mu.Lock()
					m.table.answered(id, now)
					m.mu.Unlock()
					m.wake()
				}
				return nil
			})
		}
		m.mu.Unlock()
		_ = g.Wait() // a lost answer is asked for again
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
