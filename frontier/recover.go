package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// trimEvery is how many blocks or pages are read one after the other before their memory is given back.
const trimEvery = 1 << 15

// recover reads what is on disk: it fills the seen filter and the counts of hosts, finds the last sequence number, and
// counts the pending URLs. It reads each URL once, in order.
// The hosts not owned are returned.
func (l *ledger) recover() (away marks, err error) {
	if err := l.checkVersion(); err != nil {
		return nil, err
	}
	away = make(marks)
	counted := make(marks) // hosts whose digest says how many URLs are pending
	var pending, held int64
	blocks := 0
	note := func(key []byte) (string, []byte, error) {
		host, rest, err := splitKey(key)
		if err == nil && len(rest) >= 8 {
			l.seq = max(l.seq, binary.BigEndian.Uint64(rest[len(rest)-8:]))
		}
		return host, rest, err
	}
	add := func(host string, hash uint64) {
		l.seen.perhaps(hash)
		l.seen.count(host, 1)
	}
	// Records come first: they say whose pending URLs are to be crawled here.
	err = l.store.each(kindPrefix(kindHost), nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := splitKey(item.Key())
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			rec, err := decodeRecord(host, v)
			l.seen.count(host, 1) // none of its URLs may be left, and yet the next is not the first (offered.first)
			for _, hash := range rec.fresh {
				add(host, hash)
			}
			if rec.tracked || rec.role != Owned {
				l.marked.add(host)
			}
			switch {
			case rec.role != Owned:
				away.add(host)
				held += int64(rec.digest.Pending())
			case rec.tracked:
				counted.add(host)
				pending += int64(rec.digest.Pending())
			}
			if rec.role == Owned && !rec.tracked {
				for _, p := range rec.partial {
					pending -= int64(p.done.count())
				}
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read records of hosts: %w", err)
	}
	err = l.store.each(kindPrefix(kindPending), nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := note(item.Key())
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			entries, err := l.store.codec.open(host, v)
			for _, e := range entries {
				add(host, e.hash)
			}
			if !away.has(host) && !counted.has(host) {
				pending += int64(len(entries))
			}
			if blocks++; blocks%trimEvery == 0 {
				return errors.Join(err, l.store.trim())
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read pending URLs: %w", err)
	}
	err = l.store.each(kindPrefix(kindSeen), nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := note(item.Key())
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			for ; len(v) >= 8; v = v[8:] {
				add(host, binary.LittleEndian.Uint64(v))
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read seen sets: %w", err)
	}
	l.count.start(pending, held)
	err = l.store.eachPage(kindPrefix(kindPage), func(host string, due stamp) {
		if !away.has(host) {
			l.count.page(Owned, due, 1)
		}
	})
	if err != nil {
		return nil, err
	}
	return away, nil
}

// checkVersion refuses a store of another layout, and marks a new one.
func (l *ledger) checkVersion() error {
	value, err := l.store.get(metaKey())
	if err != nil {
		return err
	}
	for old := byte(1); value == nil && old < keyVersion; old++ {
		if value, err = l.store.get([]byte{old, kindMeta}); err != nil {
			return err
		}
	}
	if value == nil {
		return l.store.write(func(txn *badger.Txn) error { return txn.Set(metaKey(), []byte{keyVersion}) })
	}
	if len(value) != 1 || value[0] != keyVersion {
		return fmt.Errorf("%w: its layout has version %v, this program reads %d; to start anew, give another directory or remove this one",
			ErrOldLayout, value, keyVersion)
	}
	return nil
}
