package lease

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/node/wire"
)

// leases decides what to ask grantors for. Pure: time, randomness and what has to be done outside are arguments. Not safe for
// concurrent use.
type leases struct {
	cfg     *Config
	rnd     *rand.Rand
	grantor func(netip.Addr) string // as this node sees it now
	// grant tells the frontier, and who writes requests, of a right; none breaks off what is under way, too.
	grant func(addr netip.Addr, r Right, wait time.Duration)
	// halt has nothing more asked for; what is under way may end.
	halt func(addr netip.Addr)
	all  map[netip.Addr]*lease
	// leaving: everything goes back and nothing is wanted any more.
	leaving bool
	helds   []HeldError  // what OnHeld has to be told
	dueAt   time.Time    // when something is due next, of which nothing is under way
	counts  HolderStatus // that are counted as they happen
}

// lease is what this node knows of a server that it wants, holds or is about to give back.
type lease struct {
	right   Right  // none where it is not here
	grantor string // who granted it
	// unsure: this node was stopped since. Nothing is asked for before the grantor has renewed it.
	unsure bool

	wanted bool // by the frontier
	hold   bool // by the home, while it decides
	idle   time.Time
	// inFlight and report are the frontier's words, from when it was last asked.
	inFlight int
	report   Server
	reported time.Time

	// withdrawn: the frontier may not use it any more, and it goes back (to the successor) once nothing is in flight.
	withdrawn bool
	drained   bool // nothing is in flight
	released  bool // the grantor was told, and may have heard
	successor string

	next  time.Time // when to ask the grantor next
	busy  bool      // a call is under way
	void  bool      // its answer counts for nothing: the grantor has asked meanwhile what is held
	fails int       // calls in a row that failed
	why   string    // it is not here

	memory  *assign.Memory
	changed time.Time // when the memory changed last, zero: it is as the grantor has it
	sent    time.Time // when it was sent last

	waiters []chan error // of Hold; each gets one word
}

func (l *lease) live(now time.Time) bool { return now.Before(l.right.until.mono) }

// none says that the lease is not here, and none has to be ended.
func (l *lease) none() bool { return l.right == Right{} }

func (l *lease) needed() bool { return l.wanted || l.hold }

// get finds or makes the lease of a server.
func (h *leases) get(addr netip.Addr) *lease {
	l := h.all[addr]
	if l == nil {
		l = &lease{}
		h.all[addr] = l
	}
	return l
}

// want notes that the frontier wants a server.
func (h *leases) want(addr netip.Addr, now time.Time) {
	if h.leaving {
		return
	}
	l := h.get(addr)
	l.wanted, l.idle = true, time.Time{}
	h.revive(addr, l, now)
}

// revive takes back a withdrawal that the grantor does not know of yet.
func (h *leases) revive(addr netip.Addr, l *lease, now time.Time) {
	if l.withdrawn && l.successor == "" && !l.released && l.live(now) && !h.leaving {
		l.withdrawn, l.drained, l.next = false, false, now
		if !l.unsure {
			h.grant(addr, l.right, 0)
		}
	}
}

// tick compares what the frontier wants with what is here. The servers must be younger than all notices so far.
func (h *leases) tick(servers []Server, now time.Time) {
	seen := make(map[netip.Addr]bool, len(servers))
	for _, s := range servers {
		l := h.all[s.Addr]
		if l == nil {
			if !s.Wanted || h.leaving {
				continue
			}
			l = h.get(s.Addr)
		}
		seen[s.Addr] = true
		l.wanted, l.inFlight, l.report, l.reported = (s.Wanted || s.InFlight > 0) && !h.leaving, s.InFlight, s, now
	}
	for addr, l := range h.all {
		if !seen[addr] {
			l.wanted, l.inFlight = false, 0
		}
		h.review(addr, l, now)
	}
}

// review moves one lease on.
func (h *leases) review(addr netip.Addr, l *lease, now time.Time) {
	if !l.none() && !l.live(now) {
		h.expire(addr, l, "the lease ran out", now)
	}
	switch {
	case l.none():
		if !l.needed() && !l.busy {
			delete(h.all, addr)
		}
	case l.withdrawn:
		if l.needed() {
			h.revive(addr, l, now)
		}
		if l.withdrawn && !l.drained && l.inFlight == 0 {
			l.drained, l.next = true, now
		}
	case l.needed():
		l.idle = time.Time{}
	case l.idle.IsZero():
		l.idle = now
	case now.Sub(l.idle) >= h.cfg.ReleaseAfter() && !l.busy:
		h.withdraw(addr, l, now)
	}
}

// withdraw takes a server from the frontier, so that the lease can go back. The next tick sees whether something is
// in flight.
func (h *leases) withdraw(addr netip.Addr, l *lease, now time.Time) {
	l.withdrawn, l.drained, l.inFlight = true, false, 1
	l.next = now.Add(2 * h.cfg.Time) // not before a tick has looked
	h.halt(addr)
}

// expire ends a lease that this node did not give back.
func (h *leases) expire(addr netip.Addr, l *lease, why string, now time.Time) {
	if !l.withdrawn {
		h.counts.Expired++
	}
	h.end(addr, l, why, now)
}

// end forgets a lease that is over.
func (h *leases) end(addr netip.Addr, l *lease, why string, now time.Time) {
	h.grant(addr, Right{}, 0)
	l.right, l.grantor, l.unsure = Right{}, "", false
	l.withdrawn, l.drained, l.released, l.successor, l.idle = false, false, false, "", time.Time{}
	l.why, l.next = why, now
}

// stopped is what becomes of leases where this node was stopped: those that have run out by a clock, or of which the clocks
// say different things, end. The others are to be renewed before anything more is asked for; what is under way may end, for
// nobody else has them.
func (h *leases) stopped(now moment) {
	for addr, l := range h.all {
		switch {
		case l.none():
		case l.right.check(now) != nil:
			h.expire(addr, l, wasStopped, now.mono)
		default:
			l.unsure, l.why = true, wasStopped
			h.halt(addr)
			if !l.withdrawn {
				l.next, l.fails = now.mono, 0
			}
		}
	}
}

const wasStopped = "this node was stopped, or its clock jumped"

// setView has leases claimed at their new grantors, and servers asked for that a former view denied.
func (h *leases) setView(now time.Time) {
	for addr, l := range h.all {
		if h.grantor(addr) != l.grantor && (!l.withdrawn || l.drained) {
			l.next, l.fails = now, 0
		}
	}
}

// lookIn is when the frontier's servers are to be looked at next.
func (h *leases) lookIn() time.Duration {
	if h.leaving {
		return gather
	}
	for _, l := range h.all {
		if l.withdrawn && !l.drained { // somebody waits for it
			return h.cfg.check()
		}
	}
	if len(h.all) == 0 {
		return idleLook
	}
	return lookEvery
}

// item is a wish on its way: which, for whom, and what it was based on.
type item struct {
	addr   netip.Addr
	lease  *lease
	wish   wire.Wish
	memory time.Time // changed, of the memory that was sent; zero: none was
}

// due is what to ask each grantor now, at most maxItems each, except of grantors that are busy. Renewals that would be due soon
// go along: so the leases of one grantor come to be renewed by one message. The items are marked as being under way until
// answered or failed is told.
func (h *leases) due(now time.Time, busy map[string]bool) map[string][]item {
	var due map[string][]item
	var company []item // renewals that are not due yet
	h.dueAt = now.Add(h.cfg.Window())
	for addr, l := range h.all {
		wish := h.wish(l, addr, now)
		if l.busy || wish == wire.Wish_WISH_UNSPECIFIED {
			continue
		}
		if l.next.After(now) {
			if l.next.Before(h.dueAt) {
				h.dueAt = l.next
			}
			if early := l.live(now) && !l.withdrawn && l.fails == 0 && !l.next.After(now.Add(h.cfg.early())); !early {
				continue
			}
		}
		grantor := h.grantor(addr)
		if grantor == "" || busy[grantor] || len(due[grantor]) >= maxItems {
			continue
		}
		it := item{addr: addr, lease: l, wish: wish}
		if l.next.After(now) {
			company = append(company, it)
			continue
		}
		l.busy = true
		if due == nil {
			due = map[string][]item{}
		}
		due[grantor] = append(due[grantor], it)
	}
	for _, it := range company {
		if grantor := h.grantor(it.addr); len(due[grantor]) > 0 && len(due[grantor]) < maxItems {
			it.lease.busy = true
			due[grantor] = append(due[grantor], it)
		}
	}
	return due
}

// wish is what has to be said about a server.
func (h *leases) wish(l *lease, addr netip.Addr, now time.Time) wire.Wish {
	switch {
	case !l.live(now):
		if l.needed() && l.none() {
			return wire.Wish_WISH_ACQUIRE
		}
		return wire.Wish_WISH_UNSPECIFIED // the next tick ends it
	case l.withdrawn && h.grantor(addr) == l.grantor:
		return wire.Wish_WISH_RELEASE
	default:
		// A new grantor must know the lease before it can be given back.
		return wire.Wish_WISH_RENEW
	}
}

// message is an item as it goes over the wire. Memories go with it if the grantor lacks what they say.
func (h *leases) message(it *item, grantor string, now time.Time) *wire.LeaseItem {
	l := it.lease
	addr := it.addr.AsSlice()
	m := &wire.LeaseItem{Server: addr, Wish: it.wish}
	if it.wish == wire.Wish_WISH_ACQUIRE {
		return m
	}
	passed := now.Sub(l.reported)
	if !l.reported.IsZero() {
		m.WaitMs = max(0, l.report.Wait-passed).Milliseconds()
		m.Level = uint32(l.report.Level)
	}
	if it.wish == wire.Wish_WISH_RELEASE {
		l.released = true
		m.Successor = l.successor
	}
	if l.memory != nil && !l.memory.Empty() {
		elsewhere := grantor != l.grantor // it may know nothing
		fresh := !l.changed.IsZero() && (it.wish == wire.Wish_WISH_RELEASE || now.Sub(l.sent) >= h.cfg.memoryEvery())
		if elsewhere || fresh {
			m.Memory = l.memory.AppendBinary(nil, now)
			l.sent, it.memory = now, l.changed
		}
	}
	return m
}

// failed notes that a grantor could not be reached.
func (h *leases) failed(it item, grantor string, now time.Time) {
	l := it.lease
	l.busy, l.void, l.sent = false, false, time.Time{}
	l.why = "grantor " + grantor + " cannot be reached"
	h.retry(l, now)
}

// retry asks again after a pause that doubles.
func (h *leases) retry(l *lease, now time.Time) {
	pause := h.cfg.retryMax()
	if l.fails < 16 {
		pause = min(pause, h.cfg.retryMin()<<l.fails)
	}
	l.fails++
	l.next = now.Add(h.jitter(pause))
}

// jitter is between 3/4 and 5/4 of a time.
func (h *leases) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.5*h.rnd.Float64()))
}

// answered takes a grantor's answer to an item sent at that time.
func (h *leases) answered(it item, grantor string, a *wire.LeaseAnswer, sent moment, now time.Time) {
	l := it.lease
	void := l.void || h.grantor(it.addr) != grantor
	l.busy, l.void = false, false
	switch {
	case void && it.wish != wire.Wish_WISH_RELEASE:
		// A lease counts only if it comes from who is the grantor now, and was asked for after its inquiry, if there was one:
		// else somebody may have said already that this node has none.
		l.why, l.next = "its grantor changed", now
	case it.wish == wire.Wish_WISH_RELEASE:
		// Whatever the answer: the grantor does not count it as granted to this node any more, or will in time.
		h.counts.Released++
		h.end(it.addr, l, "given back", now)
		h.review(it.addr, l, now)
	case a.GetGrant() == wire.Grant_GRANT_GIVEN:
		h.given(it, grantor, a, sent, now)
	case a.GetGrant() == wire.Grant_GRANT_HELD:
		h.held(it.addr, l, a.GetHolder(), now)
	case a.GetGrant() == wire.Grant_GRANT_LATER:
		l.why = "grantor " + grantor + " waits until older leases have run out"
		l.fails = 0
		pause := max(h.cfg.retryMin(), min(time.Duration(a.GetRetryMs())*time.Millisecond, h.cfg.Time+h.cfg.Skew))
		if l.live(now) {
			pause = min(pause, h.cfg.retryMax())
		}
		l.next = now.Add(pause + time.Duration(h.rnd.Float64()*float64(h.cfg.retryMin())))
	case a.GetGrant() == wire.Grant_GRANT_ELSEWHERE:
		l.why = "node " + grantor + " does not see itself as the grantor"
		h.retry(l, now)
	default:
		l.why = "grantor " + grantor + " could not read the wish"
		h.retry(l, now)
	}
}

// given takes a lease, or more of it.
func (h *leases) given(it item, grantor string, a *wire.LeaseAnswer, sent moment, now time.Time) {
	l := it.lease
	if it.wish == wire.Wish_WISH_RENEW && !l.live(now) {
		// The old lease ended before the answer came: somebody may have been in between. To ask anew is safe.
		l.next = now
		return
	}
	until := sent.add(max(0, min(time.Duration(a.GetForMs())*time.Millisecond, h.cfg.Time)))
	if !until.mono.After(now) {
		h.retry(l, now)
		return
	}
	l.grantor, l.fails, l.why, l.unsure = grantor, 0, "", false
	if until.mono.After(l.right.until.mono) {
		l.right = Right{until}
	}
	l.next = sent.mono.Add(h.cfg.Time/2 - time.Duration(h.rnd.Float64()*float64(h.cfg.Time)/20))
	if it.memory.Equal(l.changed) { // nothing has been learnt since it was sent
		l.changed = time.Time{}
	}
	var wait time.Duration
	if it.wish == wire.Wish_WISH_ACQUIRE {
		wait = max(0, min(time.Duration(a.GetWaitMs())*time.Millisecond, maxWait))
		h.remember(l, a, now)
	}
	if l.withdrawn {
		l.next = now
		if !l.drained {
			l.next = now.Add(2 * h.cfg.Time)
		}
		return
	}
	h.grant(it.addr, l.right, wait)
	if !l.needed() && l.idle.IsZero() { // a renewal does not make it wanted
		l.idle = now
	}
	l.tell(nil)
}

// remember takes over what the grantor knows of a server, unless this node knows better.
func (h *leases) remember(l *lease, a *wire.LeaseAnswer, now time.Time) {
	stored := now.Add(-max(0, time.Duration(min(a.GetMemoryAgeMs(), maxAgeMs))*time.Millisecond))
	if len(a.GetMemory()) == 0 {
		if l.memory != nil && l.changed.IsZero() {
			l.changed = now
		}
		return
	}
	if l.memory != nil && l.changed.After(stored) {
		return
	}
	if m, err := assign.DecodeMemory(a.GetMemory(), stored); err == nil {
		l.memory, l.changed = &m, time.Time{}
	}
}

// maxAgeMs bounds the ages that peers tell, in ms: thirty years.
const maxAgeMs = 30 * 365 * 24 * 3600 * 1000

// held notes that another node has the server.
func (h *leases) held(addr netip.Addr, l *lease, by string, now time.Time) {
	if !l.none() {
		h.expire(addr, l, "", now) // the grantor knows of somebody else: whoever is right, to stop is safe
	}
	l.why = "leased to " + by
	l.fails, l.hold = 0, false
	l.next = now.Add(h.jitter(h.cfg.HeldRetry()))
	err := HeldError{Addr: addr, Holder: by}
	h.helds = append(h.helds, err)
	l.tell(&err)
}

// tell ends the waiting of all who wait for the lease.
func (l *lease) tell(err error) {
	for _, w := range l.waiters {
		w <- err
	}
	l.waiters = nil
}
