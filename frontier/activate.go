package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/errgroup"
)

// Hosts come in from disk only when fetchers starve, because a workbench that is no larger than needed saves memory and keeps connections
// warm. Those that have nothing more to do leave by themselves (workbench.settle).

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

// supplyLocked says whether there may be hosts on disk to bring in. It needs mu held.
func (f *Frontier) supplyLocked() bool {
	return f.candidates.len() > 0 || f.scan && !f.wrapped || !f.bench.recrawl.done
}

// runActivation brings hosts in whenever fetchers starve.
func (f *Frontier) runActivation(stop <-chan struct{}) error {
	retry := time.NewTicker(rescanAfter)
	defer retry.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-f.hungry:
		case <-retry.C:
			f.mu.Lock()
			f.wrapped = false
			f.bench.recrawl.again()
			f.mu.Unlock()
		}
		for {
			hosts, err := f.nextHosts()
			if err != nil {
				return err
			}
			due, err := f.nextDueHosts()
			if err != nil {
				return err
			}
			if hosts = append(hosts, due...); len(hosts) == 0 {
				break
			}
			switch err := f.activate(hosts); {
			case errors.Is(err, ErrClosed), errors.Is(err, ErrDiskFull):
				return nil // the ledger has stopped, and reports any error itself; or Stopping was called
			case err != nil:
				return err
			}
		}
	}
}

// nextHosts picks hosts to bring in: candidates first, then hosts that a scan of the disk finds. It puts them onto the workbench before
// it unlocks, so that Idle always sees them as candidates or on the workbench.
func (f *Frontier) nextHosts() ([]*host, error) {
	f.mu.Lock()
	starved := f.waiters.len() > 0 || f.craving
	f.craving = false
	if !starved || f.full != "" || f.outage.keepsTasks(time.Now()) {
		f.mu.Unlock()
		return nil, nil
	}
	if len(f.bench.hosts) >= f.cfg.FrontHosts && f.supplyLocked() {
		f.evictSleepers(time.Now())
	}
	room := min(activateAtOnce, f.cfg.FrontHosts-len(f.bench.hosts))
	var hosts []*host
	for f.candidates.len() > 0 && len(hosts) < room {
		name := f.candidates.pop()
		delete(f.candidate, name)
		hosts = f.enterLocked(hosts, name)
	}
	scan, cursor := f.scan && !f.wrapped, f.cursor
	f.mu.Unlock()
	if len(hosts) > 0 || room <= 0 || !scan {
		return hosts, nil
	}
	names, last, end, err := f.waitingHosts(cursor, room)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
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
		// No host waits on disk. The ledger tells of new ones (Frontier.offered).
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

// enterLocked puts a host onto the workbench and appends it to hosts, unless it is there already or frozen. It needs mu held.
func (f *Frontier) enterLocked(hosts []*host, name string) []*host {
	if f.bench.hosts[name] != nil || f.frozen[name] != nil {
		return hosts
	}
	return append(hosts, f.bench.enter(name))
}

// waitingHosts returns up to n hosts with pending URLs that wait on disk, in the order of their keys, after a host. last is the last host
// that it looked at. end means that it reached the last key.
func (f *Frontier) waitingHosts(after string, n int) (hosts []string, last string, end bool, err error) {
	err = f.store.hosts(context.Background(), func(_ *tx, it *badger.Iterator) error {
		// The bound on looks matters when most hosts are on the workbench.
		for looked := 0; len(hosts) < n && looked < 16*n; looked++ {
			host, err := nextHost(it, kindPending, after)
			if end = host == ""; err != nil || end {
				return err
			}
			if after = host; !f.kept(host) {
				hosts = append(hosts, host)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", false, fmt.Errorf("look for waiting hosts: %w", err)
	}
	return hosts, after, end, nil
}

// kept says that a host on disk must not be brought in: it is on the workbench, frozen or not owned.
func (f *Frontier) kept(host string) bool {
	f.mu.Lock()
	here, away := f.bench.hosts[host] != nil || f.frozen[host] != nil, f.away.has(host)
	f.mu.Unlock()
	if here || !away {
		return here
	}
	kept := false
	err := f.store.read(func(txn *tx) error {
		rec, _, err := readRecord(txn, host)
		kept = rec.role != Owned
		return err
	})
	return err == nil && kept
}

// evictSleepers makes room on a full workbench by sending hosts with a long wait back to disk. A host of which only single URLs wait
// stays, because that is not on disk. evictSleepers looks at a bounded number of hosts. It needs mu held.
func (f *Frontier) evictSleepers(now time.Time) {
	looked := 0
	for _, h := range f.bench.hosts {
		if _, ok := h.due(); ok && h.rests().Sub(now) > longSleep && h.evictable() {
			f.bench.leave(h, now)
			// Unlike rescan, this leaves wrapped as it is: the host need not come back soon.
			f.scan, f.found, f.bench.recrawl.over = true, true, !f.bench.recrawl.On()
		}
		if looked++; looked == 8*activateAtOnce {
			return
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
			f.unload(h)
		}
	}()
	rec, err := f.load(h)
	if err != nil {
		return err
	}
	if rec.role != Owned { // it leaves again at once
		f.update(func(now time.Time) {
			h.frozen, h.foreign = true, true
			f.bench.loadedHost(h, rec, now)
		})
		return nil
	}
	now := time.Now()
	reason, until := f.deps.Blocked(h.name), time.Time{}
	if reason == "" && rec.endedUntil.After(now) {
		reason, until = rec.endReason, earlier(rec.endedUntil, now.Add(f.bench.rules.EndedFor))
	}
	if reason != "" {
		_, err = f.giveUp(context.Background(), h.name, reason, until)
	} else if err = f.read(h, rec.partial); err == nil {
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

// unload takes a host off the workbench that could not be read. It comes in again later.
func (f *Frontier) unload(h *host) {
	f.update(func(now time.Time) {
		h.reading = false
		f.bench.leave(h, now)
		f.rescan()
		f.bench.recrawl.again()
	})
}

// load asks the ledger for the record of a host. If URLs were reported done by another node, it first has them taken out of their blocks.
func (f *Frontier) load(h *host) (rec record, err error) {
	l := f.ledger
	for err == nil {
		err = l.onHost(context.Background(), readOnly, h.name, func(_ *batch, e *hostEntry) error {
			rec = e.rec
			rec.partial = slices.Clone(rec.partial)
			return nil
		})
		if err == nil {
			if rec.role != Owned || !rec.loose {
				return rec, nil
			}
			err = l.onHost(context.Background(), alone, h.name, l.decideReconcile)
		}
	}
	return rec, fmt.Errorf("load host %s: %w", h.name, err)
}

// read fills the window of a host from disk. The host must be marked as reading, so that no other goroutine changes its window.
func (f *Frontier) read(h *host, leftover []partialBlock) error {
	if f.cfg.TrackDepth {
		depths, err := f.store.depths(nil, h.name)
		if err != nil {
			return err
		}
		f.mu.Lock()
		for hash, depth := range depths {
			h.lower(hash, depth)
		}
		f.mu.Unlock()
	}
	var queues [Revisit]reading
	f.mu.Lock()
	if h.leftover == nil {
		h.leftover = leftover
	}
	any := false
	for o := range queues {
		// While a host is loading, its blocks on disk are not known yet.
		if q := (reading{after: h.loaded[o], known: h.known[o]}); h.place == loading || q.after < q.known {
			q.want = f.cfg.WindowURLs - h.window[o].len()
			queues[o], any = q, any || q.want > 0
		}
	}
	f.mu.Unlock()
	if any {
		if err := f.store.blocks(h.name, &queues); err != nil {
			return err
		}
		f.mu.Lock()
		for o := range queues {
			h.fill(Origin(o), &queues[o])
		}
		f.mu.Unlock()
	}
	return f.readDue(h)
}

// runRefills fills windows that run low.
func (f *Frontier) runRefills(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-f.dry:
		}
		f.mu.Lock()
		low := f.bench.refills
		f.bench.refills = nil
		f.mu.Unlock()
		for _, h := range low {
			if err := f.read(h, nil); err != nil {
				return err
			}
			f.update(func(now time.Time) {
				h.reading = false
				f.bench.settle(h, now)
			})
		}
	}
}

// nominate makes a host with URLs on disk a candidate. It needs mu held.
func (f *Frontier) nominate(name string) {
	if _, ok := f.candidate[name]; ok {
		return
	}
	if len(f.candidate) >= maxCandidates {
		f.rescan()
		return
	}
	f.candidate[name] = struct{}{}
	f.candidates.push(name)
	if f.waiters.len() > 0 {
		signal(f.hungry)
	}
}

// rescan notes that a host waits on disk that is no candidate. It needs mu held.
func (f *Frontier) rescan() { f.scan, f.wrapped, f.found = true, false, true }

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
		if err := f.thawed(ctx, name); err != nil {
			return false, err
		}
		if f.bench.hosts[name] != nil {
			f.mu.Unlock()
			return true, nil
		}
		if len(f.bench.hosts) >= f.cfg.FrontHosts {
			f.evictSleepers(time.Now())
		}
		h := f.bench.enter(name)
		f.mu.Unlock()
		if err := f.activate([]*host{h}); err != nil {
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

// thawed waits until the host is not frozen. It returns with mu held unless it fails.
func (f *Frontier) thawed(ctx context.Context, name string) error {
	for {
		f.mu.Lock()
		z := f.frozen[name]
		if z == nil {
			return nil
		}
		over := z.over
		f.mu.Unlock()
		select {
		case <-over:
		case <-f.ledger.closed:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// resume lets a host go on when the end of its task is on disk. A host that has used up its budget while others wait is evicted.
func (f *Frontier) resume(h *host) {
	f.update(func(now time.Time) {
		h.ending--
		if h.taken >= f.cfg.HostBudget && len(f.bench.hosts) >= f.cfg.FrontHosts && h.evictable() &&
			(f.scan || f.candidates.len() > 0 || !f.bench.recrawl.done) {
			f.bench.leave(h, now)
			f.rescan()
			f.bench.recrawl.again()
		} else {
			f.bench.settle(h, now)
		}
	})
}
