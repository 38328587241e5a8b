package frontier

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// workbench is the volatile half of the frontier: what can be asked for now, and what comes next (docs/walk.md draws the states of a
// host). It has no locks, clocks or disks. Time is an argument, and the caller holds the frontier's lock.
//
// A host is in exactly one place. It is being read, in unresolved, with a resolver, asleep until a time (in sleepers), in a queue of its
// server, or with a fetcher. A server with a free place and a host in a queue is in the timer until its next request is allowed. Then it is
// in the ready queues of the origins of its hosts' URLs. Pages to visit again may have to wait there for their budget. So a host with
// nothing else in a queue sleeps, too, if it has delayed URLs. Queues may hold stale entries, which are skipped when their turn comes.
type workbench struct {
	cfg        Config
	rules      rules
	site       func(host string) *Site
	self       func() string
	rnd        *rand.Rand
	hosts      map[string]*host
	servers    map[netip.Addr]*server
	unresolved fifo[*host]
	sleepers   timeHeap[*host]
	timer      timeHeap[*server]
	ready      [origins]fifo[*server]
	resumed    time.Time // when this life took up an earlier one, which may have asked any server just before; else zero
	inFlight   int
	resolving  int
	// refills are hosts whose windows must be filled from disk.
	refills  []*host
	expiries timeHeap[*lease]
	wants    []netip.Addr       // servers that need a lease
	stranded map[*host]struct{} // hosts that another node must try
	remote   remoteFetches
	recrawl  recrawl
}

func newWorkbench(cfg Config, r rules, rnd *rand.Rand) *workbench {
	r.spacing = make(map[netip.Addr]float64)
	remote := remoteFetches{limit: cfg.RemoteFetches, behind: make(map[netip.Addr]*fifo[*waitingFetch])}
	return &workbench{cfg: cfg, rules: r, rnd: rnd, recrawl: newRecrawl(cfg.Recrawl, time.Now()), site: func(string) *Site { return nil },
		self:  func() string { return "" },
		hosts: make(map[string]*host), servers: make(map[netip.Addr]*server), stranded: make(map[*host]struct{}), remote: remote}
}

// enter puts a host onto the workbench before it is read from disk.
func (w *workbench) enter(name string) *host {
	h := &host{name: name, place: loading, reading: true, site: w.site(name), depths: make(map[uint64]uint8)}
	w.hosts[name] = h
	return h
}

// loadedHost ends the reading that enter began.
func (w *workbench) loadedHost(h *host, rec record, now time.Time) {
	h.reading = false
	h.place = unplaced
	h.hostState = rec.hostState
	h.notBefore, h.lastRequest = earlier(rec.notBefore, now.Add(w.rules.longest())), earlier(rec.lastRequest, now)
	if h.notBefore.After(now) {
		h.why = "it failed earlier, or asked for a pause"
	}
	w.settle(h, now)
}

// offer gives a host a block that was just written.
func (w *workbench) offer(h *host, b block, now time.Time) {
	origin := b.ref.origin
	if b.ref.seq <= h.loaded[origin] {
		return // it was already read from disk
	}
	room := len(h.window[origin]) < w.cfg.WindowURLs
	if !h.reading && room && !h.more[origin] {
		h.take(b.ref, cloned(b.entries))
	} else {
		h.more[origin] = true
	}
	if !h.reading {
		w.settle(h, now)
	}
}

// settle puts a host where it belongs now. It is called after every change of a host.
func (w *workbench) settle(h *host, now time.Time) {
	if h.place == loading || h.place == resolving {
		return
	}
	w.sleepers.remove(h)
	kept := h.frozen || h.suspended != ""
	if kept {
		h.queued = [origins]bool{} // entries in queues are stale now
	} else {
		h.revive(now)
		asked := w.settingsAsked(h)
		if h.opens = asked.opens(now); !h.opens.IsZero() {
			h.hours = asked.Hours
		}
		h.opens = later(h.opens, w.spaced(h, now))
		if !h.reading && (h.low(w.cfg.WindowURLs/2) || w.moreDue(h, now)) {
			h.reading = true
			w.refills = append(w.refills, h)
		}
	}
	due, work := h.due()
	if work && w.recrawl.continuous() && !h.givenUp && h.nextDue != 0 {
		due = earlier(due, later(h.rests(), timeOf(h.nextDue))) // it is settled again to read its pages when they are due
	}
	if kept || !work {
		if (h.frozen || !work && !h.onDisk()) && h.still() {
			w.leave(h, now)
		} else if h.server != nil {
			w.settleServer(h.server, now)
		}
		return
	}
	if h.place == placed && h.inFlight == 0 && (now.After(h.placedUntil) && !h.server.reserved || h.placedName != h.dialName()) {
		w.unplace(h, now)
	}
	if h.place == unplaced {
		if due.After(now) {
			w.sleepers.put(h, due)
		} else if !h.queued[0] {
			h.queued[0] = true
			w.unresolved.push(h)
		}
		return
	}
	switch {
	case !w.eligible(h):
	case due.After(now):
		w.sleepers.put(h, due)
	default:
		w.queueUp(h)
	}
	w.settleServer(h.server, now)
}

// spaced returns when a long Crawl-delay allows the next request to a host; zero if that is now, or not yet known.
func (w *workbench) spaced(h *host, now time.Time) time.Time {
	if h.server == nil {
		return time.Time{}
	}
	gap := w.rules.hostGap(h.site, h.server.addr, h.crawlDelay)
	if next := later(h.lastRequest, w.resumed).Add(gap); gap > 0 && next.After(now) {
		return next
	}
	return time.Time{}
}

// queueUp puts a host into the queues of its server, one for each origin of its URLs. It comes first if its turn had come before.
func (w *workbench) queueUp(h *host) {
	for o := range h.window {
		switch {
		case len(h.window[o]) == 0 || h.queued[o]:
			continue
		case h.firstInLine:
			h.server.queue[o].unshift(h)
		default:
			h.server.queue[o].push(h)
		}
		h.queued[o] = true
	}
	if len(h.delayed) > 0 && h.windowed() == len(h.window[Revisit]) { // visits may wait for their budget for longer
		w.sleepers.put(h, h.delayed[0].retryAt)
	}
}

// moreDue says that pages of a host are due on disk and may come into its window, which has room for them.
func (w *workbench) moreDue(h *host, now time.Time) bool {
	return w.recrawl.On() && !h.givenUp && h.nextDue != 0 && h.nextDue <= w.recrawl.by(now) && len(h.window[Revisit]) <= dueWindow/2
}

// crowds says that a host is at a server with more hosts than it may be asked for in longSleep.
func (w *workbench) crowds(h *host, now time.Time) bool {
	s := h.server
	return s != nil && w.leased(s, now) && time.Duration(len(s.hosts)-1)*w.rules.gap(h.site, s.addr, h.crawlDelay, 0) > longSleep*time.Duration(s.parallel)
}

// eligible says that nothing but time keeps the host from a request: it may be crawled, its server has a place for it, its robots.txt is
// not being asked for, and its server is that of the next URL.
func (w *workbench) eligible(h *host) bool {
	return h.place == placed && !h.frozen && h.suspended == "" && !h.robotsBusy && h.inFlight < h.server.parallel && h.placedName == h.dialName()
}

// settingsAsked returns the settings of the host that the next request goes to: another one if the robots.txt was redirected there.
func (w *workbench) settingsAsked(h *host) *Site {
	if t := h.robotsTarget; t != nil {
		return w.site(t.url.Host)
	}
	return h.site
}

// unplace takes a host from its server. Its name is resolved again.
func (w *workbench) unplace(h *host, now time.Time) {
	if s := h.server; s.reserved {
		h.reservedAt = s.addr
	}
	h.place = unplaced
	w.unseat(h, now)
}

// unseat takes a host from its server, if it has one, and out of all queues and heaps.
func (w *workbench) unseat(h *host, now time.Time) {
	w.sleepers.remove(h)
	h.queued = [origins]bool{} // entries in queues are stale now
	if s := h.server; s != nil {
		h.server = nil
		delete(s.hosts, h)
		w.settleServer(s, now)
	}
}

// leave takes a host off the workbench. URLs that are left are on disk.
func (w *workbench) leave(h *host, now time.Time) {
	h.place = loading
	delete(w.stranded, h)
	w.unseat(h, now)
	delete(w.hosts, h.name)
	if h.next != 0 {
		w.recrawl.here--
	}
	if h.gone != nil {
		close(h.gone)
		h.gone = nil
	}
}

// nextUnresolved takes the next host whose name must be resolved; nil if there is none.
func (w *workbench) nextUnresolved(now time.Time) *host {
	w.wake(now)
	for len(w.unresolved) > 0 {
		h := w.unresolved.pop()
		if h.place != unplaced || !h.queued[0] {
			continue
		}
		h.queued[0] = false
		h.place = resolving
		w.resolving++
		return h
	}
	return nil
}

// wake settles the hosts that have slept long enough.
func (w *workbench) wake(now time.Time) {
	for w.sleepers.due(now) {
		w.settle(w.sleepers[0], now)
	}
}

// placeHost gives a host that was with a resolver its server.
func (w *workbench) placeHost(h *host, addrs []netip.Addr, ttl time.Duration, now time.Time) {
	w.resolving--
	h.addrs = addrs
	h.placedName = h.dialName()
	addr := addrs[0]
	if h.robotsTarget == nil {
		if s := w.servers[h.reservedAt]; s != nil && s.reserved && slices.Contains(addrs, s.addr) {
			addr = s.addr
		}
		h.reservedAt = netip.Addr{}
	}
	w.seat(h, addr, now.Add(ttl), now)
}

// newServer puts a server onto the workbench. After a restart it rests first, as an earlier life may have asked it just before.
func (w *workbench) newServer(addr netip.Addr) *server {
	s := &server{addr: addr, parallel: w.rules.parallel(addr), hosts: make(map[*host]struct{})}
	w.servers[addr] = s
	s.rest(w.resumed.Add(w.rules.gap(nil, addr, 0, 0)))
	return s
}

// seat puts a host without a server at one.
func (w *workbench) seat(h *host, addr netip.Addr, until, now time.Time) {
	s := w.servers[addr]
	if s == nil {
		s = w.newServer(addr)
	}
	// The last request may have been before a restart, or to another server.
	s.rest(later(h.lastRequest, w.resumed).Add(w.rules.gap(h.site, addr, h.crawlDelay, 0)))
	s.hosts[h] = struct{}{}
	h.server, h.place, h.placedUntil = s, placed, until
	w.settle(h, now)
}

// settleServer puts a server where it belongs now: the timer, the ready queues, or nowhere.
func (w *workbench) settleServer(s *server, now time.Time) {
	if s.inFlight >= s.parallel {
		w.timer.remove(s)
		return
	}
	if w.cfg.Leases {
		s.purge()
	}
	if total(&s.queue) == 0 {
		w.timer.remove(s)
		switch {
		case s.lease != nil || s.reserved || len(s.hosts) > 0 || s.inFlight > 0:
		case s.next.After(now):
			w.timer.put(s, s.next) // it is forgotten when it may be asked again
		case w.servers[s.addr] == s:
			delete(w.servers, s.addr)
		}
		return
	}
	if !w.leased(s, now) {
		w.want(s)
		return
	}
	if s.next.After(now) {
		w.timer.put(s, s.next)
		return
	}
	w.timer.remove(s)
	if s.reserved {
		return
	}
	if s.ready == [origins]bool{} {
		s.since = now
	}
	for o := range s.queue {
		if len(s.queue[o]) > 0 && !s.ready[o] {
			s.ready[o] = true
			w.ready[o].push(s)
		}
	}
}

// advance makes ready what has waited long enough.
func (w *workbench) advance(now time.Time) {
	for w.expiries.due(now) {
		w.expire(w.expiries[0].server, now)
	}
	for w.timer.due(now) {
		s := w.timer[0]
		w.timer.remove(s)
		w.settleServer(s, now)
	}
	w.wake(now)
}

// nextDue returns when a server or a host becomes ready by time alone; zero if none does.
func (w *workbench) nextDue() time.Time { return sooner(w.timer.first(), w.sleepers.first()) }

// lostHost lets a host wait whose name did not resolve. giveUp says that it has used up its waits.
func (w *workbench) lostHost(h *host, reason string, ours, lasts bool, now time.Time) (giveUp bool) {
	w.resolving--
	h.place = unplaced
	h.robotsTarget, h.lost = nil, lasts
	wait, more := schedule(w.rules.RetryName, h.failures, w.rnd)
	switch {
	case ours:
		wait, more = time.Second, true
	case !h.countFailure(now):
		wait, more = h.notBefore.Sub(now), true
	}
	if !more {
		wait, more = w.usedUpWaits(h, w.rules.RetryName)
	}
	h.notBefore, h.why = now.Add(wait), reason
	w.settle(h, now)
	return !more
}

// lastTry has a host tried now, before its next try is due. If that fails, the host goes on to wait for that one.
func (w *workbench) lastTry(h *host, now time.Time) {
	h.resumes, h.notBefore = h.notBefore, now
	w.settle(h, now)
}
