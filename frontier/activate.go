package frontier

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/errgroup"
)

// activation brings hosts onto the workbench and sends them back to disk. They come in only when fetchers starve, because a workbench
// that is no larger than needed saves memory and keeps connections warm.
type activation struct {
	*front

	// The lock of the front guards what follows.
	candidates  fifo[string]         // hosts with URLs on disk that may enter the workbench
	isCandidate map[string]struct{}  // candidates as a set
	scan        bool                 // hosts that are no candidates may wait on disk, so the disk is scanned for them
	cursor      string               // the last host that the scan looked at
	found       bool                 // since the scan began, it has found a host, or one was sent back to disk
	useful      bool                 // since the scan began, a host came in that need not wait long
	wrapped     bool                 // the last whole scan brought in no useful host
	served      int                  // how often candidates came in since the scan had its turn
	crowded     time.Time            // when a crowd was last sent back to disk
	away        marks                // hosts that are not owned
	frozen      map[string]*freezing // hosts that must not enter the workbench
}

func newActivation(f *front) *activation {
	a := &activation{front: f, isCandidate: make(map[string]struct{}), frozen: make(map[string]*freezing)}
	f.supply = a.supplyLocked
	return a
}

const (
	// maxCandidates bounds the names of hosts that are kept beside the workbench. Other hosts are found by scanning.
	maxCandidates = 4096
	// activateAtOnce is how many hosts come in before the fetchers are asked again whether they still starve.
	activateAtOnce = 32
	// longSleep is how long a host must have to wait to be sent back to disk from a full workbench.
	longSleep = time.Minute
	// rescanAfter is how long hosts on disk are left alone after a scan that found none worth bringing in.
	rescanAfter = 10 * time.Second
)

// supplyLocked says whether hosts may wait on disk to be brought in.
func (a *activation) supplyLocked() bool {
	return len(a.candidates) > 0 || a.scan && !a.wrapped || !a.bench.recrawl.done
}

// bringIn brings hosts in for as long as fetchers starve.
func (a *activation) bringIn() error {
	for {
		hosts, err := a.nextHosts()
		due, dueErr := a.nextDueHosts()
		if err := errors.Join(err, dueErr); err != nil {
			return err
		}
		if hosts = append(hosts, due...); len(hosts) == 0 {
			return nil
		}
		if err := a.activate(hosts); err != nil {
			return err
		}
	}
}

// lookAgain lets the disk be searched again for hosts that have waited long enough.
func (a *activation) lookAgain() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrapped = false
	a.bench.recrawl.searchAnew()
	signal(a.hungry)
	return nil
}

// nextHosts picks hosts to bring in: candidates, and hosts that a scan of the disk finds when there are none, or every fourth time, because a
// crawl that grows has new candidates all the time. It puts them onto the workbench before it unlocks, so that Idle always sees them as
// candidates or on the workbench.
func (a *activation) nextHosts() ([]*host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	starved := len(a.waiters) > 0 || a.craving
	a.craving = false
	if !starved || a.full || a.outage.keepsTasks(now) {
		return nil, nil
	}
	if len(a.bench.hosts) >= a.cfg.FrontHosts && a.supplyLocked() {
		a.evictSleepersLocked(now)
		a.evictCrowdLocked(now)
	}
	room, scan := min(activateAtOnce, a.cfg.FrontHosts-len(a.bench.hosts)), a.scan && !a.wrapped
	if a.served < 3 || !scan {
		if hosts := a.enterCandidatesLocked(room); len(hosts) > 0 {
			a.served++
			return hosts, nil
		}
	}
	if room <= 0 || !scan {
		return nil, nil
	}
	a.served = 0
	return a.scanLocked(room)
}

// enterCandidatesLocked puts candidates onto the workbench, as many as there is room for.
func (a *activation) enterCandidatesLocked(room int) (hosts []*host) {
	for len(a.candidates) > 0 && len(hosts) < room {
		name := a.candidates.pop()
		delete(a.isCandidate, name)
		hosts = a.enterLocked(hosts, name)
	}
	return hosts
}

// scanLocked looks at the next hosts on disk, and puts those onto the workbench that wait there. It unlocks while it reads the disk.
func (a *activation) scanLocked(room int) (hosts []*host, err error) {
	cursor, others := a.cursor, len(a.candidates) > 0
	a.mu.Unlock()
	names, last, end, err := a.waitingHosts(cursor, room)
	a.mu.Lock()
	if err != nil {
		return nil, err
	}
	if others {
		signal(a.hungry) // they have the next turns
	}
	switch {
	case len(names) > 0:
		a.cursor, a.found = last, true
		for _, name := range names {
			hosts = a.enterLocked(hosts, name)
		}
		if len(hosts) == 0 {
			signal(a.hungry) // all of them have come in meanwhile: go on with the scan
		}
	case end && !a.found:
		// No host waits on disk. The ledger tells of new ones (transfers.offeredLocked).
		a.scan, a.wrapped, a.cursor = false, true, ""
		signal(a.quiet)
	case end && !a.useful:
		// All hosts on disk have to wait. Another scan would only exchange one that sleeps for the next.
		a.wrapped, a.cursor, a.found = true, "", false
	case end:
		a.cursor, a.found, a.useful = "", false, false
		signal(a.hungry)
	default:
		a.cursor = last
		signal(a.hungry) // the scan has found none yet: go on
	}
	return hosts, nil
}

// enterLocked puts a host onto the workbench and appends it to hosts, unless it is there already or frozen.
func (a *activation) enterLocked(hosts []*host, name string) []*host {
	if a.bench.hosts[name] != nil || a.frozen[name] != nil {
		return hosts
	}
	return append(hosts, a.bench.enter(name))
}

// waitingHosts returns up to n hosts with pending URLs that wait on disk, in the order of their keys, after a host. last is the last host
// that it looked at. end means that it reached the last key.
func (a *activation) waitingHosts(after string, n int) (hosts []string, last string, end bool, err error) {
	last = after
	looked := 0
	end, err = a.store.eachHost(context.Background(), []byte{kindPending}, after, func(_ *tx, _ *badger.Iterator, host string) (bool, error) {
		if last = host; !a.kept(host) {
			hosts = append(hosts, host)
		}
		looked++
		return len(hosts) < n && looked < 16*n, nil // the latter matters when most hosts are on the workbench
	})
	return hosts, last, end, wrap(err, "look for waiting hosts")
}

// kept says that a host on disk must not be brought in: it is on the workbench, frozen or not owned.
func (a *activation) kept(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bench.hosts[host] != nil || a.frozen[host] != nil || a.away.has(host)
}

// evictLocked sends a host back to disk, from where it comes in again later.
func (a *activation) evictLocked(h *host, now time.Time) {
	a.bench.leave(h, now)
	a.rescanLocked()
	a.bench.recrawl.searchAnew()
}

// evictSleepersLocked makes room on a full workbench by sending hosts with a long wait back to disk. A host of which only single URLs wait
// stays, because that is not on disk. It looks at a bounded number of hosts.
func (a *activation) evictSleepersLocked(now time.Time) {
	looked := 0
	for _, h := range a.bench.hosts {
		if _, ok := h.due(); ok && h.rests().Sub(now) > longSleep && h.evictable() {
			a.bench.leave(h, now)
			// Unlike rescanLocked, this leaves wrapped as it is: the host need not come back soon.
			a.scan, a.found, a.bench.recrawl.over, a.bench.recrawl.slept = true, true, !a.bench.recrawl.On(), true
		}
		if looked++; looked == 8*activateAtOnce {
			return
		}
	}
}

// evictCrowdLocked makes room on a full workbench, once in longSleep. Of the hosts of one server as many stay as it may be asked for in that
// time, and none stays that only waits for the budget of visits.
func (a *activation) evictCrowdLocked(now time.Time) {
	if now.Sub(a.crowded) < longSleep || a.stoppedLocked(now) {
		return
	}
	a.crowded = now
	for _, h := range a.bench.hosts {
		if h.windowed() > 0 && len(h.delayed) == 0 && h.suspended == "" && h.evictable() && (a.bench.crowds(h, now) || a.bench.spent(h, now)) {
			a.evictLocked(h, now)
		}
	}
}

// activate reads hosts from disk that have entered the workbench. It reads several at once, so that the ledger answers them together.
func (a *activation) activate(hosts []*host) error {
	var g errgroup.Group
	g.SetLimit(activateAtOnce)
	for _, h := range hosts {
		g.Go(func() error { return a.activateHost(h) })
	}
	return g.Wait()
}

// activateHost reads a host from disk that has entered the workbench. A host that must not be crawled, or cannot be read, leaves again.
func (a *activation) activateHost(h *host) (err error) {
	defer func() {
		if err != nil {
			a.update(func(now time.Time) { a.evictLocked(h, now) })
		}
	}()
	rec, err := a.load(h)
	if err != nil {
		return err
	}
	if rec.role != Owned {
		a.update(func(now time.Time) {
			h.foreign = true
			a.bench.leave(h, now)
		})
		return nil
	}
	reason, until := a.deps.Blocked(h.name), time.Time{}
	if reason == "" && rec.endedUntil.After(time.Now()) {
		reason, until = rec.endReason, rec.endedUntil
	}
	a.mu.Lock()
	h.leftover = rec.partial
	h.nextDue = rec.nextAt() // later than the search for due hosts found if the host was dropped meanwhile
	a.mu.Unlock()
	if err := a.read(h); err != nil {
		return err
	}
	if reason == "" {
		err = a.noneDue(h)
	} else if a.holdsURLs(h) { // after a change of its role or an import it may come in without any
		_, err = a.giveUp(context.Background(), h.name, reason, until)
	}
	if err != nil {
		return err
	}
	a.update(func(now time.Time) {
		a.checkInLocked(h)
		a.bench.loadedHost(h, rec, now)
		// Its server is not known yet, which would tell whether its Crawl-delay counts.
		rests := later(h.rests(), h.lastRequest.Add(a.bench.rules.hostGap(h.site, netip.Addr{}, h.crawlDelay)))
		a.useful = a.useful || rests.Sub(now) <= longSleep
	})
	return nil
}

// holdsURLs says that a host on the workbench has URLs to ask for, in its window or on disk.
func (a *activation) holdsURLs(h *host) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return h.windowed() > 0 || h.onDisk()
}

// load asks the ledger for the record of a host. If URLs were reported done by another node, it first has them taken out of their blocks.
func (a *activation) load(h *host) (rec record, err error) {
	l := a.ledger
	ask := func(_ *batch, e *hostEntry) error {
		rec = e.rec
		rec.partial = slices.Clone(rec.partial)
		return nil
	}
	err = l.onHost(context.Background(), readOnly, h.name, ask)
	if err == nil && rec.role == Owned && rec.loose {
		err = l.onHost(context.Background(), alone, h.name, func(b *batch, e *hostEntry) error {
			return errors.Join(l.decideReconcile(b, e), ask(b, e))
		})
	}
	return rec, wrap(err, "load host %s", h.name)
}

// read fills the window of a host from disk. The host must be marked as reading, so that no other goroutine changes its window.
func (a *activation) read(h *host) error {
	a.mu.Lock()
	entering := h.place == loading // nothing of it on disk is known yet
	a.mu.Unlock()
	if entering && a.cfg.TrackDepth {
		depths, err := a.store.depths(nil, h.name)
		if err != nil {
			return err
		}
		a.mu.Lock()
		if !h.givenUp {
			maps.Copy(depths, h.depths) // what was told meanwhile is newer
			h.depths = depths
		}
		a.mu.Unlock()
	}
	for o := range Revisit {
		a.mu.Lock()
		after, want := h.loaded[o], a.cfg.WindowURLs-len(h.window[o])
		if !entering && !h.more[o] {
			want = 0
		}
		if want > 0 {
			h.more[o] = false // from here on it says what is written meanwhile
		}
		a.mu.Unlock()
		if want <= 0 {
			continue
		}
		blocks, more, err := a.store.blocks(h.name, o, after, want)
		if err != nil {
			return err
		}
		a.mu.Lock()
		h.fill(o, blocks, more)
		a.mu.Unlock()
	}
	return a.readDue(h)
}

// refill fills the windows that run low.
func (a *activation) refill() error {
	a.mu.Lock()
	low := a.bench.refills
	a.bench.refills = nil
	a.mu.Unlock()
	for _, h := range low {
		if err := a.read(h); err != nil {
			return err
		}
		a.update(func(now time.Time) {
			h.reading = false
			a.bench.settle(h, now)
		})
	}
	return nil
}

// nominateLocked makes a host with URLs on disk a candidate.
func (a *activation) nominateLocked(name string) {
	if _, ok := a.isCandidate[name]; ok {
		return
	}
	if len(a.isCandidate) >= maxCandidates {
		a.rescanLocked()
		return
	}
	a.isCandidate[name] = struct{}{}
	a.candidates.push(name)
}

// rescanLocked notes that a host waits on disk that is no candidate.
func (a *activation) rescanLocked() { a.scan, a.wrapped, a.found = true, false, true }

// Activate brings a host onto the workbench, so that its name is resolved. On return it is there, unless it has no pending URL, is not
// owned or was given up. The workbench may exceed Config.FrontHosts.
func (a *activation) Activate(ctx context.Context, host string) error {
	_, err := a.enterHost(ctx, host)
	return err
}

// enterHost is Activate, but also says whether the host is on the workbench.
func (a *activation) enterHost(ctx context.Context, name string) (here bool, err error) {
	if !a.store.enter() {
		return false, ErrClosed
	}
	defer a.store.exit()
	for {
		a.mu.Lock()
		if z := a.frozen[name]; z != nil {
			a.mu.Unlock()
			if _, err := await(ctx, a.front, z.over); err != nil {
				return false, err
			}
			continue
		}
		if a.bench.hosts[name] != nil {
			a.mu.Unlock()
			return true, nil
		}
		if len(a.bench.hosts) >= a.cfg.FrontHosts {
			a.evictSleepersLocked(time.Now())
		}
		h := a.bench.enter(name)
		a.mu.Unlock()
		if err := a.activateHost(h); err != nil {
			return false, err
		}
		a.mu.Lock()
		here, displaced := a.bench.hosts[name] != nil, h.displaced()
		a.mu.Unlock()
		if here || !displaced {
			return here, nil
		}
	}
}

// resume lets a host go on when the end of its task is on disk. A host that has used up its budget while others wait is evicted.
func (a *activation) resume(h *host) {
	a.update(func(now time.Time) {
		h.ending--
		if h.taken >= a.cfg.HostBudget && len(a.bench.hosts) >= a.cfg.FrontHosts && h.evictable() &&
			(a.scan || len(a.candidates) > 0 || !a.bench.recrawl.done) {
			a.evictLocked(h, now)
		} else {
			a.bench.settle(h, now)
		}
	})
}
