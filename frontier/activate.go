package frontier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/errgroup"
)

// activation brings hosts onto the workbench and sends them back. They wait on disk and come in only when fetchers starve: a front no
// larger than needed keeps memory small and connections warm.
type activation struct {
	*front

	// The lock of the front guards what follows.
	candidates fifo[string]         // hosts with URLs on disk that could enter the bench
	candidate  map[string]struct{}  // the same as a set
	scan       bool                 // hosts wait on disk that are not candidates
	cursor     string               // the last host that the scan looked at
	found      bool                 // somebody waits on disk, or may, since the scan began at the front
	useful     bool                 // somebody came in since the scan began at the front who need not wait on
	wrapped    bool                 // the scan found nobody, or none but sleepers, since it last began at the front
	away       marks                // hosts not owned
	frozen     map[string]*freezing // hosts that must not enter the bench
}

func newActivation(f *front) *activation {
	a := &activation{front: f, candidate: make(map[string]struct{}), frozen: make(map[string]*freezing)}
	f.supply = a.supplyLocked
	return a
}

// supplyLocked says whether hosts on disk may come in. It needs mu held.
func (a *activation) supplyLocked() bool {
	return a.candidates.len() > 0 || a.scan && !a.wrapped || !a.bench.recrawl.done
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
func (a *activation) runActivation(stop <-chan struct{}) error {
	retry := time.NewTicker(rescanAfter)
	defer retry.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-a.hungry:
		case <-retry.C:
			a.mu.Lock()
			a.wrapped = false
			a.bench.recrawl.again()
			a.mu.Unlock()
		}
		for {
			hosts, err := a.nextHosts()
			if err != nil {
				return err
			}
			due, err := a.nextDueHosts()
			if err != nil {
				return err
			}
			hosts = append(hosts, due...)
			if len(hosts) == 0 {
				break
			}
			switch err := a.activate(hosts); {
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
func (a *activation) nextHosts() ([]*host, error) {
	a.mu.Lock()
	starved := a.waiters.len() > 0 || a.craving
	a.craving = false
	if !starved || a.full != "" || a.outage.keepsTasks(time.Now()) {
		a.mu.Unlock()
		return nil, nil
	}
	if len(a.bench.hosts) >= a.cfg.FrontHosts && a.supplyLocked() {
		a.evictSleepers(time.Now())
	}
	room := min(activateAtOnce, a.cfg.FrontHosts-len(a.bench.hosts))
	var hosts []*host
	for a.candidates.len() > 0 && len(hosts) < room {
		name := a.candidates.pop()
		delete(a.candidate, name)
		if a.bench.hosts[name] == nil && a.frozen[name] == nil {
			hosts = append(hosts, a.bench.enter(name))
		}
	}
	scan, cursor := a.scan && !a.wrapped, a.cursor
	a.mu.Unlock()
	if len(hosts) > 0 || room <= 0 || !scan {
		return hosts, nil
	}
	names, last, end, err := a.store.waiting(cursor, room, a.kept)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(names) > 0:
		a.cursor, a.found = last, true
		for _, name := range names {
			if a.bench.hosts[name] == nil && a.frozen[name] == nil {
				hosts = append(hosts, a.bench.enter(name))
			}
		}
		if len(hosts) == 0 {
			signal(a.hungry) // they came in by themselves meanwhile: look on
		}
	case end && !a.found:
		// A whole round, and nobody waits: what comes now is told by offered.
		a.scan, a.wrapped, a.cursor = false, true, ""
		signal(a.quiet)
	case end && !a.useful:
		// A whole round, and all wait: another now would only send one sleeper back for the next.
		a.wrapped, a.cursor, a.found = true, "", false
	case end:
		a.cursor, a.found, a.useful = "", false, false
		signal(a.hungry)
	default:
		a.cursor = last
		signal(a.hungry) // only hosts of the bench, or of others, so far: look on
	}
	return hosts, nil
}

// kept says that a host with pending URLs on disk is not waiting there for a place.
func (a *activation) kept(host string) bool {
	a.mu.Lock()
	here, away := a.bench.hosts[host] != nil || a.frozen[host] != nil, a.away.has(host)
	a.mu.Unlock()
	if here || !away {
		return here
	}
	kept := false
	err := a.store.db.View(func(txn *badger.Txn) error {
		rec, _, err := readRecord(txn, host)
		kept = rec.role != Owned
		return err
	})
	return err == nil && kept
}

// evictSleepers makes room on a full bench: hosts that have long to wait can do so on disk. Those whose pages wait, not
// they themselves, stay: the disk does not know of that. It looks at a bounded number of hosts. It needs mu held.
func (a *activation) evictSleepers(now time.Time) {
	looked := 0
	for _, h := range a.bench.hosts {
		if _, ok := h.due(); ok && h.rests().Sub(now) > longSleep && a.bench.evictable(h) {
			a.bench.leave(h, now)
			a.scan, a.found, a.bench.recrawl.over = true, true, !a.bench.recrawl.On() // but not at once: it has long to wait
		}
		if looked++; looked == 8*activateAtOnce {
			return
		}
	}
}

// activate reads hosts that have entered the workbench from disk, several at once: each waits for the ledger, whose answers come
// together.
func (a *activation) activate(hosts []*host) error {
	var g errgroup.Group
	g.SetLimit(activateAtOnce)
	for _, h := range hosts {
		g.Go(func() error { return a.activateHost(h) })
	}
	return g.Wait()
}

func (a *activation) activateHost(h *host) error {
	rec, err := a.load(h)
	if err != nil {
		return err
	}
	if rec.role != Owned { // it leaves as it came
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		h.frozen, h.foreign = true, true
		a.bench.loadedHost(h, rec, now)
		a.dispatch(now)
		return nil
	}
	now := time.Now()
	reason, until := a.deps.Blocked(h.name), time.Time{}
	if reason == "" && rec.endedUntil.After(now) {
		reason, until = rec.endReason, earlier(rec.endedUntil, now.Add(a.bench.rules.EndedFor))
	}
	if reason != "" {
		if _, err := a.giveUp(context.Background(), h.name, reason, until); err != nil {
			return err
		}
	} else if err := a.read(h, rec.partial); err != nil {
		return err
	} else if err := a.noneDue(h); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now = time.Now()
	a.checkInLocked(h)
	a.useful = a.useful || later(rec.notBefore, h.site.opens(now)).Sub(now) <= longSleep
	a.bench.loadedHost(h, rec, now)
	a.dispatch(now)
	return nil
}

// load asks the ledger for the record of a host, and lets it clear up after a hand-off.
func (a *activation) load(h *host) (rec record, err error) {
	l := a.ledger
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
func (a *activation) read(h *host, leftover []partialBlock) error {
	if a.cfg.TrackDepth {
		depths, err := a.store.depths(h.name)
		if err != nil {
			return err
		}
		a.mu.Lock()
		for hash, depth := range depths {
			h.lower(hash, depth)
		}
		a.mu.Unlock()
	}
	var queues [Revisit]reading
	a.mu.Lock()
	if h.leftover == nil {
		h.leftover = leftover
	}
	any := false
	for o := range queues {
		// Of a host that enters it is not known yet what is on disk.
		if q := (reading{after: h.loaded[o], known: h.known[o]}); h.place == loading || q.after < q.known {
			q.want = a.cfg.WindowURLs - h.window[o].len()
			queues[o], any = q, any || q.want > 0
		}
	}
	a.mu.Unlock()
	if any {
		if err := a.store.blocks(h.name, &queues); err != nil {
			return err
		}
		a.mu.Lock()
		for o := range queues {
			a.bench.fill(h, Origin(o), &queues[o])
		}
		a.mu.Unlock()
	}
	return a.readDue(h)
}

// runRefills fills windows that run low.
func (a *activation) runRefills(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-a.dry:
		}
		a.mu.Lock()
		low := a.bench.refills
		a.bench.refills = nil
		a.mu.Unlock()
		for _, h := range low {
			if err := a.read(h, nil); err != nil {
				return err
			}
			a.mu.Lock()
			a.bench.refilled(h, time.Now())
			a.dispatch(time.Now())
			a.mu.Unlock()
		}
	}
}
