package frontier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// visited is a page as it was before a visit and as it is after it; nil where it is not remembered.
type visited struct {
	hash      uint64
	old, page *PageRecord
}

// decidePage puts a page where it belongs after a visit, with everything that counts pages.
func (l *ledger) decidePage(b *batch, h *hostEntry, v visited) error {
	if v.old == nil && v.page == nil {
		return nil
	}
	b.touched[h.host] = h
	rec := &h.rec
	var err error
	if old := v.old; old != nil {
		due := stampOf(old.Due)
		if p := v.page; p != nil && old.Hinted && !p.Hinted {
			rec.hints.note(p.Changed.After(old.Changed))
		}
		err = b.txn.Delete(dueKey(h.host, due, v.hash))
		rec.digest.Pages--
		rec.digest.PagesXor ^= old.mark(v.hash)
		l.count.page(rec.role, due, -1)
	}
	if p := v.page; p != nil {
		due := stampOf(p.Due)
		value := p.append(nil, int64(due))
		err = errors.Join(err, b.txn.Set(dueKey(h.host, due, v.hash), value))
		err = errors.Join(err, b.txn.Set(pageKey(h.host, v.hash), binary.BigEndian.AppendUint32(nil, due)))
		if rec.digest.Pages == 0 || due < rec.next {
			rec.next = due
		}
		rec.digest.Pages++
		rec.digest.PagesXor ^= p.mark(v.hash)
		l.count.page(rec.role, due, 1)
		b.bytes += len(value)
	} else {
		err = errors.Join(err, b.txn.Delete(pageKey(h.host, v.hash)))
	}
	b.bytes += 3 * cost(h.host, "")
	if err != nil {
		return fmt.Errorf("write page of %s: %w", h.host, err)
	}
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
	return nil
}

// page reads what is remembered of a page, in the batch or before it; nil where nothing is. Everything before the batch has
// to be on disk.
func (b *batch) page(host string, hash uint64) (*PageRecord, error) {
	value, err := readValue(b.txn, pageKey(host, hash))
	if err != nil || value == nil {
		return nil, err
	}
	if len(value) != 4 {
		return nil, errPage
	}
	due := binary.BigEndian.Uint32(value)
	if value, err = readValue(b.txn, dueKey(host, due, hash)); err != nil || value == nil {
		return nil, errors.Join(err, errPage)
	}
	p, err := decodePage(value, int64(due))
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// decidePages unites the pages of a host with those that another node has of it, and says how many of them were pending here. They are
// done, whether that was told or not. Everything before has to be on disk.
func (l *ledger) decidePages(b *batch, h *hostEntry, pages []PageRecord) (ended int, err error) {
	for i := range pages {
		p := &pages[i]
		e := PendingURL{Path: p.Path}
		hash := e.entryOf(h.host).hash
		is, err := l.decideDone(b, h, hash)
		if err != nil {
			return 0, err
		}
		if is {
			ended++
		}
		old, err := b.page(h.host, hash)
		if err != nil {
			return 0, fmt.Errorf("read page of %s: %w", h.host, err)
		}
		switch {
		case old == nil && p.Dropped, old != nil && !p.fresher(old):
			continue
		case p.Dropped:
			p = nil
		}
		if err := l.decidePage(b, h, visited{hash, old, p}); err != nil {
			return 0, err
		}
	}
	return ended, nil
}

// writeNext moves a host among those with pages to visit again.
func (h *hostEntry) writeNext(b *batch) error {
	next := h.rec.nextAt()
	if next == h.next {
		return nil
	}
	if err := h.setNext(b, next); err != nil {
		return fmt.Errorf("write when pages of %s are due: %w", h.host, err)
	}
	return nil
}

func (h *hostEntry) setNext(b *batch, next stamp) (err error) {
	if h.next != 0 && h.next != next {
		err = b.txn.Delete(nextKey(h.next, h.host))
	}
	if next != 0 {
		err = errors.Join(err, b.txn.Set(nextKey(next, h.host), nil))
	}
	h.next = next
	return err
}

// decideNext finds out when the first page of a host is due. The host stood where at says. Everything before has to be on
// disk.
func (l *ledger) decideNext(b *batch, host string, at stamp) error {
	h, err := l.entry(b, host)
	if err != nil {
		return err
	}
	if h.rec.digest.Pages > 0 {
		_, first, err := l.store.duePages(host, nil, 0, 0)
		if err != nil {
			return err
		}
		now := time.Now()
		pulled, err := l.pullBack(b, h, now)
		if err != nil {
			return err
		}
		if pulled {
			first = min(first, stampOf(now))
		}
		h.rec.next = max(first, stampOf(h.rec.endedUntil))
	}
	next := h.rec.nextAt()
	if at != next && at != h.next { // it never was there: a crash between two writes left it
		err = b.txn.Delete(nextKey(at, host))
	}
	if err = errors.Join(err, h.setNext(b, next)); err != nil {
		return fmt.Errorf("write when pages of %s are due: %w", host, err)
	}
	if h.stored {
		b.touched[host] = h
	}
	return nil
}

// pullBack makes pages due now that would be so in years only: the clock ran ahead when they were visited.
func (l *ledger) pullBack(b *batch, h *hostEntry, now time.Time) (any bool, err error) {
	pages, _, err := l.store.duePages(h.host, &duePage{due: l.cfg.Recrawl.limit(now), hash: 1<<64 - 1}, 1<<32-1, maxMoved)
	if err != nil {
		return false, err
	}
	for i := range pages {
		old, err := decodePage(pages[i].value, int64(pages[i].due))
		if err != nil {
			return false, fmt.Errorf("read page of %s: %w", h.host, err)
		}
		p := old
		p.Due = now
		if err := l.decidePage(b, h, visited{pages[i].hash, &old, &p}); err != nil {
			return false, err
		}
	}
	return len(pages) > 0, nil
}

// countPages counts the pages of a host among those owned, or no longer, when its role changes.
func (l *ledger) countPages(host string, h *hostEntry, role Role) error {
	if h.rec.digest.Pages == 0 || (h.rec.role == Owned) == (role == Owned) {
		return nil
	}
	n := 1
	if role != Owned {
		n = -1
	}
	l.settle()
	return l.store.eachPage(hostKey(kindPage, host), func(_ string, due stamp) { l.count.page(Owned, due, n) })
}

// eachPage visits when pages are due, in the order of their hosts.
func (s *store) eachPage(prefix []byte, visit func(host string, due stamp)) error {
	n := 0
	err := s.each(prefix, nil, true, func(item *badger.Item) (bool, error) {
		host, _, err := splitKey(item.Key())
		if n++; err == nil && n%trimEvery == 0 {
			err = s.trim()
		}
		if err != nil {
			return false, err
		}
		return true, item.Value(func(v []byte) error {
			if len(v) != 4 {
				return errPage
			}
			visit(host, binary.BigEndian.Uint32(v))
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("read when pages are due: %w", err)
	}
	return nil
}

// duePage is a page on disk: when it is due, and as it is there.
type duePage struct {
	due   stamp
	hash  uint64
	value []byte
}

// duePages reads pages of a host that are due by a time, in the order of their due times, after one; of those it reads want at
// most. next is when the page after them is due, 0 where there is none.
func (s *store) duePages(host string, after *duePage, by stamp, want int) (pages []duePage, next stamp, err error) {
	prefix := hostKey(kindDue, host)
	var start []byte
	if after != nil {
		start = append(dueKey(host, after.due, after.hash), 0)
	}
	err = s.each(prefix, start, false, func(item *badger.Item) (bool, error) {
		due, hash, err := splitDue(item.Key()[len(prefix):])
		if err != nil {
			return false, err
		}
		if due > by || len(pages) >= want {
			next = due
			return false, nil
		}
		value, err := item.ValueCopy(nil)
		pages = append(pages, duePage{due: due, hash: hash, value: value})
		return true, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read pages of %s: %w", host, err)
	}
	return pages, next, nil
}

// dueHosts names up to n hosts with pages due by a time, in the order of those times after the place given, that skip lets
// pass, with where they stand. It looks at a bounded number; end says that there are no others.
func (s *store) dueHosts(after []byte, by stamp, n int, skip func(host string) bool) (hosts []dueHost, last []byte, end bool, err error) {
	var start []byte
	if after != nil {
		start = append(slices.Clone(after), 0)
	}
	last, end = after, true
	looked := 0
	err = s.each(kindPrefix(kindNext), start, false, func(item *badger.Item) (bool, error) {
		if len(hosts) == n || looked == 16*n {
			end = false
			return false, nil
		}
		looked++
		due, host, err := splitNext(item.Key())
		if err != nil || due > by {
			return false, err
		}
		if last = item.KeyCopy(nil); !skip(host) {
			hosts = append(hosts, dueHost{host, due})
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, false, fmt.Errorf("look for hosts with pages that are due: %w", err)
	}
	return hosts, last, end, nil
}

// dueHost is a host and where it stands among those with pages to visit again.
type dueHost struct {
	name string
	at   stamp
}
