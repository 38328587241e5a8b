package frontier

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// recover reads each URL on disk once. It fills the seen filter and the counts of hosts, finds the last sequence number, counts the pending
// URLs, and returns the hosts that are not owned.
func (l *ledger) recover() (away marks, err error) {
	if err := l.checkVersion(); err != nil {
		return nil, err
	}
	away = make(marks)
	counted := make(marks) // hosts whose digest says how many URLs are pending
	var pending, held int64
	of := func(host string) *int64 {
		if away.has(host) {
			return &held
		}
		return &pending
	}
	add := func(host string, hash uint64) {
		l.seen.testAndAdd(hash)
		l.seen.count(host, 1)
	}
	// Records come first, because they say which hosts are owned.
	err = l.store.walk(kindPrefix(kindHost), func(host string, r row) error {
		rec, err := decodeRecord(host, r.value, time.Now())
		l.seen.count(host, 1) // a host with a record has had a URL, so the next one is not the first (transfers.offeredLocked)
		for _, hash := range rec.fresh {
			add(host, hash)
		}
		if rec.tracked || rec.role != Owned {
			l.marked.add(host)
		}
		if rec.role != Owned {
			away.add(host)
		}
		if rec.tracked {
			counted.add(host)
			*of(host) += int64(rec.digest.Pending())
		} else {
			for _, p := range rec.partial {
				*of(host) -= int64(p.done.count())
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read records of hosts: %w", err)
	}
	err = l.store.walk(kindPrefix(kindPending), func(host string, r row) error {
		l.seq = max(l.seq, r.seq())
		entries, err := l.store.codec.open(host, r.value)
		for _, e := range entries {
			add(host, e.hash)
		}
		if !counted.has(host) {
			*of(host) += int64(len(entries))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read pending URLs: %w", err)
	}
	err = l.store.walk(kindPrefix(kindSeen), func(host string, r row) error {
		l.seq = max(l.seq, r.seq())
		for v := r.value; len(v) >= 8; v = v[8:] {
			add(host, binary.LittleEndian.Uint64(v))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read seen sets: %w", err)
	}
	l.count.change(func(t *Totals) { t.Pending, t.AtStart, t.Held = pending, pending, held })
	last, latest, visits := "", stamp(0), l.cfg.Recrawl.continuous()
	return away, l.store.eachPage(kindPrefix(kindPage), func(host string, _ uint64, due stamp) {
		if away.has(host) {
			return
		}
		l.count.page(Owned, due, 1)
		if !visits {
			return
		}
		if host != last {
			last, latest = host, stampOf(time.Now().Add(l.site(host).recrawl(l.cfg.Recrawl).Max))
		}
		if n := len(l.late); due > latest && (n == 0 || l.late[n-1] != host) {
			l.late = append(l.late, host)
		}
	})
}

// checkVersion refuses a store of another layout, and writes the version into a new one.
func (l *ledger) checkVersion() error {
	value, err := l.store.get(kindPrefix(kindMeta))
	if err != nil {
		return err
	}
	for other := byte(1); value == nil && other < math.MaxUint8; other++ { // a later one, too: the program may have been set back
		if value, err = l.store.get([]byte{other, kindMeta}); err != nil {
			return err
		}
	}
	if value == nil {
		return l.store.write(func(txn *tx) { txn.set(kindPrefix(kindMeta), []byte{keyVersion}) })
	}
	if len(value) != 1 || value[0] != keyVersion {
		return fmt.Errorf("%w: its layout has version %v, this program reads %d; to start anew, give another directory or remove this one",
			ErrOldLayout, value, keyVersion)
	}
	return nil
}
