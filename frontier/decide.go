package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// finished is a URL that is done, one way or the other, and the politeness of its host after it. A nil pending
// leaves the URL where it is: only the politeness is written.
type finished struct {
	pending *pending
	// visit, if set, is the page after the visit.
	visit   *visited
	verdict Ending
	reason  string
	state   hostState
}

// hostState is the part of a record that the workbench knows better than the ledger.
type hostState struct {
	lastRequest, notBefore time.Time
	crawlDelay             time.Duration
	level                  uint8
	robotsUntil            time.Time
	failures               uint8
}

// robotsRecord is a robots.txt to be kept, opaque.
type robotsRecord struct{ body []byte }

// decide carries a request into the batch.
func (l *ledger) decide(b *batch, r *request) error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	if r.op != nil {
		return r.op(b)
	}
	if err := l.decideAdds(b, r); err != nil {
		return err
	}
	if r.holdBack && slices.Contains(r.verdict, NotOwned) {
		r.heldBack = true
		return nil
	}
	if r.receipt != nil {
		b.bytes += cost("", string(r.receipt.Key))
		if err := b.txn.Set(shelfKey(r.receipt.Shelf.table, r.receipt.Key), nil); err != nil {
			return fmt.Errorf("write receipt at %s: %w", r.host, err)
		}
	}
	if r.robots != nil {
		if err := b.txn.Set(robotsKey(r.host), r.robots.body); err != nil {
			return fmt.Errorf("write robots.txt of %s: %w", r.host, err)
		}
	}
	if r.finish != nil {
		return l.decideFinish(b, r)
	}
	return nil
}

func (l *ledger) decideAdds(b *batch, r *request) error {
	if len(r.adds) == 0 {
		return nil
	}
	r.verdict = make([]Verdict, len(r.adds))
	for _, a := range r.adds {
		v, err := l.admit(b, a)
		if err != nil {
			return err
		}
		r.verdict[a.at] = v
		b.bytes += cost(a.host, a.entry.path)
		l.count.verdict(v)
	}
	b.urls += len(r.adds)
	return nil
}

// admit says whether a URL is new, and if so puts it into the batch.
func (l *ledger) admit(b *batch, a addition) (Verdict, error) {
	hash := a.entry.hash
	var h *hostEntry
	if l.marked.has(a.host) {
		var err error
		if h, err = l.entry(b, a.host); err != nil {
			return 0, err
		}
		if h.rec.role != Owned {
			return NotOwned, nil
		}
	}
	if !l.cfg.TrackDepth && l.seen.recent(hash) {
		return Duplicate, nil
	}
	set, state, known, err := l.lookup(b, a.host, hash)
	if err != nil {
		return 0, err
	}
	if known {
		l.seen.remember(hash)
		if l.cfg.TrackDepth && state.deeper(a.entry.depth) {
			return Duplicate, l.lower(b, set, a)
		}
		return Duplicate, nil
	}
	set, first, full, err := l.room(b, a.host, set)
	if err != nil || full {
		return HostFull, err
	}
	l.accept(b, a, set, h, first)
	return Accepted, nil
}

// lookup says what is known of a URL, if it is known. The exact set of the host is returned where it is in memory.
func (l *ledger) lookup(b *batch, host string, hash uint64) (set *hostSet, state urlState, known bool, err error) {
	if !l.seen.perhaps(hash) {
		return l.sets.get(host), 0, false, nil
	}
	if set, err = l.exact(b, host); err != nil {
		return nil, 0, false, err
	}
	state, known = set.hashes[hash]
	return set, state, known, nil
}

// accept puts a new URL into the batch. The exact set and the record of its host are nil where they are not at hand.
func (l *ledger) accept(b *batch, a addition, set *hostSet, h *hostEntry, first bool) {
	hash := a.entry.hash
	l.seen.remember(hash)
	if set != nil {
		l.sets.add(set, hash, pendingAt(a.entry.depth))
	}
	own := true
	if h != nil {
		own = h.rec.role == Owned
		if h.rec.tracked {
			h.rec.digest.accept(hash)
			b.touched[a.host] = h
		}
	}
	key := builderKey{a.host, a.origin}
	bl := b.builders[key]
	if bl == nil {
		bl = &builder{builderKey: key, first: first && h == nil, away: !own}
		b.builders[key] = bl
		b.order = append(b.order, bl)
	}
	bl.entries = append(bl.entries, a.entry)
	if own {
		b.changed(a.host, func(c *Change) { c.Added = append(c.Added, a.entry.pendingURL()) })
	}
}

// entry is the record of a host with the changes of the batch.
func (l *ledger) entry(b *batch, host string) (*hostEntry, error) {
	if h := b.touched[host]; h != nil {
		return h, nil
	}
	return l.hosts.get(l.store, host)
}

// lower notes that a pending URL was found less deep than before.
func (l *ledger) lower(b *batch, set *hostSet, a addition) error {
	set.hashes[a.entry.hash] = pendingAt(a.entry.depth)
	if err := b.txn.Set(depthKey(a.host, a.entry.hash), []byte{a.entry.depth}); err != nil {
		return fmt.Errorf("write depth at %s: %w", a.host, err)
	}
	b.offers = append(b.offers, offered{host: a.host, lowered: true, hash: a.entry.hash, depth: a.entry.depth})
	h, err := l.entry(b, a.host)
	if err != nil {
		return err
	}
	if h.rec.role == Owned {
		b.changed(a.host, func(c *Change) { c.Added = append(c.Added, a.entry.pendingURL()) })
	}
	return nil
}

// room counts one more URL of a host. It says whether that is the first, and whether the host is full. The exact set of
// the host is nil where it is not in memory; it is returned as it is then.
func (l *ledger) room(b *batch, host string, set *hostSet) (now *hostSet, first, full bool, err error) {
	n := l.seen.count(host, 1)
	most := int(l.mostURLs.Load())
	if s := l.site(host); s != nil && s.Budget != nil {
		most = *s.Budget
	}
	if most == 0 || n <= uint32(most) {
		return set, n == 1, false, nil
	}
	// The sketch may count too many; the set does not.
	if set, err = l.exact(b, host); err != nil {
		return nil, false, false, err
	}
	return set, false, len(set.hashes) >= most, nil
}

// exact is the exact seen set of a host.
func (l *ledger) exact(b *batch, host string) (*hostSet, error) {
	if set := l.sets.get(host); set != nil {
		return set, nil
	}
	return l.loadSet(b, host)
}

// loadSet reads the exact seen set of a host: from disk, and from the batch that is not there yet.
func (l *ledger) loadSet(b *batch, host string) (*hostSet, error) {
	l.settle()
	h, err := l.entry(b, host)
	if err != nil {
		return nil, err
	}
	set := l.sets.put(host)
	for o := range origins {
		if bl := b.builders[builderKey{host, o}]; bl != nil {
			for _, e := range bl.entries {
				l.sets.add(set, e.hash, pendingAt(e.depth))
			}
		}
	}
	err = l.store.each(hostKey(kindPending, host), nil, true, func(item *badger.Item) (bool, error) {
		return true, item.Value(func(v []byte) error {
			entries, err := l.store.codec.open(host, v)
			for _, e := range entries {
				l.sets.add(set, e.hash, pendingAt(e.depth))
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read pending URLs of %s: %w", host, err)
	}
	depths, err := l.store.depths(host)
	if err != nil {
		return nil, err
	}
	for hash, depth := range depths {
		l.sets.add(set, hash, pendingAt(depth))
	}
	// What is done comes last: of a half-done block it stands in both.
	err = l.store.each(hostKey(kindSeen, host), nil, true, func(item *badger.Item) (bool, error) {
		return true, item.Value(func(v []byte) error {
			for ; len(v) >= 8; v = v[8:] {
				l.sets.add(set, binary.LittleEndian.Uint64(v), isDone)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read seen set of %s: %w", host, err)
	}
	for _, hash := range h.rec.fresh {
		l.sets.add(set, hash, isDone)
	}
	return set, nil
}

func (l *ledger) decideFinish(b *batch, r *request) error {
	h, err := l.entry(b, r.host)
	if err != nil {
		return err
	}
	b.touched[r.host] = h
	b.bytes += 3*cost(r.host, "") + 8*maxFresh // block, depth and run
	f := r.finish
	rec := &h.rec
	if r.robots != nil || !f.state.alike(rec) {
		b.changed(r.host, func(c *Change) { c.State = true })
	}
	rec.lastRequest, rec.notBefore = f.state.lastRequest, f.state.notBefore
	rec.crawlDelay, rec.level, rec.robotsUntil = f.state.crawlDelay, f.state.level, f.state.robotsUntil
	rec.failures = f.state.failures
	p := f.pending
	switch {
	case p == nil || p.ref.seq <= h.droppedAt:
		return nil
	case f.visit != nil:
		if f.visit.old == nil { // it is new, unless what another node knew of it came meanwhile
			if f.visit.old, err = b.page(r.host, f.visit.hash); err != nil {
				return fmt.Errorf("read page of %s: %w", r.host, err)
			}
		}
		if err := l.decidePage(b, h, *f.visit); err != nil {
			return err
		}
		if p.page != nil { // it was done before
			l.count.revisited()
			return nil
		}
	}
	if rec.mark(p.ref.seq, p.index, p.ref.n) {
		if err := b.txn.Delete(pendingKey(r.host, p.ref.origin, p.ref.seq)); err != nil {
			return fmt.Errorf("delete block of %s: %w", r.host, err)
		}
	}
	rec.fresh = append(rec.fresh, p.hash)
	if set := l.sets.get(r.host); set != nil {
		set.hashes[p.hash] = isDone
	}
	if rec.tracked {
		rec.digest.end(p.hash)
	}
	b.changed(r.host, func(c *Change) { c.Done = append(c.Done, p.hash) })
	if p.lowered {
		if err := b.txn.Delete(depthKey(r.host, p.hash)); err != nil {
			return fmt.Errorf("delete depth at %s: %w", r.host, err)
		}
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
