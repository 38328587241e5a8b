package relay

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"proxima/node/bell"
	"proxima/node/view"
)

const (
	// asked is how many members are asked whether they can reach this node; enough is how many if the others are
	// outbound only. They have answerTime to answer.
	asked      = 5
	enough     = 3
	answerTime = 3 * time.Second
	// firstCheck is when this node asks again; the interval then triples up to lastCheck. Most nodes turn out to be
	// what they took themselves for, and a change of the network is noticed within minutes.
	firstCheck, lastCheck = 4 * time.Second, 2 * time.Minute
	// lonely is how many rounds in a row no member answers until a node takes itself for outbound only: its packets arrive, but nobody can
	// rely on it. It takes longer than until the dead are known to be dead.
	lonely = 6
	// A member replaces a relay if it is nearer by the factor better and nearerMs more.
	better, nearerMs = 0.7, 5
	// compareEvery is how often that is checked.
	compareEvery = 10 * time.Second
	// unknown is what Relay.found is before the first round.
	unknown = -1
)

// round is one question to some members.
type round struct {
	nonce  id
	tcp    map[string]bool // members that have dialled this node
	packet bool            // a packet has come
	news   bell.Bell
}

// explore finds out how this node is reached, again and again.
func (r *Relay) explore(ctx context.Context) {
	var due time.Time
	every, other, vain := firstCheck, 0, 0 // other counts rounds with another result in a row, vain those in which no member answered
	// A new node begins as outbound only, whatever it is.
	reached, checked := r.deps.First, r.deps.First != view.Outbound
	_ = bell.Every(ctx, time.Second, func() {
		if time.Now().Before(due) || len(r.deps.Near()) == 0 {
			return
		}
		reach, known := r.findOut(ctx)
		if vain++; known {
			vain = 0
		}
		if vain >= lonely {
			reach, known = view.Outbound, true
		}
		switch {
		case !known:
			every = firstCheck
		case reach == reached:
			checked, other = true, 0
			every = min(3*every, lastCheck)
		default:
			if other++; !checked || other > 1 {
				reached, checked, other = reach, true, 0
			}
			every = firstCheck
		}
		if r.found.Swap(int32(reached)) != int32(reached) {
			r.poked.Ring()
		}
		due = time.Now().Add(every/2 + rand.N(every))
	})
}

// watch keeps the relays of this node, and publishes how it is reached.
func (r *Relay) watch(ctx context.Context) {
	var compared time.Time
	_ = bell.Loop(ctx, r.poked, time.Second, func(bool) error {
		way := *r.way.Load()
		switch found := r.found.Load(); {
		case found == unknown: // few members have links yet
		case view.Reach(found) == view.Outbound:
			replace := time.Since(compared) > compareEvery
			if replace {
				compared = time.Now()
			}
			way = view.Way{Reach: view.Outbound, Relays: r.keepRelays(way.Relays, replace)}
		default:
			way = view.Way{Reach: view.Reach(found)}
			r.keep(nil)
		}
		if had := r.way.Load(); had.Reach != way.Reach || !slices.Equal(had.Relays, way.Relays) {
			r.way.Store(&way)
			r.deps.Publish(way)
		}
		return nil
	})
}

// findOut asks some members to dial this node. It returns what that shows, if anything.
func (r *Relay) findOut(ctx context.Context) (reach view.Reach, known bool) {
	links := r.some()
	if len(links) == 0 {
		return 0, false
	}
	nonce := token()
	q := &round{nonce: nonce, tcp: map[string]bool{}, news: bell.New()}
	r.mu.Lock()
	r.checks = q
	r.mu.Unlock()
	for _, l := range links {
		l.offer(frame{kind: frameCheck, id: nonce})
	}
	late := time.NewTimer(answerTime)
	defer late.Stop()
	for waiting := true; ; {
		select {
		case <-q.news:
		case <-late.C:
			waiting = false
		case <-ctx.Done():
			return 0, false
		}
		stood, came, packet := 0, 0, false
		r.mu.Lock()
		for _, l := range links {
			if l.stands() || q.tcp[l.peer] {
				stood++
			}
			if q.tcp[l.peer] {
				came++
			}
		}
		packet = q.packet
		r.mu.Unlock()
		switch {
		case packet && (2*came > len(links) || !waiting && 2*came > stood):
			return view.Direct, true
		case waiting:
		case stood == 0:
			return 0, false
		case 2*came > stood:
			return view.Streams, true // or direct, and the packets were lost
		default:
			return view.Outbound, true
		}
	}
}

// some returns links with random members, dialable ones first: whether nodes behind one NAT reach each other says
// little.
func (r *Relay) some() (links []*link) {
	all := r.deps.Near()
	rand.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	for _, outbound := range []bool{false, true} {
		for _, n := range all {
			if len(links) == asked || outbound && len(links) >= enough {
				return links
			}
			if n.outbound() != outbound {
				continue
			}
			if l := r.open(n.ID); l != nil {
				links = append(links, l)
			}
		}
	}
	return links
}

// knocked notes that a member has dialled this node, or that a packet has come.
func (r *Relay) knocked(nonce id, note func(q *round)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q := r.checks; q != nil && q.nonce == nonce {
		note(q)
		q.news.Ring()
	}
}

// Knocked handles a packet if it is a knock, and reports whether it was.
func (r *Relay) Knocked(packet []byte) bool {
	nonce, ok := nonceOf(packet)
	if ok {
		r.knocked(nonce, func(q *round) { q.packet = true })
	}
	return ok
}

// keepRelays makes sure that there are relays, and returns those with open links.
func (r *Relay) keepRelays(relays []string, replace bool) (stand []string) {
	near := slices.DeleteFunc(r.deps.Near(), Neighbour.outbound)
	kept := near[:0:0]
	var others []Neighbour
	for _, n := range near {
		if slices.Contains(relays, n.ID) && r.standing(n.ID) != nil {
			kept = append(kept, n)
		} else {
			others = append(others, n)
		}
	}
	if replace && len(kept) == view.MaxRelays && len(others) > 0 && others[0].Ms+nearerMs < better*kept[len(kept)-1].Ms {
		if l := r.open(others[0].ID); l != nil && l.stands() {
			kept = kept[:len(kept)-1]
		}
	}
	for _, n := range others {
		if len(kept) == view.MaxRelays {
			break
		}
		if l := r.open(n.ID); l != nil {
			kept = append(kept, n)
		}
	}
	r.keep(kept)
	for _, n := range kept {
		if r.standing(n.ID) != nil {
			stand = append(stand, n.ID)
		}
	}
	slices.Sort(stand)
	return stand
}

// keep keeps the links with these relays. All others end when they are idle.
func (r *Relay) keep(relays []Neighbour) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for peer, l := range r.links {
		l.keep.Store(slices.ContainsFunc(relays, func(n Neighbour) bool { return n.ID == peer }))
	}
}
