package frontier

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"proxima/frontier/identity"
)

// visited is a page before and after a visit. Either is nil if the page is not remembered then.
type visited struct {
	hash      uint64
	old, page *PageRecord
}

// decidePage replaces the record of a page, and updates everything that counts pages.
func (l *ledger) decidePage(b *batch, h *hostEntry, v visited) {
	if v.old == nil && v.page == nil {
		return
	}
	b.touched[h.host] = h
	rec := &h.rec
	if old := v.old; old != nil {
		due := stampOf(old.Due)
		if p := v.page; old.Hinted && (p == nil || !p.Hinted) {
			if h.hinted = max(0, h.hinted-1); p != nil {
				rec.hints.note(p.Changed.After(old.Changed))
			}
		}
		b.del(dueKey(h.host, due, v.hash))
		rec.digest.Pages--
		rec.digest.PagesXor ^= old.mark(v.hash)
		l.count.page(rec.role, due, -1)
	}
	if p := v.page; p != nil {
		due := stampOf(p.Due)
		value := AppendPage(nil, p, time.Unix(int64(due), 0))
		b.set(dueKey(h.host, due, v.hash), value)
		b.set(numberKey(kindPage, h.host, v.hash), binary.BigEndian.AppendUint32(nil, due))
		if rec.digest.Pages == 0 || due < rec.next {
			rec.next = due
		}
		rec.digest.Pages++
		rec.digest.PagesXor ^= p.mark(v.hash)
		l.count.page(rec.role, due, 1)
		b.bytes += len(value)
	} else {
		b.del(numberKey(kindPage, h.host, v.hash))
	}
	b.bytes += 3 * cost(h.host, "")
	if rec.role == Owned {
		b.changed(h.host, func(c *Change) {
			if v.page != nil {
				c.Pages = append(c.Pages, *v.page)
				return
			}
			gone := *v.old
			gone.Dropped = true
			c.Pages = append(c.Pages, gone)
		})
	}
}

// readPage reads the record of a page in a transaction; nil if there is none. A transaction that writes sees what it has written, but not
// what is on its way to the disk.
func readPage(txn *tx, host string, hash uint64) (p *PageRecord, err error) {
	defer func() { err = wrap(err, "read page of %s", host) }()
	value, err := readValue(txn, numberKey(kindPage, host, hash))
	if err != nil || value == nil {
		return nil, err
	}
	if len(value) != 4 {
		return nil, errPage
	}
	due := binary.BigEndian.Uint32(value)
	if value, err = readValue(txn, dueKey(host, due, hash)); err != nil {
		return nil, err
	}
	page, err := ParsePage(value, time.Unix(int64(due), 0))
	return &page, err
}

// decidePages merges the pages that another node has of a host with those here. The URLs of those pages are done. ended counts those that
// were pending here, also with an error. Everything before it must be on disk.
func (l *ledger) decidePages(b *batch, h *hostEntry, pages []PageRecord) (ended int, err error) {
	for i := range pages {
		p := &pages[i]
		hash := identity.URL{Host: h.host, Path: p.Path}.Hash()
		was, err := l.decideDone(b, h, hash)
		if err != nil {
			return ended, err
		}
		ended += was
		old, err := readPage(b.tx, h.host, hash)
		if err != nil {
			return ended, err
		}
		switch {
		case old != nil && !p.fresher(old, time.Now()):
			continue
		case p.Dropped:
			p = nil
		}
		l.decidePage(b, h, visited{hash, old, p})
	}
	return ended, nil
}

// setNext sets the time at which a host must come in for its pages, 0 for never.
func (h *hostEntry) setNext(b *batch, next stamp) {
	if h.next == next {
		return
	}
	if h.next != 0 {
		b.del(nextKey(h.next, h.host))
	}
	if next != 0 {
		b.set(nextKey(next, h.host), nil)
	}
	h.next = next
}

// decideNext finds out when the first page of a host is due, and moves the host from the time at to that time. Everything before it must
// be on disk.
func (l *ledger) decideNext(b *batch, h *hostEntry, at stamp) error {
	dropped := at < h.rec.next && h.rec.next > stampOf(time.Now()) // since the host was found at that time
	if h.rec.digest.Pages > 0 && !dropped {
		_, first, err := l.store.duePages(h.host, nil, 0, 0)
		if err != nil {
			return err
		}
		// Pages are due now that are due years from now, because the clock was ahead when they were visited.
		now := time.Now()
		after := &duePage{due: l.site(h.host).recrawl(l.cfg.Recrawl).limit(now), hash: 1<<64 - 1}
		pulled, _, err := l.movePages(b, h, after, func(*PageRecord) time.Time { return now })
		if err != nil {
			return err
		}
		if pulled != nil {
			first = min(first, stampOf(now))
		}
		h.rec.next = first
	}
	next := h.rec.nextAt()
	if at != next { // a crash between two writes left this key
		b.del(nextKey(at, h.host))
	}
	h.setNext(b, next)
	if h.stored {
		b.touched[h.host] = h
	}
	return nil
}

// maxMoved is how many pages are moved in one transaction.
const maxMoved = 500

// movePages gives the next pages of a host after one, in the order of their due times, other due times. It returns the last of them, nil if
// there is none, and when the page behind them is due.
func (l *ledger) movePages(b *batch, h *hostEntry, after *duePage, due func(*PageRecord) time.Time) (last *duePage, next stamp, err error) {
	pages, next, err := l.store.duePages(h.host, after, 1<<32-1, maxMoved)
	for i := range pages {
		last = &pages[i]
		p := last.record
		if p.Due = due(&p); !p.Due.Equal(last.record.Due) {
			l.decidePage(b, h, visited{last.hash, &last.record, &p})
		}
	}
	return last, next, err
}

// countPages adds the pages of a host to the counts, or subtracts them, if its new role makes it owned, or no longer. Pages that are no longer
// visited here leave the sample, or it would learn nothing more of them, nor of others in their places.
func (l *ledger) countPages(b *batch, h *hostEntry, role Role) error {
	if h.rec.digest.Pages == 0 || (h.rec.role == Owned) == (role == Owned) {
		return nil
	}
	n := 1
	if role != Owned {
		n = -1
	}
	l.settle()
	var all []stamp // they are counted once all of them are read
	var hashes []uint64
	err := l.store.eachPage(hostKey(kindPage, h.host), func(_ string, hash uint64, due stamp) {
		all, hashes = append(all, due), append(hashes, hash)
	})
	if err != nil {
		return err
	}
	for _, due := range all {
		l.count.page(Owned, due, n)
	}
	if role != Owned {
		b.news = append(b.news, func(t *transfers, _ time.Time) {
			for _, hash := range hashes {
				t.bench.recrawl.sample.Drop(hash)
			}
		})
	}
	return nil
}

// eachPage visits the hashes and due times of pages, in the order of their hosts.
func (s *store) eachPage(prefix []byte, visit func(host string, hash uint64, due stamp)) error {
	err := s.walk(prefix, func(host string, r row) error {
		if len(r.value) != 4 {
			return errPage
		}
		visit(host, r.seq(), binary.BigEndian.Uint32(r.value))
		return nil
	})
	return wrap(err, "read due times of pages")
}

// duePage is a page on disk: its place in the order of due times, and its record there.
type duePage struct {
	due    stamp
	hash   uint64
	record PageRecord
}

// duePages reads up to want pages of a host that are due by a time, in the order of their due times, after another page. next is when the
// page behind them is due; 0 if there is none.
func (s *store) duePages(host string, after *duePage, by stamp, want int) (pages []duePage, next stamp, err error) {
	prefix := hostKey(kindDue, host)
	var start []byte
	if after != nil {
		start = append(dueKey(host, after.due, after.hash), 0)
	}
	for r, err := range s.rows(nil, prefix, start, inTurn) {
		var p duePage
		if err == nil {
			p.due, p.hash, err = splitDue(r.key[len(prefix):])
		}
		if err == nil && (p.due > by || len(pages) >= want) {
			return pages, p.due, nil
		}
		if err == nil {
			p.record, err = ParsePage(r.value, time.Unix(int64(p.due), 0))
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read pages of %s: %w", host, err)
		}
		pages = append(pages, p)
	}
	return pages, 0, nil
}

// dueHosts returns up to dueAhead hosts that have pages due by a time, in the order of those times, after a key. It leaves out hosts for
// which skip returns true. It looks at a bounded number of hosts. end means that there are no more.
func (s *store) dueHosts(after []byte, by stamp, skip func(dueHost) bool) (hosts []dueHost, last []byte, end bool, err error) {
	var start []byte
	if after != nil {
		start = append(slices.Clone(after), 0)
	}
	last = after
	looked := 0
	for r, err := range s.rows(nil, kindPrefix(kindNext), start, keysOnly) {
		if len(hosts) == dueAhead || looked == 16*dueAhead {
			return hosts, last, false, nil
		}
		looked++
		var h dueHost
		if err == nil {
			h.at, h.name, err = splitNext(r.key)
		}
		if err != nil {
			return nil, nil, false, fmt.Errorf("look for hosts with pages that are due: %w", err)
		}
		if h.at > by {
			break
		}
		if last = slices.Clone(r.key); !skip(h) {
			hosts = append(hosts, h)
		}
	}
	return hosts, last, true, nil
}

// dueHost is a host and when its first page is due.
type dueHost struct {
	name string
	at   stamp
}
