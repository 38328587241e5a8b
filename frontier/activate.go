package frontier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/errgroup"
)

// supplyLocked says whether hosts on disk may come in. It needs mu held.
func (f *Frontier) supplyLocked() bool {
	return f.candidates.len() > 0 || f.scan && !f.wrapped || !f.bench.recrawl.done
}

// maxCandidates bounds the names of hosts held beside the bench; the rest is found by scanning.
const maxCandidates = 4096

// activateAtOnce is how many hosts are brought in before the fetchers are asked again whether they still starve.
const activateAtOnce = 32

// longSleep is for how long a host must wait to do so on disk when the workbench is full.
const longSleep = time.Minute

// rescanAfter is how long hosts on disk are left alone after a scan that found none to bring in, or none but sleepers.
const rescanAfter = 10 * time.Second

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
			hosts = append(hosts, due...)
			if len(hosts) == 0 {
				break
			}
			switch err := f.activate(hosts); {
			case errors.Is(err, ErrClosed):
				return nil // the ledger stops, and says why if it should not have
			case err != nil:
				return err
			}
		}
	}
}

// nextHosts picks hosts to bring in: candidates first, then whom a scan of the disk finds. They enter the bench in the
// same breath: between the two Idle would see neither.
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
		if f.bench.hosts[name] == nil && f.frozen[name] == nil {
			hosts = append(hosts, f.bench.enter(name))
		}
	}
	scan, cursor := f.scan && !f.wrapped, f.cursor
	f.mu.Unlock()
	if len(hosts) > 0 || room <= 0 || !scan {
		return hosts, nil
	}
	names, last, end, err := f.store.waiting(cursor, room, f.kept)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(names) > 0:
		f.cursor, f.found = last, true
		for _, name := range names {
			if f.bench.hosts[name] == nil && f.frozen[name] == nil {
				hosts = append(hosts, f.bench.enter(name))
			}
		}
		if len(hosts) == 0 {
			signal(f.hungry) // they came in by themselves meanwhile: look on
		}
	case end && !f.found:
		// A whole round, and nobody waits: what comes now is told by offered.
		f.scan, f.wrapped, f.cursor = false, true, ""
		signal(f.quiet)
	case end && !f.useful:
		// A whole round, and all wait: another now would only send one sleeper back for the next.
		f.wrapped, f.cursor, f.found = true, "", false
	case end:
		f.cursor, f.found, f.useful = "", false, false
		signal(f.hungry)
	default:
		f.cursor = last
		signal(f.hungry) // only hosts of the bench, or of others, so far: look on
	}
	return hosts, nil
}

// kept says that a host with pending URLs on disk is not waiting there for a place.
func (f *Frontier) kept(host string) bool {
	f.mu.Lock()
	here, away := f.bench.hosts[host] != nil || f.frozen[host] != nil, f.away.has(host)
	f.mu.Unlock()
	if here || !away {
		return here
	}
	kept := false
	err := f.store.db.View(func(txn *badger.Txn) error {
		rec, _, err := readRecord(txn, host)
		kept = rec.role != Owned
		return err
	})
	return err == nil && kept
}

// evictSleepers makes room on a full bench: hosts that have long to wait can do so on disk. Those whose pages wait, not
// they themselves, stay: the disk does not know of that. It looks at a bounded number of hosts. It needs mu held.
func (f *Frontier) evictSleepers(now time.Time) {
	looked := 0
	for _, h := range f.bench.hosts {
		if _, ok := h.due(); ok && h.rests().Sub(now) > longSleep && f.bench.evictable(h) {
			f.bench.leave(h, now)
			f.scan, f.found, f.bench.recrawl.over = true, true, !f.bench.recrawl.On() // but not at once: it has long to wait
		}
		if looked++; looked == 8*activateAtOnce {
			return
		}
	}
}

// activate reads hosts that have entered the workbench from disk, several at once: each waits for the ledger, whose answers come
// together.
func (f *Frontier) activate(hosts []*host) error {
	var g errgroup.Group
	g.SetLimit(activateAtOnce)
	for _, h := range hosts {
		g.Go(func() error { return f.activateHost(h) })
	}
	return g.Wait()
}

func (f *Frontier) activateHost(h *host) error {
	rec, err := f.load(h)
	if err != nil {
		return err
	}
	if rec.role != Owned { // it leaves as it came
		f.mu.Lock()
		defer f.mu.Unlock()
		now := time.Now()
		h.frozen, h.foreign = true, true
		f.bench.loadedHost(h, rec, now)
		f.dispatch(now)
		return nil
	}
	now := time.Now()
	reason, until := f.deps.Blocked(h.name), time.Time{}
	if reason == "" && rec.endedUntil.After(now) {
		reason, until = rec.endReason, earlier(rec.endedUntil, now.Add(f.bench.rules.EndedFor))
	}
	if reason != "" {
		if _, err := f.giveUp(context.Background(), h.name, reason, until); err != nil {
			return err
		}
	} else if err := f.read(h, rec.partial); err != nil {
		return err
	} else if err := f.noneDue(h); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now = time.Now()
	f.checkInLocked(h)
	f.useful = f.useful || later(rec.notBefore, h.site.opens(now)).Sub(now) <= longSleep
	f.bench.loadedHost(h, rec, now)
	f.dispatch(now)
	return nil
}

// load asks the ledger for the record of a host, and lets it clear up after a hand-off.
func (f *Frontier) load(h *host) (rec record, err error) {
	l := f.ledger
	for {
		err := l.do(context.Background(), &request{reads: true, op: func(b *batch) error {
			h, err := l.entry(b, h.name)
			if err == nil {
				rec = h.rec.clone()
			}
			return err
		}})
		if err == nil && rec.role == Owned && rec.loose {
			if err = l.change(context.Background(), true, func(b *batch) error { return l.decideReconcile(b, h.name) }); err == nil {
				continue
			}
		}
		if err != nil {
			return rec, fmt.Errorf("load host %s: %w", h.name, err)
		}
		return rec, nil
	}
}

// read fills a host's window from disk. The host is marked as reading, so that nobody else touches its window.
func (f *Frontier) read(h *host, leftover []partialBlock) error {
	if f.cfg.TrackDepth {
		depths, err := f.store.depths(h.name)
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
		// Of a host that enters it is not known yet what is on disk.
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
			f.bench.fill(h, Origin(o), &queues[o])
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
			f.mu.Lock()
			f.bench.refilled(h, time.Now())
			f.dispatch(time.Now())
			f.mu.Unlock()
		}
	}
}
