package frontier

import (
	"fmt"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// maxAtomicKeys is how many keys are deleted in one transaction. More need several, and a record that a crash between
// them does not make wrong.
const maxAtomicKeys = 1000

// decideDrop gives a host up: its pending URLs are forgotten, not seen, so that links to them count as new later. It says how many
// they were. Until the time given, unless it is zero, new ones are dropped, too. Everything before it has to be on disk.
func (l *ledger) decideDrop(b *batch, h *hostEntry, reason string, until time.Time) (n int, err error) {
	l.settle()
	keys, n, err := l.pendingKeys(h.host, &h.rec)
	if err != nil {
		return 0, err
	}
	if err := l.unremember(b, h.host, n); err != nil {
		return 0, err
	}
	if err := l.deleteKeys(b, h.host, h, keys); err != nil {
		return 0, fmt.Errorf("drop pending URLs of %s: %w", h.host, err)
	}
	// The done URLs of half-done blocks are in fresh and in runs already.
	h.rec.partial, h.rec.loose = nil, false
	h.rec.failures = 0
	h.rec.digest.drop()
	h.rec.endedUntil, h.rec.endReason = until, strings.ToValidUTF8(reason, "")
	if h.rec.digest.Pages > 0 { // they stay, and wait as long as a host that was given up
		h.rec.next = max(h.rec.next, stampOf(later(until, time.Now().Add(max(l.ended, time.Minute)))))
	}
	if len(h.rec.endReason) > maxEndReason {
		h.rec.endReason = h.rec.endReason[:maxEndReason]
	}
	l.sets.forget(h.host)
	h.droppedAt = l.seq
	b.touched[h.host] = h
	if h.rec.role != Owned {
		l.count.moved(h.rec.role, 0, n)
		return n, nil
	}
	h.rec.dropped += uint64(n)
	b.offers = append(b.offers, offered{host: h.host, droppedAt: l.seq})
	l.count.ended(Dropped, reason, n)
	b.changed(h.host, (*Change).drop)
	return n, nil
}

// pendingKeys lists the keys of a host's pending URLs on disk, and says how many URLs they are.
func (l *ledger) pendingKeys(host string, rec *record) (keys [][]byte, urls int, err error) {
	prefix := hostKey(kindPending, host)
	err = l.store.each(prefix, nil, false, func(item *badger.Item) (bool, error) {
		_, seq, err := splitPending(item.Key()[len(prefix):])
		if err != nil {
			return false, err
		}
		urls += int(item.UserMeta())
		if done := rec.find(seq); done != nil {
			urls -= done.count()
		}
		keys = append(keys, item.KeyCopy(nil))
		return true, nil
	})
	if err == nil {
		err = l.store.each(hostKey(kindDepth, host), nil, false, func(item *badger.Item) (bool, error) {
			keys = append(keys, item.KeyCopy(nil))
			return true, nil
		})
	}
	if err != nil {
		return nil, 0, fmt.Errorf("look for pending URLs of %s: %w", host, err)
	}
	if rec.tracked { // blocks of a loose host hold URLs that are done
		urls = int(rec.digest.Pending())
	}
	return keys, urls, nil
}

// deleteKeys deletes keys of a host: with the batch where they are few, and before it where they are many.
func (l *ledger) deleteKeys(b *batch, host string, h *hostEntry, keys [][]byte) error {
	if len(keys) <= maxAtomicKeys {
		for _, key := range keys {
			if err := b.txn.Delete(key); err != nil {
				return err
			}
		}
		return nil
	}
	batch := l.store.db.NewWriteBatch()
	defer batch.Cancel()
	if h.rec.tracked { // a crash between two transactions leaves no digest that is wrong
		rec := h.rec
		rec.tracked = false
		if err := batch.Set(hostKey(kindHost, host), rec.append(nil)); err != nil {
			return err
		}
	}
	for _, key := range keys {
		if err := batch.Delete(key); err != nil {
			return err
		}
	}
	return batch.Flush()
}

// maxUnremembered is how many URLs of a host are looked up to make them no recent ones; for more, all hosts' are not.
const maxUnremembered = 4096

// unremember keeps the quick cache from answering for URLs of a host that are about to be forgotten.
func (l *ledger) unremember(b *batch, host string, urls int) error {
	if urls > maxUnremembered && l.sets.get(host) == nil {
		l.seen.forgetAll()
		return nil
	}
	set, err := l.exact(b, host)
	if err != nil {
		return err
	}
	for hash := range set.hashes {
		l.seen.forget(hash)
	}
	return nil
}

// decideRemove deletes everything about a host. The record goes last: until then the host keeps its role.
func (l *ledger) decideRemove(b *batch, host string) error {
	l.settle()
	h, err := l.entry(b, host)
	if err != nil {
		return err
	}
	if err := l.countPages(host, h, Replica); err != nil {
		return err
	}
	keys, pending, err := l.pendingKeys(host, &h.rec)
	if err != nil {
		return err
	}
	urls := pending + len(h.rec.fresh)
	for _, kind := range []byte{kindSeen, kindRobots, kindPage, kindDue} {
		err := l.store.each(hostKey(kind, host), nil, false, func(item *badger.Item) (bool, error) {
			keys = append(keys, item.KeyCopy(nil))
			if kind == kindSeen {
				urls += int(item.ValueSize() / 8)
			}
			return true, nil
		})
		if err != nil {
			return fmt.Errorf("look for keys of %s: %w", host, err)
		}
	}
	if err := l.unremember(b, host, urls); err != nil {
		return err
	}
	if err := l.deleteKeys(b, host, h, keys); err != nil {
		return fmt.Errorf("remove %s: %w", host, err)
	}
	if err := b.txn.Delete(hostKey(kindHost, host)); err != nil {
		return fmt.Errorf("remove %s: %w", host, err)
	}
	if err := h.setNext(b, 0); err != nil {
		return fmt.Errorf("remove %s: %w", host, err)
	}
	l.count.moved(h.rec.role, 0, pending)
	l.sets.forget(host)
	// The entry stays in the cache: the disk still says otherwise until the batch is there.
	h.rec, h.stored = record{}, false
	l.marked.remove(host)
	own := Owned
	b.offers = append(b.offers, offered{host: host, role: &own})
	return nil
}
