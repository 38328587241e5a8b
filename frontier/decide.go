package frontier

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// finished is a URL that is done, one way or the other, and the politeness of its host after it. A nil pending
// leaves the URL where it is: only the politeness is written.
type finished struct {
	pending *pending
	verdict Ending
	reason  string
	state   hostState
}

// hostState is the part of a record that the workbench knows better than the ledger.
type hostState struct {
	lastRequest, notBefore time.Time
	crawlDelay             time.Duration
	level                  uint8
	robotsUntil            [2]time.Time
}

// dropped gives up all pending URLs of a host.
type dropped struct {
	reason string
	// until is when new URLs of the host are taken up again; zero: at once.
	until time.Time
}

// robotsRecord is a robots.txt to be kept, opaque.
type robotsRecord struct {
	scheme string
	body   []byte
}

// decide carries a request into the batch.
func (l *ledger) decide(b *batch, r *request) error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	switch {
	case r.drop != nil:
		return l.decideDrop(b, r)
	case r.load:
		h, err := l.hosts.get(l.store, r.host)
		if err != nil {
			return err
		}
		r.rec = h.rec.clone()
		return nil
	}
	if err := l.decideAdds(b, r); err != nil {
		return err
	}
	if r.robots != nil {
		if err := b.txn.Set(robotsKey(r.host, r.robots.scheme), r.robots.body); err != nil {
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
		l.count.verdict(v)
	}
	b.urls += len(r.adds)
	return nil
}

// admit says whether a URL is new, and if so puts it into the batch.
func (l *ledger) admit(b *batch, a addition) (Verdict, error) {
	hash := a.entry.hash
	if !l.cfg.TrackDepth && l.seen.recent(hash) {
		return Duplicate, nil
	}
	set := l.sets.get(a.host)
	if l.seen.perhaps(hash) {
		if set == nil {
			var err error
			if set, err = l.loadSet(b, a.host); err != nil {
				return 0, err
			}
		}
		if depth, ok := set.hashes[hash]; ok {
			l.seen.remember(hash)
			if l.cfg.TrackDepth && a.entry.depth < depth {
				return Duplicate, l.lower(b, set, a)
			}
			return Duplicate, nil
		}
	}
	first, full, err := l.room(b, a.host)
	if err != nil || full {
		return HostFull, err
	}
	l.seen.remember(hash)
	if set != nil {
		l.sets.add(set, hash, a.entry.depth)
	}
	key := builderKey{a.host, a.origin}
	bl := b.builders[key]
	if bl == nil {
		bl = &builder{builderKey: key, first: first}
		b.builders[key] = bl
		b.order = append(b.order, bl)
	}
	bl.entries = append(bl.entries, a.entry)
	return Accepted, nil
}

// lower notes that a pending URL was found less deep than before.
func (l *ledger) lower(b *batch, set *hostSet, a addition) error {
	set.hashes[a.entry.hash] = a.entry.depth
	if err := b.txn.Set(depthKey(a.host, a.entry.hash), []byte{a.entry.depth}); err != nil {
		return fmt.Errorf("write depth at %s: %w", a.host, err)
	}
	b.offers = append(b.offers, offered{host: a.host, lowered: true, hash: a.entry.hash, depth: a.entry.depth})
	return nil
}

// room counts one more URL of a host. It says whether that is the first, and whether the host is full.
func (l *ledger) room(b *batch, host string) (first, full bool, err error) {
	n := l.seen.count(host, 1)
	if l.cfg.MaxHostURLs == 0 || n <= uint32(l.cfg.MaxHostURLs) {
		return n == 1, false, nil
	}
	// The sketch may count too many; the set does not.
	set := l.sets.get(host)
	if set == nil {
		if set, err = l.loadSet(b, host); err != nil {
			return false, false, err
		}
	}
	return false, len(set.hashes) >= l.cfg.MaxHostURLs, nil
}

// loadSet reads the exact seen set of a host: from disk, and from the batch that is not there yet.
func (l *ledger) loadSet(b *batch, host string) (*hostSet, error) {
	l.settle()
	h, err := l.hosts.get(l.store, host)
	if err != nil {
		return nil, err
	}
	set := l.sets.put(host)
	for o := range origins {
		if bl := b.builders[builderKey{host, o}]; bl != nil {
			for _, e := range bl.entries {
				l.sets.add(set, e.hash, e.depth)
			}
		}
	}
	err = l.store.each(hostKey(kindPending, host), nil, true, func(item *badger.Item) (bool, error) {
		return true, item.Value(func(v []byte) error {
			entries, err := l.store.codec.open(host, v)
			for _, e := range entries {
				l.sets.add(set, e.hash, e.depth)
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
		l.sets.add(set, hash, depth)
	}
	// What is done comes last: of a half-done block it stands in both.
	err = l.store.each(hostKey(kindSeen, host), nil, true, func(item *badger.Item) (bool, error) {
		return true, item.Value(func(v []byte) error {
			for ; len(v) >= 8; v = v[8:] {
				l.sets.add(set, binary.LittleEndian.Uint64(v), 0)
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read seen set of %s: %w", host, err)
	}
	for _, hash := range h.rec.fresh {
		l.sets.add(set, hash, 0)
	}
	return set, nil
}

func (l *ledger) decideFinish(b *batch, r *request) error {
	h := b.touched[r.host]
	if h == nil {
		var err error
		if h, err = l.hosts.get(l.store, r.host); err != nil {
			return err
		}
		b.touched[r.host] = h
	}
	f := r.finish
	rec := &h.rec
	rec.lastRequest, rec.notBefore = f.state.lastRequest, f.state.notBefore
	rec.crawlDelay, rec.level, rec.robotsUntil = f.state.crawlDelay, f.state.level, f.state.robotsUntil
	p := f.pending
	if p == nil || p.ref.seq <= h.droppedAt {
		return nil
	}
	if rec.mark(p.ref.seq, p.index, p.ref.n) {
		if err := b.txn.Delete(pendingKey(r.host, p.ref.origin, p.ref.seq)); err != nil {
			return fmt.Errorf("delete block of %s: %w", r.host, err)
		}
	}
	rec.fresh = append(rec.fresh, p.hash)
	if set := l.sets.get(r.host); set != nil {
		set.hashes[p.hash] = 0
	}
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

// decideDrop deletes the pending URLs of a host. They are forgotten, not seen: if the host comes back, so do they.
func (l *ledger) decideDrop(b *batch, r *request) error {
	l.settle()
	h, err := l.hosts.get(l.store, r.host)
	if err != nil {
		return err
	}
	var keys [][]byte
	n := 0
	err = l.store.each(hostKey(kindPending, r.host), nil, false, func(item *badger.Item) (bool, error) {
		_, rest, err := splitKey(item.Key())
		if err != nil {
			return false, err
		}
		_, seq, err := splitPending(rest)
		if err != nil {
			return false, err
		}
		n += int(item.UserMeta())
		if done := h.rec.find(seq); done != nil {
			n -= done.count()
		}
		keys = append(keys, item.KeyCopy(nil))
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("drop pending URLs of %s: %w", r.host, err)
	}
	depths, err := l.store.depths(r.host)
	if err != nil {
		return err
	}
	for hash := range depths {
		keys = append(keys, depthKey(r.host, hash))
	}
	batch := l.store.db.NewWriteBatch()
	defer batch.Cancel()
	for _, key := range keys {
		if err := batch.Delete(key); err != nil {
			return fmt.Errorf("drop pending URLs of %s: %w", r.host, err)
		}
	}
	if err := batch.Flush(); err != nil {
		return fmt.Errorf("drop pending URLs of %s: %w", r.host, err)
	}
	// The done URLs of half-done blocks are in fresh and in runs already.
	h.rec.partial = nil
	h.rec.dropped += uint64(n)
	h.rec.endedUntil, h.rec.endReason = r.drop.until, strings.ToValidUTF8(r.drop.reason, "")
	if len(h.rec.endReason) > maxEndReason {
		h.rec.endReason = h.rec.endReason[:maxEndReason]
	}
	l.sets.forget(r.host)
	h.droppedAt = l.seq
	b.touched[r.host] = h
	b.offers = append(b.offers, offered{host: r.host, droppedAt: l.seq})
	r.dropN = n
	l.count.ended(Dropped, r.drop.reason, n)
	return nil
}
