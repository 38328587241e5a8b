package lease

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/node/wire"
)

// leases decides what to ask grantors for. It is pure: time, randomness and effects are arguments. It is not safe for concurrent
// use.
type leases struct {
	cfg     *Config
	rnd     *rand.Rand
	grantor func(netip.Addr) string // in the present view
	// grant allows requests to a server. The zero Right ends them, those under way included.
	grant func(addr netip.Addr, r Right, wait time.Duration)
	halt  func(addr netip.Addr) // allows no new requests; those under way may finish
	deny  func(*HeldError)      // tells that another node has a server
	all   map[netip.Addr]*lease

	leaving bool         // everything goes back, and nothing is wanted any more
	dueAt   time.Time    // when the next item is due
	counts  HolderStatus // the counters; gauges are filled in by Status
}

// lease is the state of a server that this node wants, holds or gives back.
type lease struct {
	right   Right  // zero if this node does not hold the server
	grantor string // that granted it
	unsure  bool   // there was a gap since: nothing is asked until the grantor renews

	wanted bool      // by the frontier
	hold   bool      // by a batch (Hold)
	idle   time.Time // since when it is neither
	// What the frontier last said: the requests in flight, and until when the server must be left alone. Of a lease that has just been
	// withdrawn it has said nothing yet: one counts as in flight.
	inFlight int
	quiet    time.Time

	withdrawn bool   // the frontier may not use it, and it goes back once nothing is in flight
	released  bool   // the grantor was told, and may have heard
	successor string // the node for which it is given back

	next  time.Time // when to ask the grantor next
	busy  bool      // a call is under way
	void  bool      // its answer will not count, because it was sent before the grantor's inquiry, or before a gap
	fails int       // failed calls in a row
	why   string    // why this node does not hold it, for Why

	memory  *assign.Memory
	changed time.Time // when the memory changed; zero if the grantor has it

	waiters []chan error // of Hold; each has room for the one value it receives
}

func (l *lease) live(now time.Time) bool { return now.Before(l.right.until.mono) }

// none reports whether there is no right, not even one that must be ended.
func (l *lease) none() bool { return l.right == Right{} }

func (l *lease) needed() bool { return l.wanted || l.hold }

// get returns the lease of a server and makes it if needed.
func (ls *leases) get(addr netip.Addr) *lease {
	l := ls.all[addr]
	if l == nil {
		l = &lease{}
		ls.all[addr] = l
	}
	return l
}

// want notes that the frontier wants a server.
func (ls *leases) want(addr netip.Addr, now time.Time) {
	if ls.leaving {
		return
	}
	l := ls.get(addr)
	l.wanted, l.idle = true, time.Time{}
	ls.revive(addr, l, now)
}

// revive cancels a withdrawal of which the grantor does not know yet.
func (ls *leases) revive(addr netip.Addr, l *lease, now time.Time) {
	if l.withdrawn && l.successor == "" && !l.released && l.live(now) {
		l.withdrawn, l.next, l.idle = false, now, time.Time{}
		if !l.unsure {
			ls.grant(addr, l.right, 0)
		}
	}
}

// tick takes what the frontier wants, which must be newer than all calls of want so far, and reviews all leases.
func (ls *leases) tick(servers []Server, now time.Time) {
	seen := make(map[netip.Addr]bool, len(servers))
	for _, s := range servers {
		if ls.all[s.Addr] == nil && (!s.Wanted || ls.leaving) {
			continue
		}
		l := ls.get(s.Addr)
		seen[s.Addr] = true
		l.wanted, l.inFlight, l.quiet = (s.Wanted || s.InFlight > 0) && !ls.leaving, s.InFlight, now.Add(s.Wait)
	}
	for addr, l := range ls.all {
		if !seen[addr] {
			l.wanted, l.inFlight = false, 0
		}
		ls.review(addr, l, now)
	}
}

// review moves a lease to its next state if that is due.
func (ls *leases) review(addr netip.Addr, l *lease, now time.Time) {
	if !l.none() && !l.live(now) {
		ls.expire(addr, l, "the lease ran out", now)
	}
	switch {
	case l.none():
		if !l.needed() && !l.busy {
			delete(ls.all, addr)
		}
	case l.withdrawn:
		if l.needed() {
			ls.revive(addr, l, now)
		}
	case l.needed():
		l.idle = time.Time{}
	case l.idle.IsZero():
		l.idle = now
	case now.Sub(l.idle) >= ls.cfg.ReleaseAfter() && !l.busy:
		ls.withdraw(addr, l, now)
	}
}

// withdraw takes a server from the frontier, so that the lease can go back. The next tick finds out whether requests are in
// flight.
func (ls *leases) withdraw(addr netip.Addr, l *lease, now time.Time) {
	l.withdrawn, l.inFlight, l.next = true, 1, now
	ls.halt(addr)
}

// expire ends a lease that was not given back.
func (ls *leases) expire(addr netip.Addr, l *lease, why string, now time.Time) {
	if !l.withdrawn {
		ls.counts.Expired++
	}
	ls.end(addr, l, why, now)
}

// end resets a lease that is over.
func (ls *leases) end(addr netip.Addr, l *lease, why string, now time.Time) {
	ls.grant(addr, Right{}, 0)
	l.right, l.grantor, l.unsure = Right{}, "", false
	l.withdrawn, l.released, l.successor, l.idle = false, false, "", time.Time{}
	l.why, l.next = why, now
}

// stopped handles a gap. Leases that are over by either clock, or about which the clocks disagree, end. The others must be renewed
// before their servers are asked again. Requests under way may finish, because nobody else holds those servers.
func (ls *leases) stopped(now moment) {
	for addr, l := range ls.all {
		l.void = l.busy
		switch {
		case l.none():
		case l.right.check(now) != nil:
			ls.expire(addr, l, wasStopped, now.mono)
		default:
			l.unsure, l.why = true, wasStopped
			ls.halt(addr)
			if !l.withdrawn {
				l.next, l.fails = now.mono, 0
			}
		}
	}
}

const wasStopped = "this node was stopped, or its clock jumped"

// setView makes due what must be said to new grantors.
func (ls *leases) setView(now time.Time) {
	for addr, l := range ls.all {
		if ls.grantor(addr) != l.grantor {
			l.next, l.fails = now, 0
		}
	}
}

// item is a wish about one server, in a message to its grantor.
type item struct {
	addr   netip.Addr
	lease  *lease
	wish   wire.Wish
	memory time.Time // lease.changed of the memory that was sent; zero if none was
}

// due returns what to ask each grantor now, at most maxItems each, except grantors that are busy. Renewals that are due soon go
// along, so that in time one message renews all leases of a grantor. The items are busy until answered or failed is called.
func (ls *leases) due(now time.Time, busy map[string]bool) map[string][]item {
	due := make(map[string][]item)
	var company []item // renewals that are due soon
	ls.dueAt = now.Add(ls.cfg.Window())
	for addr, l := range ls.all {
		wish := ls.wish(l, addr, now)
		if l.busy || wish == wire.Wish_WISH_UNSPECIFIED {
			continue
		}
		if l.next.After(now) {
			if l.next.Before(ls.dueAt) {
				ls.dueAt = l.next
			}
			if early := l.live(now) && !l.withdrawn && l.fails == 0 && !l.next.After(now.Add(ls.cfg.early())); !early {
				continue
			}
		}
		grantor := ls.grantor(addr)
		if grantor == "" || busy[grantor] || len(due[grantor]) >= maxItems {
			continue
		}
		it := item{addr: addr, lease: l, wish: wish}
		if l.next.After(now) {
			company = append(company, it)
			continue
		}
		l.busy = true
		due[grantor] = append(due[grantor], it)
	}
	for _, it := range company {
		if grantor := ls.grantor(it.addr); len(due[grantor]) > 0 && len(due[grantor]) < maxItems {
			it.lease.busy = true
			due[grantor] = append(due[grantor], it)
		}
	}
	return due
}

// wish returns what must be said about a server.
func (ls *leases) wish(l *lease, addr netip.Addr, now time.Time) wire.Wish {
	switch {
	case !l.live(now):
		if l.needed() && l.none() {
			return wire.Wish_WISH_ACQUIRE
		}
		return wire.Wish_WISH_UNSPECIFIED // the next tick ends the lease
	case l.withdrawn && l.inFlight > 0:
		return wire.Wish_WISH_UNSPECIFIED
	case l.withdrawn && ls.grantor(addr) == l.grantor:
		return wire.Wish_WISH_RELEASE
	default:
		// This includes withdrawn leases with a new grantor: it must know the lease before it can be given back.
		return wire.Wish_WISH_RENEW
	}
}

// message makes the message for an item, with the memory if it is news to the grantor.
func (ls *leases) message(it *item, grantor string, now time.Time) *wire.LeaseItem {
	l := it.lease
	addr := it.addr.AsSlice()
	m := &wire.LeaseItem{Server: addr, Wish: it.wish}
	if it.wish == wire.Wish_WISH_ACQUIRE {
		return m
	}
	m.WaitMs = max(0, l.quiet.Sub(now)).Milliseconds()
	if it.wish == wire.Wish_WISH_RELEASE {
		l.released = true
		m.Successor = l.successor
	}
	// A new grantor may know nothing of it.
	if l.memory != nil && !l.memory.Empty() && (!l.changed.IsZero() || grantor != l.grantor) {
		m.Memory = l.memory.AppendBinary(nil, now)
		it.memory = l.changed
	}
	return m
}

// failed notes that a grantor could not be reached.
func (ls *leases) failed(it item, grantor string, now time.Time) {
	l := it.lease
	l.busy, l.void = false, false
	l.why = "grantor " + grantor + " cannot be reached"
	ls.retry(l, now)
}

// retry asks again after a pause that doubles with each failure.
func (ls *leases) retry(l *lease, now time.Time) {
	pause := min(ls.cfg.retryMax(), ls.cfg.retryMin()<<min(l.fails, 16))
	l.fails++
	l.next = now.Add(ls.jitter(pause))
}

// jitter returns between 3/4 and 5/4 of a time.
func (ls *leases) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.75 + 0.5*ls.rnd.Float64()))
}

// answered takes a grantor's answer to an item, which was sent at a time.
func (ls *leases) answered(it item, grantor string, a *wire.LeaseAnswer, sent moment, now time.Time) {
	l := it.lease
	void := l.void || ls.grantor(it.addr) != grantor
	l.busy, l.void = false, false
	switch {
	case void && it.wish != wire.Wish_WISH_RELEASE:
		// A grant counts only from the present grantor, and only if it was asked for after the grantor's inquiry, if there was
		// one: this node may have answered that it does not hold the server.
		l.why, l.next = "its grantor changed", now
	case it.wish == wire.Wish_WISH_RELEASE:
		// Whatever the answer, the grant is over or will expire at the grantor.
		ls.counts.Released++
		ls.end(it.addr, l, "given back", now)
		ls.review(it.addr, l, now)
	case a.GetGrant() == wire.Grant_GRANT_GIVEN:
		ls.given(it, grantor, a, sent, now)
	case a.GetGrant() == wire.Grant_GRANT_HELD:
		ls.held(it.addr, l, a.GetHolder(), now)
	case a.GetGrant() == wire.Grant_GRANT_LATER:
		l.why = "grantor " + grantor + " waits until older leases have run out"
		l.fails = 0
		pause := max(ls.cfg.retryMin(), min(time.Duration(a.GetRetryMs())*time.Millisecond, ls.cfg.Time+ls.cfg.Skew))
		if l.live(now) {
			pause = min(pause, ls.cfg.retryMax())
		}
		l.next = now.Add(pause + time.Duration(ls.rnd.Float64()*float64(ls.cfg.retryMin())))
	case a.GetGrant() == wire.Grant_GRANT_ELSEWHERE:
		l.why = "node " + grantor + " does not see itself as the grantor"
		ls.retry(l, now)
	default:
		l.why = "grantor " + grantor + " could not read the wish"
		ls.retry(l, now)
	}
}

// given takes a grant or a renewal.
func (ls *leases) given(it item, grantor string, a *wire.LeaseAnswer, sent moment, now time.Time) {
	l := it.lease
	if it.wish == wire.Wish_WISH_RENEW && !l.live(now) {
		// The lease expired before the answer came, so another node may have held it in between. Ask anew.
		l.next = now
		return
	}
	until := sent.add(max(0, min(time.Duration(a.GetForMs())*time.Millisecond, ls.cfg.Time)))
	if !until.mono.After(now) {
		ls.retry(l, now)
		return
	}
	l.grantor, l.fails, l.why, l.unsure = grantor, 0, "", false
	if until.mono.After(l.right.until.mono) {
		l.right = Right{until}
	}
	l.next = sent.mono.Add(ls.cfg.Time/2 - time.Duration(ls.rnd.Float64()*float64(ls.cfg.Time)/20))
	if it.memory.Equal(l.changed) { // the grantor has the latest memory
		l.changed = time.Time{}
	}
	var wait time.Duration
	if it.wish == wire.Wish_WISH_ACQUIRE {
		wait = max(0, min(time.Duration(a.GetWaitMs())*time.Millisecond, maxWait))
		ls.remember(l, a, now)
	}
	if l.withdrawn {
		l.next = now
		return
	}
	ls.grant(it.addr, l.right, wait)
	l.tell(nil)
}

// remember takes the memory of a server from its grantor, unless this node knows better.
func (ls *leases) remember(l *lease, a *wire.LeaseAnswer, now time.Time) {
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

// maxAgeMs bounds the ages that peers tell: thirty years.
const maxAgeMs = 30 * 365 * 24 * 3600 * 1000

// held notes that another node holds the server.
func (ls *leases) held(addr netip.Addr, l *lease, by string, now time.Time) {
	if !l.none() {
		ls.expire(addr, l, "", now) // whoever is right, it is safe to stop
	}
	l.why = "leased to " + by
	l.fails, l.hold = 0, false
	l.next = now.Add(ls.jitter(ls.cfg.HeldRetry()))
	err := &HeldError{Addr: addr, Holder: by}
	ls.deny(err)
	l.tell(err)
}

// tell ends all waiting Holds of the lease.
func (l *lease) tell(err error) {
	for _, w := range l.waiters {
		w <- err
	}
	l.waiters = nil
}

// leave withdraws all leases so that they are given back, and ends all waiting Holds.
func (ls *leases) leave(now time.Time) {
	ls.leaving = true
	for addr, l := range ls.all {
		l.wanted, l.hold = false, false
		l.tell(errStopped)
		if l.live(now) && !l.withdrawn {
			ls.withdraw(addr, l, now)
		}
	}
}

// slowed returns the slowdown of each server that this node holds.
func (ls *leases) slowed(now time.Time) map[netip.Addr]float64 {
	slowed := make(map[netip.Addr]float64, len(ls.all))
	for addr, l := range ls.all {
		if l.memory != nil && l.live(now) {
			slowed[addr] = l.memory.Slowed()
		}
	}
	return slowed
}
