package frontier

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Role is what a host is to this node. It is kept on disk.
type Role uint8

// The roles of a host.
const (
	// Owned hosts are crawled here. An unknown host becomes owned with its first URL.
	Owned Role = iota
	// Replica is a copy of another node's host, complete or still arriving. It takes Import and is never crawled.
	Replica
	// Leaving hosts are being handed off from here. They are frozen: not crawled, and new URLs are NotOwned.
	Leaving
	roles
)

func (h Role) String() string { return word(h, "owned", "replica", "leaving") }

// transfers keeps the roles of hosts, and carries hosts to other nodes and in from them.
type transfers struct{ *activation }

// SetRole sets the role of a host, and returns when it is on disk. For a role other than Owned it first waits until no task of the host is
// out and the host has left the workbench. If the context ends before that, nothing changes.
func (t *transfers) SetRole(ctx context.Context, host string, h Role) error {
	if h >= roles {
		return fmt.Errorf("make %s: no role %d", host, h)
	}
	if h != Owned {
		if err := t.freeze(ctx, host); err != nil {
			return fmt.Errorf("make %s %v: %w", host, h, err)
		}
		defer t.thaw(host)
	}
	err := t.ledger.onHost(ctx, together, host, func(b *batch, e *hostEntry) error { return t.ledger.decideRole(b, e, h) })
	return wrap(err, "make %s %v", host, h)
}

// RoleOf reads the role of a host. A host is known if anything about it is on disk; an unknown one is Owned.
func (t *transfers) RoleOf(ctx context.Context, host string) (r Role, known bool, err error) {
	err = t.store.view(ctx, func(txn *tx) error {
		rec, is, err := readRecord(txn, host)
		if r, known = rec.role, is; err != nil || known {
			return err
		}
		for _, err := range t.store.rows(txn, hostKey(kindPending, host), nil, keysOnly) {
			known = err == nil
			return err
		}
		return nil
	})
	return r, known, wrap(err, "look up %s", host)
}

// freezing keeps a host off the workbench.
type freezing struct {
	by   int           // the number of calls that freeze it
	over chan struct{} // closed when the last of them has thawed it
}

// freeze keeps a host off the workbench until thaw. It returns when the host has left. After an error the host is not frozen.
func (t *transfers) freeze(ctx context.Context, name string) error {
	var gone chan struct{}
	t.update(func(now time.Time) {
		if t.frozen[name] == nil {
			t.frozen[name] = &freezing{over: make(chan struct{})}
		}
		t.frozen[name].by++
		if h := t.bench.hosts[name]; h != nil {
			if h.gone == nil {
				h.gone = make(chan struct{})
			}
			gone = h.gone
			h.frozen = true
			t.bench.settle(h, now)
		}
	})
	if gone == nil {
		return nil
	}
	_, err := await(ctx, t.front, gone)
	if err != nil {
		t.thaw(name)
	}
	return err
}

// thaw ends a freeze. After the last one the host may come onto the workbench again.
func (t *transfers) thaw(name string) {
	t.update(func(now time.Time) {
		z := t.frozen[name]
		if z.by--; z.by > 0 {
			return
		}
		delete(t.frozen, name)
		close(z.over)
		if h := t.bench.hosts[name]; h != nil {
			h.frozen = t.away.has(name)
			t.bench.settle(h, now)
		} else if !t.away.has(name) {
			t.nominateLocked(name) // URLs may have been added meanwhile
			t.bench.recrawl.searchAnew()
		}
	})
}

// changedRoleLocked applies a role that is on disk now.
func (t *transfers) changedRoleLocked(name string, h Role, now time.Time) {
	b := t.bench.hosts[name]
	switch {
	case h == Owned:
		t.away.remove(name)
		t.bench.recrawl.searchAnew()
		switch {
		case b == nil:
			t.nominateLocked(name)
		case b.frozen || b.place == loading:
			t.rescanLocked() // it may be leaving because of its old role, and must come back
		}
	case b != nil: // it came in because the caller of SetRole stopped waiting before the role was written
		b.frozen = true
		t.bench.settle(b, now)
		fallthrough
	default:
		t.away.add(name)
	}
}

// hear applies the news of a committed batch.
func (t *transfers) hear(all []news) {
	if len(all) == 0 {
		return
	}
	t.update(func(now time.Time) {
		for _, tell := range all {
			tell(t, now)
		}
	})
}

// droppedLocked applies that a host was given up: its blocks up to a sequence number are no longer on disk.
func (t *transfers) droppedLocked(name string, at uint64, now time.Time) {
	if h := t.bench.hosts[name]; h != nil {
		h.forget(at)
		t.bench.settle(h, now)
	}
}

// offeredLocked applies that a block is on disk. first says that the host had no URL before, and away that it is not owned.
func (t *transfers) offeredLocked(name string, b block, first, away bool, now time.Time) {
	h := t.bench.hosts[name]
	switch {
	case h != nil:
		t.bench.offer(h, b, now)
	case away:
	case first && t.frozen[name] == nil && len(t.bench.hosts) < t.cfg.FrontHosts && len(t.waiters) > 0 && t.deps.Blocked(name) == "":
		// A host that was unknown before need not be read from disk.
		h := t.bench.enter(name)
		t.checkInLocked(h)
		h.take(b.ref, cloned(b.entries))
		t.bench.loadedHost(h, record{}, now)
	default:
		t.nominateLocked(name)
	}
}

// decideRole changes the role of a host.
func (l *ledger) decideRole(b *batch, h *hostEntry, role Role) error {
	if err := l.track(b, h); err != nil {
		return err
	}
	if h.rec.role != role {
		if err := l.countPages(b, h, role); err != nil {
			return err
		}
		pending := int(h.rec.digest.Pending())
		l.count.moved(h.rec.role, 0, pending)
		l.count.moved(role, pending, 0)
	}
	h.rec.role = role
	b.touched[h.host] = h
	b.news = append(b.news, func(t *transfers, now time.Time) { t.changedRoleLocked(h.host, role, now) })
	return nil
}

// track begins to keep the digest of a host. For that it reads all URLs of the host once.
func (l *ledger) track(b *batch, h *hostEntry) error {
	if h.rec.tracked {
		return nil
	}
	var d Digest
	if h.stored || l.seen.count(h.host, 0) > 0 { // the count is never too low
		set, err := l.exact(b, h.host)
		if err != nil {
			return err
		}
		d = set.digest()
	}
	d.Drops, d.Pages, d.PagesXor = h.rec.digest.Drops, h.rec.digest.Pages, h.rec.digest.PagesXor
	h.rec.digest, h.rec.tracked = d, true
	l.marked.add(h.host)
	b.touched[h.host] = h
	return nil
}

// maxRewritten is how many blocks, of at most maxBlockBytes, fit into the smallest transaction.
const maxRewritten = 12

// decideReconcile removes the URLs that were done elsewhere from the blocks of a host, and their depths. The blocks must not be in a window.
// Each transaction writes some blocks and a record without their bitmaps, so that both always agree. Everything before it must be on disk.
func (l *ledger) decideReconcile(b *batch, h *hostEntry) error {
	if !h.rec.loose {
		return nil
	}
	set, err := l.exact(b, h.host)
	if err != nil {
		return err
	}
	if err := h.rewriteBlocks(l, set); err != nil {
		return err
	}
	var depths [][]byte
	for r, err := range l.store.rows(nil, hostKey(kindDepth, h.host), nil, keysOnly) {
		if err != nil {
			return fmt.Errorf("look for depths of %s: %w", h.host, err)
		}
		if set[r.seq()] == isDone {
			depths = append(depths, slices.Clone(r.key))
		}
	}
	if err := l.deleteKeys(b, h, depths); err != nil {
		return fmt.Errorf("clear up depths of %s: %w", h.host, err)
	}
	h.rec.loose = false
	b.touched[h.host] = h
	return nil
}

// rewriteBlocks writes the blocks of a host without the URLs that are done by its exact set, and deletes those that are empty then.
func (h *hostEntry) rewriteBlocks(l *ledger, set hostSet) error {
	rewritten := make(map[uint64]*badger.Entry) // by sequence number; without a value if no URL is left
	flush := func() error {
		h.rec.partial = slices.DeleteFunc(h.rec.partial, func(p partialBlock) bool { return rewritten[p.seq] != nil })
		err := l.writeApart(h, &h.rec, func(txn *tx) {
			for _, e := range rewritten {
				if e.Value != nil {
					txn.put(e)
				} else {
					txn.del(e.Key)
				}
			}
		})
		clear(rewritten)
		return wrap(err, "clear up pending URLs of %s", h.host)
	}
	for r, err := range l.store.rows(nil, hostKey(kindPending, h.host), nil, inTurn) {
		if err != nil {
			return fmt.Errorf("read pending URLs of %s: %w", h.host, err)
		}
		entries, err := l.store.codec.open(h.host, r.value)
		if err != nil {
			return err
		}
		n := len(entries)
		left := slices.DeleteFunc(entries, func(e entry) bool { return set[e.hash] == isDone })
		if len(left) == n {
			continue
		}
		e := badger.NewEntry(slices.Clone(r.key), nil).WithMeta(byte(len(left)))
		if len(left) > 0 {
			e.Value = l.store.codec.seal(bodyOf(left))
		}
		if rewritten[r.seq()] = e; len(rewritten) == maxRewritten {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(rewritten) > 0 {
		return flush()
	}
	return nil
}
