package frontier

import (
	"encoding/binary"
	"fmt"

	"github.com/dgraph-io/badger/v4"
)

// trimEvery is how many blocks or pages are read in a row before their memory is given back.
const trimEvery = 1 << 15

// recover reads what is on disk, each URL once. It fills the seen filter and the counts of hosts, finds the last sequence number,
// counts the pending URLs, and returns the hosts not owned.
func (l *ledger) recover() (away marks, err error) {
	if err := l.checkVersion(); err != nil {
		return nil, err
	}
	away = make(marks)
	counted := make(marks) // hosts whose digest says how many URLs are pending
	var pending, held int64
	add := func(host string, hash uint64) {
		l.seen.perhaps(hash)
		l.seen.count(host, 1)
	}
	// Records come first: they say whose pending URLs are to be crawled here.
	err = l.recoverKind(kindHost, func(host string, r row) error {
		rec, err := decodeRecord(host, r.value)
		l.seen.count(host, 1) // even if no URL is left, the next is not the first (offered.first)
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
		default:
			for _, p := range rec.partial {
				pending -= int64(p.done.count())
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read records of hosts: %w", err)
	}
	blocks := 0
	err = l.recoverKind(kindPending, func(host string, r row) error {
		l.seq = max(l.seq, r.seq())
		entries, err := l.store.codec.open(host, r.value)
		for _, e := range entries {
			add(host, e.hash)
		}
		if !away.has(host) && !counted.has(host) {
			pending += int64(len(entries))
		}
		if blocks++; err == nil && blocks%trimEvery == 0 {
			err = l.store.trim()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read pending URLs: %w", err)
	}
	err = l.recoverKind(kindSeen, func(host string, r row) error {
		l.seq = max(l.seq, r.seq())
		for v := r.value; len(v) >= 8; v = v[8:] {
			add(host, binary.LittleEndian.Uint64(v))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read seen sets: %w", err)
	}
	l.count.start(pending, held)
	return away, l.store.eachPage(kindPrefix(kindPage), func(host string, due stamp) {
		if !away.has(host) {
			l.count.page(Owned, due, 1)
		}
	})
}

// recoverKind reads all keys of a kind of which each belongs to a host.
func (l *ledger) recoverKind(kind byte, read func(host string, r row) error) error {
	for r, err := range l.store.rows(nil, kindPrefix(kind), nil, ahead) {
		if err != nil {
			return err
		}
		host, rest, err := splitKey(r.key)
		if err == nil && kind != kindHost && len(rest) < 8 {
			err = fmt.Errorf("read key %x: no sequence number", r.key)
		}
		if err == nil {
			err = read(host, r)
		}
		if err != nil {
			return err
		}
	}
	return nil
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
