package frontier

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

// taskEnd is what is written when a task ends: the state of its host and, if pending is set, the end of its URL.
type taskEnd struct {
	host    string
	pending *pending
	visit   *visited // the page before and after the visit; nil if it is not remembered
	verdict Ending
	reason  string
	state   hostState
	robots  *RobotsOutcome // if set, its body is kept
	receipt *Receipt
}

// decideAdds judges URLs that may be new, and puts the new ones into the batch.
func (l *ledger) decideAdds(b *batch, adds []addition) ([]Verdict, error) {
	verdicts := make([]Verdict, len(adds))
	for i, a := range adds {
		v, err := l.admit(b, a)
		if err != nil {
			return nil, err
		}
		verdicts[i] = v
		b.bytes += cost(a.host, a.entry.Path)
		l.count.verdict(v)
	}
	b.urls += len(adds)
	return verdicts, nil
}

// admit decides whether a link is new and may be accepted, and puts it into the batch if so. No other code decides this for links. The role
// of the host comes first (only marked hosts may have another than Owned, or be given up), then the cache of recent hashes, then lookup.
func (l *ledger) admit(b *batch, a addition) (Verdict, error) {
	var h *hostEntry
	if l.marked.has(a.host) {
		var err error
		if h, err = l.entry(b, a.host); err != nil {
			return 0, err
		}
		if h.rec.role != Owned {
			return NotOwned, nil
		}
		if !h.rec.tracked && !h.rec.endedUntil.After(time.Now()) { // its give-up is over
			l.marked.remove(a.host)
		}
	}
	if !l.cfg.TrackDepth && l.seen.recent(a.entry.hash) {
		return Duplicate, nil
	}
	return l.put(b, a, h, true)
}

// put accepts a URL that is new. If it is known, put notes a smaller depth. If bounded, put refuses URLs of a host that was given up, or has as
// many as it may have. h is the record of the host, or nil if the caller does not have it.
func (l *ledger) put(b *batch, a addition, h *hostEntry, bounded bool) (Verdict, error) {
	givenUp := bounded && h != nil && h.rec.endedUntil.After(time.Now())
	// New links of a host that is known to refuse them need no look at its set: the sets of many endless hosts do not fit into memory.
	if bounded && !l.seen.mayHave(a.entry.hash) {
		if givenUp {
			return GivenUp, nil
		}
		if had, _ := l.sets.least.Get(a.host); had > 0 && l.site(a.host).fills(had, l.mostURLs.Load()) {
			return HostFull, nil
		}
	}
	state, err := l.lookup(b, a.host, a.entry.hash)
	if err != nil {
		return 0, err
	}
	if state != unknown {
		l.seen.remember(a.entry.hash)
		return Duplicate, l.lower(b, state, a)
	}
	if givenUp {
		return GivenUp, nil
	}
	n := l.seen.count(a.host, 1)
	if bounded {
		if full, err := l.full(b, a.host, n); err != nil || full {
			return HostFull, err
		}
	}
	l.accept(b, a, h, n == 1)
	return Accepted, nil
}

// lookup says what is known of a URL, from the filter or, if that is not sure, from the exact set of the host.
func (l *ledger) lookup(b *batch, host string, hash uint64) (urlState, error) {
	if !l.seen.testAndAdd(hash) {
		return unknown, nil
	}
	set, err := l.exact(b, host)
	return set[hash], err
}

// accept puts a new URL into the batch. h is the record of its host, or nil if the caller does not have it. first says that the host has no other.
func (l *ledger) accept(b *batch, a addition, h *hostEntry, first bool) {
	hash := a.entry.hash
	l.seen.remember(hash)
	l.sets.note(a.host, hash, pendingAt(a.entry.Depth))
	own := true
	if h != nil {
		own = h.rec.role == Owned
		if h.rec.tracked {
			h.rec.digest.accept(hash)
			b.touched[a.host] = h
		}
	}
	key := queueKey{a.host, a.origin}
	urls := b.added[key]
	if urls == nil {
		urls = &newURLs{queueKey: key, first: first && h == nil, away: !own}
		b.added[key] = urls
		b.order = append(b.order, urls)
	}
	urls.entries = append(urls.entries, a.entry)
	if own {
		b.changed(a.host, func(c *Change) { c.Added = append(c.Added, a.entry.PendingURL) })
	}
}

// entry returns the record of a host, with the changes of the batch.
func (l *ledger) entry(b *batch, host string) (*hostEntry, error) {
	if h := b.touched[host]; h != nil {
		return h, nil
	}
	if h, ok := l.hosts.Get(host); ok {
		return h, nil
	}
	h := &hostEntry{host: host}
	err := l.store.read(func(txn *tx) (err error) {
		h.rec, h.stored, err = readRecord(txn, host)
		return err
	})
	if err == nil {
		h.next = h.rec.nextAt()
		l.hosts.Add(host, h)
	}
	return h, wrap(err, "read store")
}

// lower notes that a known URL was found at a smaller depth, if it is pending and depths are tracked.
func (l *ledger) lower(b *batch, state urlState, a addition) error {
	if !l.cfg.TrackDepth || !state.deeper(a.entry.Depth) {
		return nil
	}
	l.sets.note(a.host, a.entry.hash, pendingAt(a.entry.Depth))
	b.set(numberKey(kindDepth, a.host, a.entry.hash), []byte{a.entry.Depth})
	b.news = append(b.news, func(t *transfers, _ time.Time) {
		if h := t.bench.hosts[a.host]; h != nil {
			h.depths[a.entry.hash] = a.entry.Depth
		}
	})
	h, err := l.entry(b, a.host)
	if err == nil && h.rec.role == Owned {
		b.changed(a.host, func(c *Change) { c.Added = append(c.Added, a.entry.PendingURL) })
	}
	return err
}

// full says whether a host has as many URLs as it may have. n is at least their number with the one that is to be added.
func (l *ledger) full(b *batch, host string, n uint32) (bool, error) {
	site, most := l.site(host), l.mostURLs.Load()
	if !site.fills(int(n)-1, most) {
		return false, nil
	}
	// The sketch may count too many. The set is exact.
	set, err := l.exact(b, host)
	full := err == nil && site.fills(len(set), most)
	if full {
		l.sets.least.Add(strings.Clone(host), len(set))
	}
	return full, err
}

// exact returns the exact seen set of a host. It reads it from disk and from the batch, which is not on disk yet, or takes it from memory.
func (l *ledger) exact(b *batch, host string) (hostSet, error) {
	if set := l.sets.get(host); set != nil {
		return set, nil
	}
	l.settle()
	h, err := l.entry(b, host)
	if err != nil {
		return nil, err
	}
	set := make(hostSet)
	add := func(entries []entry) {
		for _, e := range entries {
			set[e.hash] = pendingAt(e.Depth)
		}
	}
	for o := range origins {
		if urls := b.added[queueKey{host, o}]; urls != nil {
			add(urls.entries)
		}
	}
	for r, err := range l.store.rows(nil, hostKey(kindPending, host), nil, ahead) {
		if err != nil {
			return nil, fmt.Errorf("read pending URLs of %s: %w", host, err)
		}
		entries, err := l.store.codec.open(host, r.value)
		if err != nil {
			return nil, err
		}
		add(entries)
	}
	depths, err := l.store.depths(nil, host)
	if err != nil {
		return nil, err
	}
	for hash, depth := range depths {
		set[hash] = pendingAt(depth)
	}
	// Done URLs come last, because those of a half-done block are also among the pending.
	for r, err := range l.store.rows(nil, hostKey(kindSeen, host), nil, ahead) {
		if err != nil {
			return nil, fmt.Errorf("read seen set of %s: %w", host, err)
		}
		for v := r.value; len(v) >= 8; v = v[8:] {
			set[binary.LittleEndian.Uint64(v)] = isDone
		}
	}
	for _, hash := range h.rec.fresh {
		set[hash] = isDone
	}
	l.sets.put(host, set)
	return set, nil
}

// receipt puts a receipt on its shelf. It may be nil.
func (b *batch) receipt(r *Receipt) {
	if r != nil {
		b.bytes += cost("", string(r.Key))
		b.set(shelfKey(r.Shelf.table, r.Key), nil)
	}
}

// decideFinish puts the end of a task into the batch: the state of its host, its page if it was a visit, and the end of its URL.
func (l *ledger) decideFinish(b *batch, f *taskEnd) error {
	h, err := l.entry(b, f.host)
	if err != nil {
		return err
	}
	p := f.pending
	ends := p != nil && p.ref.seq > h.droppedAt
	// Nothing is read from here on, so everything is written or nothing.
	b.receipt(f.receipt)
	b.touched[f.host] = h
	b.bytes += 3*cost(f.host, "") + 8*maxFresh // block, depth and run
	rec := &h.rec
	if f.robots != nil {
		b.set(hostKey(kindRobots, f.host), f.robots.Body)
		b.bytes += len(f.robots.Body)
	}
	if f.robots != nil || !f.state.alike(&rec.hostState) {
		b.changed(f.host, func(c *Change) { c.State = true })
	}
	rec.hostState = f.state
	if !ends {
		return nil
	}
	if f.visit != nil {
		l.decidePage(b, h, *f.visit)
		if p.page != nil { // the URL of a revisit was done before
			l.count.change(func(t *Totals) { t.Revisited++ })
			return nil
		}
	}
	if rec.mark(p.ref.seq, p.index, p.ref.n) {
		b.del(pendingKey(f.host, p.ref.origin, p.ref.seq))
	}
	l.markDone(b, h, p.hash)
	if p.lowered {
		b.del(numberKey(kindDepth, f.host, p.hash))
	}
	switch f.verdict {
	case Done:
		rec.done++
	case Failed:
		rec.failed++
	case Dropped:
		rec.dropped++
	}
	l.count.ended(f.verdict, f.reason, 1)
	return nil
}

// markDone adds a URL to the seen set as done.
func (l *ledger) markDone(b *batch, h *hostEntry, hash uint64) {
	rec := &h.rec
	rec.fresh = append(rec.fresh, hash)
	if rec.tracked {
		rec.digest.end(hash)
	}
	l.sets.note(h.host, hash, isDone)
	if rec.role == Owned {
		b.changed(h.host, func(c *Change) { c.Done = append(c.Done, hash) })
	}
}
