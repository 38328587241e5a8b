package frontier

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// recover reads each URL on disk once. It fills the seen filter and the counts of hosts, finds the last sequence number, counts the pending
// URLs and the pages, and returns the hosts that are not owned.
func (l *ledger) recover() (away marks, err error) {
	if err := l.checkVersion(); err != nil {
		return nil, err
	}
	r := &recovery{ledger: l, away: make(marks), counted: make(marks)}
	for _, part := range []struct {
		kind byte
		what string
		take func(host string, r row) error
	}{
		{kindHost, "records of hosts", r.takeRecord}, // they come first, because they say which hosts are owned
		{kindPending, "pending URLs", r.takeBlock},
		{kindSeen, "seen sets", r.takeRun},
	} {
		if err := l.store.walk(kindPrefix(part.kind), part.take); err != nil {
			return nil, fmt.Errorf("read %s: %w", part.what, err)
		}
	}
	l.count.change(func(t *Totals) { t.Pending, t.AtStart, t.Held = r.pending, r.pending, r.held })
	return r.away, r.takePages()
}

// recovery is what recover has found so far.
type recovery struct {
	*ledger
	away          marks // hosts that are not owned
	counted       marks // hosts whose digest says how many URLs are pending
	pending, held int64 // as in Totals
}

// add adds a URL of a host to what is seen.
func (r *recovery) add(host string, hash uint64) {
	r.seen.testAndAdd(hash)
	r.seen.count(host, 1)
}

// pend counts pending URLs of a host.
func (r *recovery) pend(host string, n int) {
	if r.away.has(host) {
		r.held += int64(n)
	} else {
		r.pending += int64(n)
	}
}

// takeRecord takes in the record of a host.
func (r *recovery) takeRecord(host string, at row) error {
	rec, err := decodeRecord(host, at.value, time.Now())
	r.seen.count(host, 1) // a host with a record has had a URL, so the next one is not the first (transfers.offeredLocked)
	for _, hash := range rec.fresh {
		r.add(host, hash)
	}
	if rec.tracked || rec.role != Owned || rec.endedUntil.After(time.Now()) {
		r.marked.add(host)
	}
	if rec.role != Owned {
		r.away.add(host)
	}
	if rec.tracked {
		r.counted.add(host)
		r.pend(host, int(rec.digest.Pending()))
	} else {
		for _, p := range rec.partial { // their blocks hold them, and are counted whole
			r.pend(host, -p.done.count())
		}
	}
	return err
}

// takeBlock takes in a block of pending URLs.
func (r *recovery) takeBlock(host string, at row) error {
	r.seq = max(r.seq, at.seq())
	entries, err := r.store.codec.open(host, at.value)
	for _, e := range entries {
		r.add(host, e.hash)
	}
	if !r.counted.has(host) {
		r.pend(host, len(entries))
	}
	return err
}

// takeRun takes in hashes of URLs that are done.
func (r *recovery) takeRun(host string, at row) error {
	r.seq = max(r.seq, at.seq())
	for v := at.value; len(v) >= 8; v = v[8:] {
		r.add(host, binary.LittleEndian.Uint64(v))
	}
	return nil
}

// takePages counts the pages to visit again, and finds the hosts of those that are due later than is allowed (ledger.late).
func (r *recovery) takePages() error {
	l, last, latest, visits := r.ledger, "", stamp(0), r.cfg.Recrawl.continuous()
	return l.store.eachPage(kindPrefix(kindPage), func(host string, _ uint64, due stamp) {
		if r.away.has(host) {
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
