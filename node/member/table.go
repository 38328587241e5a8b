package member

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"proxima/ncoord"
	"proxima/ncoord/quantile"
	"proxima/node/view"
)

// table knows who is there, who counts, and whether that is the majority. It is a pure function of what it is told and
// when: no clock, no network, no locks.
//
// All nodes must agree on who is settled, or two of them take different nodes for the home of one host. So a member
// declares in its own meta that it is settled, and all believe it:
//
//   - A node declares itself settled when it has seen the majority for SettleAfter without a break.
//   - While nobody has declared that (a fresh overlay), all count as founders. They go on counting when the first of them
//     declares itself. The others then declare themselves at once; after a grace, founders no longer count. A node that
//     meets an overlay older than itself is no founder there and waits its turn.
//   - A settled member counts while it is alive and until it has been dead for ForgetAfter. Leaving in order ends it at
//     once. A member that restarts in time learns from its peers' states that it counts, and declares it.
//   - Newcomers learn of the dead that still count from the state of those they join.
//
// A member is alive, dead or left (phase):
//
//	            seen                    lost
//	(unknown) ───────► alive ◄─────────────────► dead ──► counts no more after ForgetAfter (age)
//	                    │ ▲      seen again        │
//	           farewell ▼ │ seen                   │ others say that it has left
//	                     left ◄────────────────────┘
//
// update drops those that have been dead or have left for long, but no voters.
//
// The majority decides whose votes count for the majority, and each node keeps that for its next life: see paxos and
// majority.go. On the side of a minority, no node declares itself settled.
type table struct {
	cfg   Config
	self  *record
	paxos paxos
	// started is when this life began, met when a new member last appeared.
	started, met time.Time
	// held is since when this side has been the majority, lacked since when it has not been, without a break.
	held, lacked time.Time
	// stopped is when this node last dropped all answers because it had stood still, updated when it last looked at the time.
	stopped, updated time.Time
	// wished is since when there has been something to decide about the voters, tried when this node may next try.
	wished, tried time.Time
	// grown is when the first member was seen settled, zero while nobody is.
	grown   time.Time
	members map[string]*record

	version      uint64
	settled      []string
	majority     bool
	farewellAcks map[string]bool // who has acknowledged this node's farewell; nil before it
	stirred      bool            // somebody came or went since the last count
	events       []Event         // for Deps.Event
}

// record is what this node knows of a member, or of a voter that it has never met.
type record struct {
	id     string
	boot   uint64
	gossip string // host:port of the gossip
	phase  phase
	since  time.Time // start of the phase
	// declared is what the member says of itself in this life. settled says that it counts, for that or an earlier
	// declaration; founder that it counts because nobody had declared anything.
	declared, settled, founder bool
	// stamp identifies the voters that it knows, matched is when that last agreed with this node. gave is the stamp
	// with which it gave up its vote and left. asked is when it was last asked for its set.
	stamp, gave    uint64
	matched, asked time.Time
	// back is since when it has been here again without a vote, which it gave up in the present set.
	back time.Time
	// heard is when it was asked the question that it answered last, pinged when it was last pinged beside the gossip.
	heard, pinged time.Time
	unseen        bool // not seen in this life of this node
	over          bool // it said in this life that the crawl is over
	saidFarewell  bool // it said farewell, and gossip has not reported its end yet

	way      view.Way // how it is reached
	addr     string
	location *ncoord.Location
	placed   bool
	place    place
	bad      bool // its meta cannot be read
	trips    trips
}

// at is the gossip address of a member, nil if it is not valid.
func (r *record) at() *net.UDPAddr {
	at, err := netip.ParseAddrPort(r.gossip)
	if err != nil {
		return nil
	}
	return net.UDPAddrFromAddrPort(at)
}

// newTable makes the table of a node that has met nobody. A node that knows of no peers founds an overlay; one that
// does waits for them.
func newTable(cfg Config, id string, boot uint64, peers bool, now time.Time) *table {
	self := &record{id: id, boot: boot, since: now}
	t := &table{cfg: cfg, self: self, paxos: paxos{self: id}, started: now, held: now, lacked: now,
		members: map[string]*record{id: self}}
	if !peers {
		t.paxos.found(now, id)
	}
	t.update(now)
	return t
}

// grace is how long undeclared founders count once others have declared themselves.
func (t *table) grace() time.Duration { return max(t.cfg.SettleAfter/4, time.Second) }

// event queues an event about a member, or about this side if r is nil.
func (t *table) event(kind string, r *record, now time.Time, reason string) {
	if t.farewellAcks != nil {
		return // this node leaves, and does not hear all: others that leave, too, would be taken for dead
	}
	e := Event{Kind: kind, Time: now, Reason: reason}
	if r != nil {
		e.ID, e.Addr = r.id, r.gossip
	}
	t.emit(e)
}

// maxEvents bounds the events that wait. Above half of it, samples are dropped.
const maxEvents = 8192

// emit queues an event if there is room.
func (t *table) emit(e Event) bool {
	if len(t.events) >= maxEvents || e.Kind == EventSample && len(t.events) >= maxEvents/2 {
		return false
	}
	t.events = append(t.events, e)
	return true
}

// seen handles a live member at a gossip address, and what it publishes; err is why that is unreadable.
func (t *table) seen(id, gossip string, m meta, err error, now time.Time) {
	if id == t.self.id {
		return
	}
	r, known := t.members[id]
	if known && r.unseen {
		known, r.phase = false, left
	}
	if r == nil {
		r = &record{id: id, phase: left}
		t.members[id] = r
	}
	before, boot := r.phase, r.boot
	r.gossip, r.unseen = gossip, false
	if err != nil {
		if !r.bad {
			t.event(EventBadMeta, r, now, err.Error())
		}
		m = meta{boot: r.boot, addr: r.addr, location: r.location, settled: r.declared, stamp: r.stamp, way: r.way}
	}
	r.bad = err != nil
	if m.boot < boot && before == alive || known && r.saidFarewell && m.boot <= boot {
		return // old news, of an earlier life or from before its farewell
	}
	if m.boot != boot {
		r.placed, r.over = false, false
	}
	first := !known || m.boot != boot || before != alive
	r.saidFarewell = false
	r.boot, r.addr, r.location, r.declared = m.boot, m.addr, m.location, m.settled
	r.stamp, r.over = m.stamp, r.over || m.over
	t.setWay(r, m.way, now)
	if m.over && m.stamp == t.paxos.plain() {
		r.gave = m.stamp
	}
	if m.placed {
		r.put(m.place)
	}
	if first {
		t.came(r, known, now)
	}
	if r.stamp == t.paxos.plain() {
		r.matched = now
	}
}

// came notes that a member is alive that was not, or that has begun a new life. known says that this node has met it before.
func (t *table) came(r *record, known bool, now time.Time) {
	before := r.phase
	t.age(r, now) // if it was dead for too long, it does not count again
	r.phase, r.since, t.stirred, t.met = alive, now, true, now
	r.matched = time.Time{}
	switch {
	case !known || before == left:
		t.event(EventJoin, r, now, "")
	case before == dead:
		t.event(EventRejoin, r, now, "answers again")
	default:
		t.event(EventRejoin, r, now, "restarted")
	}
	if r.declared && !r.settled && !t.self.settled {
		for _, o := range t.members { // an older overlay exists
			o.founder = false
		}
	}
}

// setWay notes how to reach a member from now on.
func (t *table) setWay(r *record, way view.Way, now time.Time) {
	if was := r.way.Reach; was != way.Reach {
		t.event(EventReach, r, now, fmt.Sprintf("%v, was %v", way.Reach, was))
		t.stirred = t.stirred || was == view.Outbound || way.Reach == view.Outbound
	}
	r.way = way
}

// homes returns the settled members that can be dialled, or all if none can.
func (t *table) homes() (homes []string) {
	homes = slices.DeleteFunc(slices.Clone(t.settled), func(id string) bool { return t.members[id].way.Reach == view.Outbound })
	if len(homes) == 0 {
		return slices.Clone(t.settled)
	}
	return homes
}

// lost handles a member that no longer answers, or has left.
func (t *table) lost(id string, now time.Time) {
	r := t.members[id]
	if r == nil || r == t.self {
		return
	}
	if r.saidFarewell = false; r.phase == alive {
		t.gone(r, dead, now)
	}
}

// gone notes that a member is dead or has left.
func (t *table) gone(r *record, how phase, now time.Time) {
	if r.phase == how {
		return
	}
	kind := EventDeath
	if how == left {
		kind = EventLeave
		r.declared, r.settled, r.founder = false, false, false
	}
	reason := ""
	if r.over {
		reason = "the crawl is over"
	}
	t.event(kind, r, now, reason)
	r.phase, r.since, t.stirred = how, now, true
	r.placed, r.trips = false, trips{}
}

// state returns what this node tells others.
func (t *table) state(nonce uint64, now time.Time) state {
	c := &t.paxos
	s := state{sender: t.self.id, boot: t.self.boot, nonce: nonce, age: now.Sub(t.started), set: voters{c.set.origin, c.set.version, nil}}
	room := maxEntries - len(c.set.ids)
	for _, id := range slices.Sorted(maps.Keys(t.members)) {
		r := t.members[id]
		votes := c.set.has(id)
		switch {
		case votes:
		case r.phase != left && !r.settled && !r.over || room <= 0:
			continue
		default:
			room--
		}
		s.members = append(s.members, entry{id: id, boot: r.boot, phase: r.phase, settled: r.settled, voter: votes,
			gave: votes && t.absent(id), over: r.over, since: now.Sub(r.since)})
	}
	return s
}

// merge handles the state of another node.
func (t *table) merge(s state, now time.Time) {
	var ids []string
	for _, e := range s.members {
		if e.voter {
			ids = append(ids, e.id)
		}
	}
	t.adopt(voters{s.set.origin, s.set.version, ids}, now)
	// It came by a stream, so both directions work. But a stream may have waited here while this node stood still.
	if now.Sub(t.stopped) >= t.cfg.HearWithin {
		t.answered(s.sender, now)
	}
	same := s.set.compare(t.paxos.set) == 0
	for _, e := range s.members {
		r := t.members[e.id]
		counts := e.settled && (e.phase == alive || e.phase == dead && e.since < t.cfg.ForgetAfter)
		switch {
		case r == nil:
			// Nobody else will tell of these; live ones come by themselves, unless they die before.
			if len(t.members) < maxEntries && (e.phase == dead && counts || e.over || e.phase == left && e.since < t.cfg.MajorityWindow) {
				if e.phase == alive {
					e.phase, e.since = dead, 0
				}
				r = &record{id: e.id, boot: e.boot, phase: e.phase, since: now.Add(-e.since), settled: counts, unseen: true}
				t.members[e.id] = r
			}
		case r == t.self:
			if counts && e.boot <= r.boot {
				r.settled = true
			}
		case r.phase == left || e.boot > r.boot && r.boot != 0:
			// Hearsay does not bring back who left, and a new life publishes its own meta.
		case r.phase == alive:
			r.settled = r.settled || counts
		case e.phase == left && (e.boot == r.boot || r.unseen):
			t.gone(r, left, now)
		case e.phase == dead:
			if r.unseen {
				r.since = now.Add(-e.since)
			}
			r.settled = r.settled || counts && now.Sub(r.since) < t.cfg.ForgetAfter
		}
		if e.over && r != nil && r != t.self && (e.boot == r.boot || r.unseen) {
			r.over = true
		}
		if same && e.gave && r != nil && r != t.self {
			r.gave = t.paxos.plain()
		}
	}
}

// age ends that a member counts as settled, or as a founder, once it has been dead for ForgetAfter.
func (t *table) age(r *record, now time.Time) {
	if r.phase == dead && now.Sub(r.since) >= t.cfg.ForgetAfter && (r.settled || r.founder) {
		r.settled, r.founder = false, false
		t.event(EventForgotten, r, now, "")
	}
}

// update brings everything up to date with what was told and with the time.
func (t *table) update(now time.Time) {
	for id, r := range t.members {
		t.age(r, now)
		if gone := now.Sub(r.since); !t.paxos.set.has(id) && (r.phase == left && gone >= t.cfg.MajorityWindow ||
			r.phase == dead && gone >= max(t.cfg.MajorityWindow, redialFor)) {
			delete(t.members, id)
		}
	}
	t.foundIfLowest(now)
	t.count(now)
	if t.majority || now.Sub(t.updated) > behindFor { // what happened while this node stood still is not known
		t.lacked = now
	}
	if t.updated = now; !t.majority {
		t.held = now
	}
	if s := t.self; !s.declared &&
		(now.Sub(t.held) >= t.cfg.SettleAfter || s.settled || s.founder && !t.grown.IsZero()) {
		s.declared = true
		t.count(now)
	}
}

// count finds who counts, and whether that is the majority.
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
	for id, r := range t.members {
		switch {
		case !grown && r.phase == alive:
			r.founder = true
		case grown && now.Sub(t.grown) >= t.grace():
			r.founder = false
		}
		if r.settled || r.founder {
			settled = append(settled, id)
		}
	}
	slices.Sort(settled)
	t.changed(settled, t.paxos.majority(t.there(now), t.absent), now)
}

// changed stores what count found, and emits events about what is new in it.
func (t *table) changed(settled []string, majority bool, now time.Time) {
	fresh, turned := t.version == 0, majority != t.majority
	t.majority = majority
	if !fresh && turned && !t.paxos.quit {
		kind, reason := EventMajority, ""
		if !majority {
			kind, reason = EventMinority, t.whyMinority(now)
		}
		t.event(kind, nil, now, reason)
	}
	same := slices.Equal(settled, t.settled)
	for _, id := range settled {
		if _, was := slices.BinarySearch(t.settled, id); !was {
			t.event(EventSettled, t.members[id], now, "")
		}
	}
	if fresh || !same || turned || t.stirred {
		t.version++
	}
	t.settled, t.stirred = settled, false
}

// makeRoom makes room for one member more, and reports whether there is any. If there are too many, it drops the one that has been dead for longest
// among those that neither count nor vote.
func (t *table) makeRoom() bool {
	if len(t.members) < maxEntries {
		return true
	}
	var oldest *record
	for id, r := range t.members {
		if r.phase == dead && !r.settled && !r.founder && !r.over && !t.paxos.set.has(id) && (oldest == nil || r.since.Before(oldest.since)) {
			oldest = r
		}
	}
	if oldest == nil {
		return false
	}
	delete(t.members, oldest.id)
	return true
}

// put stores a place if it is newer.
func (r *record) put(p place) {
	if !r.placed || p.rev > r.place.rev {
		r.placed, r.place = true, p
	}
}

// trips are the latest round trips to a peer, in ms.
type trips struct {
	ms [8]float64
	n  int // number of all, more than are kept
}

func (t *trips) add(d time.Duration) {
	t.ms[t.n%len(t.ms)] = float64(d) / float64(time.Millisecond)
	t.n++
}

// median returns the lower median, 0 if there is none.
func (t *trips) median() float64 {
	kept := t.ms
	n := min(t.n, len(kept))
	if n == 0 {
		return 0
	}
	slices.Sort(kept[:n])
	return quantile.Of(kept[:n], .5)
}
