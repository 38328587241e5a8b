package frontier

import (
	"fmt"
	"slices"
	"time"
)

// maxAtomicKeys is how many keys are deleted in one transaction. More keys need several transactions, and the record must be right if the
// process dies between them.
const maxAtomicKeys = 1000

// decideDrop gives a host up and returns the number of its pending URLs. They are removed from the seen set, so that later links to them
// are new. Unless until is zero, links that come before that time are refused. Everything before it must be on disk.
func (l *ledger) decideDrop(b *batch, h *hostEntry, reason string, until time.Time) (n int, err error) {
	keys, n, err := l.keys(h)
	if err != nil {
		return 0, err
	}
	if err := l.unremember(b, h.host); err != nil {
		return 0, err
	}
	if err := l.deleteKeys(b, h, keys); err != nil {
		return 0, fmt.Errorf("drop pending URLs of %s: %w", h.host, err)
	}
	rec := &h.rec
	// The done URLs of half-done blocks are already in fresh or in runs.
	rec.partial, rec.loose = nil, false
	rec.failures = 0
	rec.digest.drop()
	changed := !until.IsZero() || !rec.endedUntil.IsZero()
	if rec.giveUp(until, reason); !until.IsZero() {
		l.marked.add(h.host)
	}
	if rec.digest.Pages > 0 { // the pages stay, and wait until the host may be taken up again
		rec.next = max(rec.next, stampOf(later(until, time.Now().Add(max(l.endedFor, time.Minute)))))
	}
	l.sets.forget(h.host)
	h.droppedAt = l.seq
	b.touched[h.host] = h
	if rec.role != Owned {
		l.count.moved(rec.role, 0, n)
		return n, nil
	}
	rec.dropped += uint64(n)
	at := l.seq
	b.news = append(b.news, func(t *transfers, now time.Time) { t.droppedLocked(h.host, at, now) })
	l.count.ended(Dropped, reason, n)
	b.changed(h.host, func(c *Change) {
		c.drop()
		c.State = c.State || changed
	})
	return n, nil
}

// keys returns the keys of a host's blocks and depths on disk, then those of other kinds, and the number of its pending URLs.
func (l *ledger) keys(h *hostEntry, others ...byte) (keys [][]byte, urls int, err error) {
	for _, kind := range append([]byte{kindPending, kindDepth}, others...) {
		for r, err := range l.store.rows(nil, hostKey(kind, h.host), nil, keysOnly) {
			if err != nil {
				return nil, 0, fmt.Errorf("look for keys of %s: %w", h.host, err)
			}
			if kind == kindPending {
				urls += h.rec.pendingIn(r.seq(), int(r.meta))
			}
			keys = append(keys, slices.Clone(r.key))
		}
	}
	if h.rec.tracked { // the blocks of a loose host hold URLs that are done
		urls = int(h.rec.digest.Pending())
	}
	return keys, urls, nil
}

// deleteKeys deletes keys of a host: the last in the batch, and those that are too many in transactions before it.
func (l *ledger) deleteKeys(b *batch, h *hostEntry, keys [][]byte) error {
	rec := h.rec // a crash between two transactions must leave neither a wrong digest nor a bitmap of a block that is gone
	rec.tracked = false
	for ; len(keys) > maxAtomicKeys; keys = keys[maxAtomicKeys:] {
		gone := make(map[uint64]bool)
		for _, key := range keys[:maxAtomicKeys] {
			if key[1] == kindPending {
				gone[row{key: key}.seq()] = true
			}
		}
		rec.partial = slices.DeleteFunc(slices.Clone(rec.partial), func(p partialBlock) bool { return gone[p.seq] })
		if err := l.writeApart(h, &rec, func(txn *tx) { txn.del(keys[:maxAtomicKeys]...) }); err != nil {
			return err
		}
	}
	b.del(keys...)
	return nil
}

// maxUnremembered is how many URLs of a host are removed from the cache of recent hashes one by one. For more, the cache is emptied.
const maxUnremembered = 4096

// unremember removes the URLs of a host from the cache of recent hashes, because some of them are about to be forgotten.
func (l *ledger) unremember(b *batch, host string) error {
	if l.seen.count(host, 0) > maxUnremembered && l.sets.get(host) == nil {
		l.seen.forgetAll()
		return nil
	}
	set, err := l.exact(b, host)
	if err != nil {
		return err
	}
	for hash := range set {
		l.seen.forget(hash)
	}
	return nil
}

// decideRemove deletes everything about a host. The record goes last: until then the host keeps its role. Everything before it must be on
// disk.
func (l *ledger) decideRemove(b *batch, h *hostEntry) error {
	if err := l.removePages(h); err != nil {
		return err
	}
	keys, pending, err := l.keys(h, kindSeen, kindRobots)
	if err != nil {
		return err
	}
	if err := l.unremember(b, h.host); err != nil {
		return err
	}
	if err := l.deleteKeys(b, h, keys); err != nil {
		return err
	}
	b.del(hostKey(kindHost, h.host))
	h.setNext(b, 0)
	l.count.moved(h.rec.role, 0, pending)
	l.sets.forget(h.host)
	// The entry stays in the cache, because the old record is on disk until the batch is.
	h.rec, h.stored, h.hinted = record{}, false, 0
	l.marked.remove(h.host)
	b.news = append(b.news, func(t *transfers, now time.Time) { t.changedRoleLocked(h.host, Owned, now) })
	return nil
}

// removePages deletes the pages of a host. Each of its transactions leaves a record that is right about the pages that are left.
func (l *ledger) removePages(h *hostEntry) error {
	prefix := hostKey(kindDue, h.host)
	var start []byte // behind the pages that are gone already, which would have to be skipped
	for {
		rec := h.rec
		var keys [][]byte
		var dues []stamp
		for r, err := range l.store.rows(nil, prefix, start, ahead) {
			if err != nil {
				return fmt.Errorf("look for pages of %s: %w", h.host, err)
			}
			due, hash, err := splitDue(r.key[len(prefix):])
			if err != nil {
				return err
			}
			dues = append(dues, due)
			rec.digest.Pages--
			if p, err := ParsePage(r.value, time.Unix(int64(due), 0)); err == nil { // else it is damaged, and goes all the same
				rec.digest.PagesXor ^= p.mark(hash)
			}
			start = slices.Clone(r.key)
			if keys = append(keys, start, numberKey(kindPage, h.host, hash)); len(keys) >= maxAtomicKeys {
				break
			}
		}
		if len(keys) == 0 {
			return nil
		}
		if err := l.writeApart(h, &rec, func(txn *tx) { txn.del(keys...) }); err != nil {
			return fmt.Errorf("remove pages of %s: %w", h.host, err)
		}
		h.rec = rec
		for _, due := range dues {
			l.count.page(rec.role, due, -1)
		}
	}
}
