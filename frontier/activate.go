package frontier

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"
)

// activation says which hosts may come onto the workbench. They come in only when fetchers starve, because a workbench that is no larger
// than needed saves memory and keeps connections warm. The frontier's lock guards it.
type activation struct {
	// candidates are hosts with URLs on disk that may enter the workbench, in the order in which they came.
	candidates *simplelru.LRU[string, struct{}]
	scan       bool                 // hosts that are no candidates may wait on disk, so the disk is scanned for them
	cursor     string               // the last host that the scan looked at
	found      bool                 // since the scan began, it has found a host, or one was sent back to disk
	useful     bool                 // since the scan began, a host came in that need not wait long
	wrapped    bool                 // the last whole scan brought in no useful host
	turn       int                  // counts the turns of candidates since that of the scan
	crowded    time.Time            // when a crowd was last sent back to disk
	away       marks                // hosts that are not owned
	frozen     map[string]*freezing // hosts that must not enter the workbench
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

// supplyLocked says whether there may be hosts on disk to bring in.
func (f *Frontier) supplyLocked() bool {
	return f.candidates.Len() > 0 || f.scan && !f.wrapped || !f.bench.recrawl.done
}

// bringIn brings hosts in for as long as fetchers starve.
func (f *Frontier) bringIn() error {
	for {
		hosts, err := f.nextHosts()
		due, dueErr := f.nextDueHosts()
		if err := errors.Join(err, dueErr); err != nil {
			return err
		}
		if hosts = append(hosts, due...); len(hosts) == 0 {
			return nil
		}
		if err := f.activate(hosts); err != nil {
			return err
		}
	}
}

// lookAgain lets the disk be searched again for hosts that have waited long enough.
func (f *Frontier) lookAgain() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrapped = false
	f.bench.recrawl.again()
	signal(f.hungry)
	return nil
}

// nextHosts picks hosts to bring in: candidates, and hosts that a scan of the disk finds when there are none, or every fourth time, because a
// crawl that grows has new candidates all the time. It puts them onto the workbench before it unlocks, so that Idle always sees them as
// candidates or on the workbench.
func (f *Frontier) nextHosts() ([]*host, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	starved := len(f.waiters) > 0 || f.craving
	f.craving = false
	if !starved || f.full || f.outage.keepsTasks(now) {
		return nil, nil
	}
	if len(f.bench.hosts) >= f.cfg.FrontHosts && f.supplyLocked() {
		f.evictSleepersLocked(now)
		f.evictCrowdLocked(now)
	}
	room, scan := min(activateAtOnce, f.cfg.FrontHosts-len(f.bench.hosts)), f.scan && !f.wrapped
	var hosts []*host
	if f.turn < 3 || !scan {
		for f.candidates.Len() > 0 && len(hosts) < room {
			name, _, _ := f.candidates.RemoveOldest()
			hosts = f.enterLocked(hosts, name)
		}
	}
	if len(hosts) > 0 {
		f.turn++
		return hosts, nil
	}
	if room <= 0 || !scan {
		return nil, nil
	}
	f.turn = 0
	cursor, others := f.cursor, f.candidates.Len() > 0
	f.mu.Unlock()
	names, last, end, err := f.waitingHosts(cursor, room)
	f.mu.Lock()
	if err != nil {
		return nil, err
	}
	if others {
		signal(f.hungry) // they have the next turns
	}
	switch {
	case len(names) > 0:
		f.cursor, f.found = last, true
		for _, name := range names {
			hosts = f.enterLocked(hosts, name)
		}
		if len(hosts) == 0 {
			signal(f.hungry) // all of them have come in meanwhile: go on with the scan
		}
	case end && !f.found:
		// No host waits on disk. The ledger tells of new ones (offeredLocked).
		f.scan, f.wrapped, f.cursor = false, true, ""
		signal(f.quiet)
	case end && !f.useful:
		// All hosts on disk have to wait. Another scan would only exchange one that sleeps for the next.
		f.wrapped, f.cursor, f.found = true, "", false
	case end:
		f.cursor, f.found, f.useful = "", false, false
		signal(f.hungry)
	default:
		f.cursor = last
		signal(f.hungry) // the scan has found none yet: go on
	}
	return hosts, nil
}

// enterLocked puts a host onto the workbench and appends it to hosts, unless it is there already or frozen.
func (f *Frontier) enterLocked(hosts []*host, name string) []*host {
	if f.bench.hosts[name] != nil || f.frozen[name] != nil {
		return hosts
	}
	return append(hosts, f.bench.enter(name))
}

// waitingHosts returns up to n hosts with pending URLs that wait on disk, in the order of their keys, after a host. last is the last host
// that it looked at. end means that it reached the last key.
func (f *Frontier) waitingHosts(after string, n int) (hosts []string, last string, end bool, err error) {
	last = after
	looked := 0
	end, err = f.store.eachHost(context.Background(), []byte{kindPending}, after, func(_ *tx, _ *badger.Iterator, host string) (bool, error) {
		if last = host; !f.kept(host) {
			hosts = append(hosts, host)
		}
		looked++
		return len(hosts) < n && looked < 16*n, nil // the latter matters when most hosts are on the workbench
	})
	return hosts, last, end, wrap(err, "look for waiting hosts")
}

// kept says that a host on disk must not be brought in: it is on the workbench, frozen or not owned.
func (f *Frontier) kept(host string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bench.hosts[host] != nil || f.frozen[host] != nil || f.away.has(host)
}

// evictLocked sends a host back to disk, from where it comes in again later.
func (f *Frontier) evictLocked(h *host, now time.Time) {
	f.bench.leave(h, now)
	f.rescanLocked()
	f.bench.recrawl.again()
}

// evictSleepersLocked makes room on a full workbench by sending hosts with a long wait back to disk. A host of which only single URLs wait
// stays, because that is not on disk. It looks at a bounded number of hosts.
func (f *Frontier) evictSleepersLocked(now time.Time) {
	looked := 0
	for _, h := range f.bench.hosts {
		if _, ok := h.due(); ok && h.rests().Sub(now) > longSleep && h.evictable() {
			f.bench.leave(h, now)
			// Unlike rescanLocked, this leaves wrapped as it is: the host need not come back soon.
			f.scan, f.found, f.bench.recrawl.over = true, true, !f.bench.recrawl.On()
		}
		if looked++; looked == 8*activateAtOnce {
			return
		}
	}
}

// evictCrowdLocked makes room on a full workbench, once in longSleep. Of the hosts of one server as many stay as it may be asked for in that
// time, and none stays that only waits for the budget of visits.
func (f *Frontier) evictCrowdLocked(now time.Time) {
	if now.Sub(f.crowded) < longSleep || f.stoppedLocked(now) {
		return
	}
	f.crowded = now
	for _, h := range f.bench.hosts {
		if h.windowed() > 0 && len(h.delayed) == 0 && h.suspended == "" && h.evictable() && (f.bench.crowds(h, now) || f.bench.spent(h, now)) {
			f.evictLocked(h, now)
		}
	}
}

// activate reads hosts from disk that have entered the workbench. It reads several at once, so that the ledger answers them together.
func (f *Frontier) activate(hosts []*host) error {
	var g errgroup.Group
	g.SetLimit(activateAtOnce)
	for _, h := range hosts {
		g.Go(func() error { return f.activateHost(h) })
	}
	return g.Wait()
}

// activateHost reads a host from disk that has entered the workbench. A host that must not be crawled, or cannot be read, leaves again.
func (f *Frontier) activateHost(h *host) (err error) {
	defer func() {
		if err != nil {
			f.update(func(now time.Time) { f.evictLocked(h, now) })
		}
	}()
	rec, err := f.load(h)
	if err != nil {
		return err
	}
	if rec.role != Owned {
		f.update(func(now time.Time) {
			h.foreign = true
			f.bench.leave(h, now)
		})
		return nil
	}
	reason, until := f.deps.Blocked(h.name), time.Time{}
	if reason == "" && rec.endedUntil.After(time.Now()) {
		reason, until = rec.endReason, rec.endedUntil
	}
	f.mu.Lock()
	h.leftover = rec.partial
	h.nextDue = rec.nextAt() // later than the search for due hosts found if the host was dropped meanwhile
	f.mu.Unlock()
	if reason != "" {
		_, err = f.giveUp(context.Background(), h.name, reason, until)
	} else if err = f.read(h); err == nil {
		err = f.noneDue(h)
	}
	if err != nil {
		return err
	}
	f.update(func(now time.Time) {
		f.checkInLocked(h)
		f.useful = f.useful || later(rec.notBefore, h.site.opens(now)).Sub(now) <= longSleep
		f.bench.loadedHost(h, rec, now)
	})
	return nil
}

// load asks the ledger for the record of a host. If URLs were reported done by another node, it first has them taken out of their blocks.
func (f *Frontier) load(h *host) (rec record, err error) {
	l := f.ledger
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
func (f *Frontier) read(h *host) error {
	f.mu.Lock()
	entering := h.place == loading // nothing of it on disk is known yet
	f.mu.Unlock()
	if entering && f.cfg.TrackDepth {
		depths, err := f.store.depths(nil, h.name)
		if err != nil {
			return err
		}
		f.mu.Lock()
		if !h.givenUp {
			maps.Copy(depths, h.depths) // what was told meanwhile is newer
			h.depths = depths
		}
		f.mu.Unlock()
	}
	for o := range Revisit {
		f.mu.Lock()
		after, want := h.loaded[o], f.cfg.WindowURLs-len(h.window[o])
		if !entering && !h.more[o] {
			want = 0
		}
		if want > 0 {
			h.more[o] = false // from here on it says what is written meanwhile
		}
		f.mu.Unlock()
		if want <= 0 {
			continue
		}
		blocks, more, err := f.store.blocks(h.name, o, after, want)
		if err != nil {
			return err
		}
		f.mu.Lock()
		h.fill(o, blocks, more)
		f.mu.Unlock()
	}
	return f.readDue(h)
}

// refill fills the windows that run low.
func (f *Frontier) refill() error {
	f.mu.Lock()
	low := f.bench.refills
	f.bench.refills = nil
	f.mu.Unlock()
	for _, h := range low {
		if err := f.read(h); err != nil {
			return err
		}
		f.update(func(now time.Time) {
			h.reading = false
			f.bench.settle(h, now)
		})
	}
	return nil
}

// nominateLocked makes a host with URLs on disk a candidate.
func (f *Frontier) nominateLocked(name string) {
	switch {
	case f.candidates.Contains(name):
	case f.candidates.Len() >= maxCandidates:
		f.rescanLocked()
	default:
		f.candidates.Add(name, struct{}{})
	}
}

// rescanLocked notes that a host waits on disk that is no candidate.
func (f *Frontier) rescanLocked() { f.scan, f.wrapped, f.found = true, false, true }

// Activate brings a host onto the workbench, so that its name is resolved. On return it is there, unless it has no pending URL, is not
// owned or was given up. The workbench may exceed Config.FrontHosts.
func (f *Frontier) Activate(ctx context.Context, host string) error {
	_, err := f.enterHost(ctx, host)
	return err
}

// enterHost is Activate, but also says whether the host is on the workbench.
func (f *Frontier) enterHost(ctx context.Context, name string) (here bool, err error) {
	if !f.store.enter() {
		return false, ErrClosed
	}
	defer f.store.exit()
	for {
		f.mu.Lock()
		if z := f.frozen[name]; z != nil {
			f.mu.Unlock()
			if _, err := await(ctx, f, z.over); err != nil {
				return false, err
			}
			continue
		}
		if f.bench.hosts[name] != nil {
			f.mu.Unlock()
			return true, nil
		}
		if len(f.bench.hosts) >= f.cfg.FrontHosts {
			f.evictSleepersLocked(time.Now())
		}
		h := f.bench.enter(name)
		f.mu.Unlock()
		if err := f.activateHost(h); err != nil {
			return false, err
		}
		f.mu.Lock()
		here, displaced := f.bench.hosts[name] != nil, h.displaced()
		f.mu.Unlock()
		if here || !displaced {
			return here, nil
		}
	}
}

// resume lets a host go on when the end of its task is on disk. A host that has used up its budget while others wait is evicted.
func (f *Frontier) resume(h *host) {
	f.update(func(now time.Time) {
		h.ending--
		if h.taken >= f.cfg.HostBudget && len(f.bench.hosts) >= f.cfg.FrontHosts && h.evictable() &&
			(f.scan || f.candidates.Len() > 0 || !f.bench.recrawl.done) {
			f.evictLocked(h, now)
		} else {
			f.bench.settle(h, now)
		}
	})
}
