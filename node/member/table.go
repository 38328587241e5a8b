package member

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"proxima/ncoord"
)

// table is who is there, who counts, and whether that is the majority. It is a function of what it is told and when:
// no clock, no network, no locks.
//
// Who counts as settled must be nearly the same for all nodes, or two of them take different nodes for the home of one
// host. So a member says itself, in its meta, that it is settled, and all believe it:
//
//   - A node declares itself settled when it has seen the majority for SettleAfter without a break.
//   - While nobody has declared that (a fresh overlay), all count. These founders go on counting when the first of them
//     declares itself; the others then declare themselves at once, and what bridges the moment ends after a grace. A
//     node that meets an overlay older than itself is no founder there and waits its turn.
//   - What counted goes on counting while it is alive, and until it has been dead for ForgetAfter; leaving in order
//     ends it at once. A member that restarts in time learns from its peers' states that it counts, and declares it.
//   - Newcomers learn of the dead that still count from the state of those they join.
//
// Voters are the members that counted at some time in the last MajorityWindow, unless they left in order. The side that
// sees more than half of them alive is the majority; of two halves it is that of the lowest id. No node declares itself
// settled on the side of a minority, or newcomers could make two majorities. A node that has been told of peers but has
// met none since it started may be on the wrong side of a partition: it counts itself as a minority for MajorityWindow.
type table struct {
	cfg  Config
	self *record
	// alone is whether peers were configured or known and none was met yet; started is when this life began.
	alone   bool
	started time.Time
	// held is since when this side has had the majority, without a break.
	held time.Time
	// grown is when the first member was seen settled; zero while nobody is.
	grown   time.Time
	members map[string]*record

	version  uint64
	settled  []string
	majority bool
	reason   string
	stirred  bool // somebody came or went since the last count
	events   []Event
}

// record is one member.
type record struct {
	id     string
	boot   uint64
	gossip string // host:port of the gossip
	phase  phase
	since  time.Time // when the phase began
	// declared is what the member says itself in this life, settled whether it counts for that or an earlier saying,
	// founder whether it counts because nobody had declared anything, voter whether it counted in the window.
	declared, settled, founder, voter bool

	addr     string
	location *ncoord.Location
	capacity float64
	placed   bool
	place    place
	bad      bool // its meta cannot be read
	trips    trips
}

func newTable(cfg Config, id string, boot uint64, alone bool, now time.Time) *table {
	self := &record{id: id, boot: boot, since: now}
	t := &table{cfg: cfg, self: self, alone: alone, started: now, held: now, members: map[string]*record{id: self}}
	t.update(now)
	return t
}

// grace is how long founders count without having declared it, once others have.
func (t *table) grace() time.Duration { return max(t.cfg.SettleAfter/4, time.Second) }

func (t *table) event(kind string, r *record, now time.Time, reason string, last time.Duration) {
	e := Event{Kind: kind, Time: now, Reason: reason, For: last}
	if r != nil {
		e.ID, e.Boot, e.Addr = r.id, r.boot, r.gossip
	}
	t.events = append(t.events, e)
}

// seen is told that a member is alive at a gossip address and what it publishes; err is why that cannot be read.
func (t *table) seen(id, gossip string, m meta, err error, now time.Time) {
	if id == t.self.id {
		return
	}
	r, known := t.members[id]
	if !known {
		r = &record{id: id, phase: left, since: now}
		t.members[id] = r
	}
	before, lived, boot := r.phase, now.Sub(r.since), r.boot
	r.gossip = gossip
	if err != nil {
		if !r.bad {
			t.event(EventBadMeta, r, now, err.Error(), 0)
		}
		r.bad, m = true, meta{boot: r.boot, addr: r.addr, location: r.location, capacity: r.capacity, settled: r.declared}
	} else {
		r.bad = false
	}
	if m.boot < boot && before == alive {
		return // an echo of an earlier life
	}
	if m.boot != boot {
		r.placed = false
	}
	first := !known || m.boot != boot || before != alive
	r.boot, r.addr, r.location, r.capacity, r.declared = m.boot, m.addr, m.location, m.capacity, m.settled
	if r.capacity == 0 {
		r.capacity = 1
	}
	if m.placed {
		r.put(m.place)
	}
	if m.leaving {
		t.gone(r, left, now)
		return
	}
	if first {
		t.age(r, now) // what was dead for too long does not count again
		r.phase, r.since, t.stirred = alive, now, true
		switch {
		case !known || before == left:
			t.event(EventJoin, r, now, "", 0)
		case before == dead:
			t.event(EventRejoin, r, now, "answers again", lived)
		default:
			t.event(EventRejoin, r, now, "restarted", lived)
		}
		if r.declared && !r.settled && !t.self.settled {
			t.disown()
		}
	}
	t.alone = false
}

// disown ends the founders: there is an older overlay than theirs.
func (t *table) disown() {
	for _, r := range t.members {
		if r.founder {
			r.founder, r.voter = false, r.settled
		}
	}
}

// lost is told that a member does not answer or left.
func (t *table) lost(id string, now time.Time) {
	if r := t.members[id]; r != nil && r != t.self && r.phase == alive {
		t.gone(r, dead, now)
	}
}

func (t *table) gone(r *record, how phase, now time.Time) {
	if r.phase == how {
		return
	}
	kind := EventDeath
	if how == left {
		kind = EventLeave
		r.declared, r.settled, r.founder, r.voter = false, false, false, false
	}
	t.event(kind, r, now, "", now.Sub(r.since))
	r.phase, r.since, t.stirred = how, now, true
	r.placed, r.trips = false, trips{}
}

// state is what this node tells others.
func (t *table) state(nonce uint64, now time.Time) state {
	s := state{sender: t.self.id, boot: t.self.boot, nonce: nonce, age: now.Sub(t.started)}
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		r := t.members[id]
		// Founders vote among themselves only: where an older overlay hears this, they do not count.
		votes := r.voter && (r.settled || !r.founder)
		if r.phase != left && !r.settled && !votes || len(s.members) == maxEntries {
			continue
		}
		s.members = append(s.members, entry{id: id, boot: r.boot, phase: r.phase, settled: r.settled, voter: votes,
			since: now.Sub(r.since)})
	}
	return s
}

// merge is told what another node tells.
func (t *table) merge(s state, now time.Time) {
	for _, e := range s.members {
		r := t.members[e.id]
		counts := e.settled && (e.phase == alive || e.phase == dead && e.since < t.cfg.ForgetAfter)
		votes := e.voter && (e.phase == alive || e.phase == dead && e.since < t.cfg.MajorityWindow)
		switch {
		case r == nil:
			// Nobody else will tell of these any more; who is alive comes by itself.
			if len(t.members) < maxEntries && (e.phase == dead && votes || e.phase == left && e.since < t.cfg.MajorityWindow) {
				t.members[e.id] = &record{id: e.id, boot: e.boot, phase: e.phase, since: now.Add(-e.since),
					settled: counts, voter: votes}
			}
		case r == t.self:
			if counts && e.boot <= r.boot {
				r.settled, r.voter = true, true
			}
		case r.phase == left || e.boot > r.boot && r.boot != 0:
			// What left does not come back by hearsay, and of a new life its own meta tells.
		case r.phase == alive:
			if e.phase != left {
				r.settled, r.voter = r.settled || counts, r.voter || votes
			}
		case e.phase == left && e.boot == r.boot:
			t.gone(r, left, now)
		case e.phase == dead:
			lived := now.Sub(r.since)
			r.settled = r.settled || counts && lived < t.cfg.ForgetAfter
			r.voter = r.voter || votes && lived < t.cfg.MajorityWindow
		}
	}
}

// age ends what counted for too long after a death.
func (t *table) age(r *record, now time.Time) {
	if r.phase != dead {
		return
	}
	gone := now.Sub(r.since)
	if gone >= t.cfg.ForgetAfter && (r.settled || r.founder) {
		r.settled, r.founder = false, false
		t.event(EventForgotten, r, now, "", gone)
	}
	if gone >= t.cfg.MajorityWindow {
		r.voter = false
	}
}

// update draws the consequences of what was told and of the time. It says whether this node's own meta changed.
func (t *table) update(now time.Time) (declare bool) {
	for id, r := range t.members {
		t.age(r, now)
		if gone := now.Sub(r.since); r.phase == left && gone >= t.cfg.MajorityWindow ||
			r.phase == dead && gone >= max(t.cfg.MajorityWindow, t.cfg.RedialFor) {
			delete(t.members, id)
		}
	}
	if t.alone && now.Sub(t.started) >= t.cfg.MajorityWindow {
		t.alone = false
	}
	t.count(now)
	if !t.majority {
		t.held = now
	}
	if s := t.self; !s.declared &&
		(now.Sub(t.held) >= t.cfg.SettleAfter || s.settled || s.founder && !t.grown.IsZero()) {
		s.declared, declare = true, true
		t.count(now)
	}
	return declare
}

// count finds who counts, and the majority.
func (t *table) count(now time.Time) {
	grown := false
	for _, r := range t.members {
		if r.declared && r.phase == alive {
			r.settled = true
		}
		grown = grown || r.settled
	}
	switch {
	case !grown:
		t.grown = time.Time{}
	case t.grown.IsZero():
		t.grown = now
	}
	var settled []string
	var voters, present int
	lowest := t.self
	for id, r := range t.members {
		switch {
		case !grown && r.phase == alive:
			r.founder = true
		case grown && now.Sub(t.grown) >= t.grace():
			r.founder = false
		}
		if r.phase != left && (r.settled || r.founder) {
			r.voter = true
			settled = append(settled, id)
		}
		if !r.voter || r.phase == left {
			continue
		}
		voters++
		if r.phase == alive {
			present++
		}
		if voters == 1 || id < lowest.id {
			lowest = r
		}
	}
	slices.Sort(settled)
	majority, reason := true, ""
	switch {
	case t.alone:
		majority, reason = false, "none of the configured or known peers has answered yet"
	case 2*present < voters || 2*present == voters && lowest.phase != alive:
		majority, reason = false, fmt.Sprintf("only %d of %d members of the last %v are alive on this side", present, voters,
			t.cfg.MajorityWindow)
	}
	t.changed(settled, majority, reason, now)
}

// changed keeps what count found and tells what is new.
func (t *table) changed(settled []string, majority bool, reason string, now time.Time) {
	fresh := t.version == 0
	if !fresh && majority != t.majority {
		kind := EventMajority
		if !majority {
			kind = EventMinority
		}
		t.event(kind, nil, now, reason, 0)
	}
	same := slices.Equal(settled, t.settled)
	if !same {
		for _, id := range settled {
			if _, was := slices.BinarySearch(t.settled, id); !was {
				t.event(EventSettled, t.members[id], now, "", 0)
			}
		}
	}
	if fresh || !same || majority != t.majority || t.stirred {
		t.version++
	}
	t.settled, t.majority, t.reason, t.stirred = settled, majority, reason, false
}

// put keeps a place if it is newer than what is known.
func (r *record) put(p place) {
	if !r.placed || p.rev > r.place.rev {
		r.placed, r.place = true, p
	}
}
