package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// trimEvery is how many blocks recover reads before it gives their memory back.
const trimEvery = 1 << 15

// recover reads what is on disk: it fills the seen filter and the counts of hosts, finds the last sequence number, and
// counts the pending URLs. It reads each URL once, in order.
func (l *ledger) recover() error {
	if err := l.checkVersion(); err != nil {
		return err
	}
	var pending int64
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
	err := l.store.each(kindPrefix(kindPending), nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := note(item.Key())
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			entries, err := l.store.codec.open(host, v)
			for _, e := range entries {
				add(host, e.hash)
			}
			pending += int64(len(entries))
			if blocks++; blocks%trimEvery == 0 {
				return errors.Join(err, l.store.trim())
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("read pending URLs: %w", err)
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
		return fmt.Errorf("read seen sets: %w", err)
	}
	err = l.store.each(kindPrefix(kindHost), nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := splitKey(item.Key())
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			rec, err := decodeRecord(host, v)
			for _, hash := range rec.fresh {
				add(host, hash)
			}
			for _, p := range rec.partial {
				pending -= int64(p.done.count())
			}
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("read records of hosts: %w", err)
	}
	l.count.start(pending)
	return nil
}

// checkVersion refuses a store of another layout, and marks a new one.
func (l *ledger) checkVersion() error {
	value, err := l.store.get(metaKey())
	if err != nil {
		return err
	}
	if value == nil {
		return l.store.db.Update(func(txn *badger.Txn) error { return txn.Set(metaKey(), []byte{keyVersion}) })
	}
	if len(value) != 1 || value[0] != keyVersion {
		return fmt.Errorf("the store has layout version %v, this program reads %d", value, keyVersion)
	}
	return nil
}
