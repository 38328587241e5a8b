package frontier

import (
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// decideRole changes the role of a host.
func (l *ledger) decideRole(b *batch, host string, role Role) error {
	h, err := l.entry(b, host)
	if err != nil {
		return err
	}
	if err := l.track(b, host, h); err != nil {
		return err
	}
	if h.rec.role != role {
		pending := int(h.rec.digest.Pending())
		l.count.moved(h.rec.role, 0, pending)
		l.count.moved(role, pending, 0)
		if err := l.countPages(host, h, role); err != nil {
			return err
		}
	}
	h.rec.role = role
	b.touched[host] = h
	b.offers = append(b.offers, offered{host: host, role: &role})
	return nil
}

// track begins to keep the digest of a host. It reads all its URLs once.
func (l *ledger) track(b *batch, host string, h *hostEntry) error {
	if h.rec.tracked {
		return nil
	}
	kept := h.rec.digest
	if !h.stored && l.seen.count(host, 0) == 0 {
		h.rec.digest = Digest{} // it has none: the count is never too low
	} else {
		set, err := l.exact(b, host)
		if err != nil {
			return err
		}
		h.rec.digest = set.digest()
	}
	h.rec.digest.Drops, h.rec.digest.Pages, h.rec.digest.PagesXor = kept.Drops, kept.Pages, kept.PagesXor
	h.rec.tracked = true
	l.marked.add(host)
	b.touched[host] = h
	return nil
}

// decideReconcile takes the URLs that are done elsewhere out of the blocks of a host. Nobody may have them in memory.
func (l *ledger) decideReconcile(b *batch, host string) error {
	l.settle()
	h, err := l.entry(b, host)
	if err != nil || !h.rec.loose {
		return err
	}
	set, err := l.exact(b, host)
	if err != nil {
		return err
	}
	rewritten := &rewriting{store: l.store, host: host, rec: &h.rec}
	err = l.store.each(hostKey(kindPending, host), nil, false, func(item *badger.Item) (bool, error) {
		value, err := item.ValueCopy(nil)
		if err != nil {
			return false, err
		}
		entries, err := l.store.codec.open(host, value)
		if err != nil {
			return false, err
		}
		return true, rewritten.block(item.KeyCopy(nil), entries, set)
	})
	if err == nil {
		err = rewritten.flush()
	}
	if err != nil {
		return fmt.Errorf("clear up pending URLs of %s: %w", host, err)
	}
	h.rec.loose = false
	b.touched[host] = h
	return nil
}

// rewriting writes blocks without the URLs that are done, a number of them in a transaction with the record that no
// longer has their bitmaps: at every moment the two fit together.
type rewriting struct {
	store *store
	host  string
	rec   *record
	keys  [][]byte
	// kept are the blocks as they are to be; nil for those that are empty now.
	kept [][]entry
}

// maxRewritten blocks, of maxBlockBytes at most, fit into the smallest transaction.
const maxRewritten = 12

func (r *rewriting) block(key []byte, entries []entry, set *hostSet) error {
	var left []entry
	for _, e := range entries {
		if set.hashes[e.hash] != isDone {
			left = append(left, e)
		}
	}
	if len(left) == len(entries) {
		return nil
	}
	r.keys, r.kept = append(r.keys, key), append(r.kept, left)
	if len(r.keys) < maxRewritten {
		return nil
	}
	return r.flush()
}

func (r *rewriting) flush() error {
	if len(r.keys) == 0 {
		return nil
	}
	err := r.store.write(func(txn *badger.Txn) error {
		for i, key := range r.keys {
			_, seq, err := splitPending(key[len(hostKey(kindPending, r.host)):])
			if err != nil {
				return err
			}
			r.rec.unmark(seq)
			if len(r.kept[i]) == 0 {
				err = txn.Delete(key)
			} else {
				var body []byte
				for _, e := range r.kept[i] {
					body = appendEntry(body, e)
				}
				err = txn.SetEntry(badger.NewEntry(key, r.store.codec.seal(body)).WithMeta(byte(len(r.kept[i]))))
			}
			if err != nil {
				return err
			}
		}
		return txn.Set(hostKey(kindHost, r.host), r.rec.append(nil))
	})
	r.keys, r.kept = nil, nil
	return err
}
