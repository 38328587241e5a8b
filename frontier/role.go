package frontier

import (
	"context"
	"fmt"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Role is what a host is to this node. It is kept on disk.
type Role uint8

// The roles of a host.
const (
	// Owned: crawled here. Hosts never heard of become this by their first URL.
	Owned Role = iota
	// Replica: a replica of another node's host, or what has come of a host on its way here. It takes Import and is never
	// crawled.
	Replica
	// Leaving: frozen, for a hand-off from here is under way. It is not crawled, and what is added is NotOwned.
	Leaving
	roles
)

// String is the word for the role in logs.
func (h Role) String() string { return word(h, "owned", "replica", "leaving") }

// transfers keeps what hosts are to this node, and carries them to other nodes and in from them.
type transfers struct{ *activation }

// SetRole says what a host is to this node; it is on disk on return. To anything but Owned it first waits until no task of
// the host is out and the host has left the workbench: if the context ends before, nothing has changed. Of an owned host, the
// pending URLs can be taken.
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
	if err := t.ledger.change(ctx, false, func(b *batch) error { return t.ledger.decideRole(b, host, h) }); err != nil {
		return fmt.Errorf("make %s %v: %w", host, h, err)
	}
	return nil
}

// RoleOf reads the role of a host. It is known when anything about it is on disk; if not, it is Owned.
func (t *transfers) RoleOf(ctx context.Context, host string) (r Role, known bool, err error) {
	err = t.store.view(ctx, func(txn *badger.Txn) error {
		rec, is, err := readRecord(txn, host)
		if r, known = rec.role, is; err != nil || known {
			return err
		}
		return eachIn(txn, hostKey(kindPending, host), nil, false, func(*badger.Item) (bool, error) {
			known = true
			return false, nil
		})
	})
	if err != nil {
		return Owned, false, fmt.Errorf("look up %s: %w", host, err)
	}
	return r, known, nil
}

// freezing says that a host must not enter the workbench.
type freezing struct {
	by   int           // how many say so
	over chan struct{} // closed when nobody says so any more
}

// freeze keeps a host off the workbench until thaw, and waits until it has left. With an error it is not frozen.
func (t *transfers) freeze(ctx context.Context, name string) error {
	t.mu.Lock()
	if t.frozen[name] == nil {
		t.frozen[name] = &freezing{over: make(chan struct{})}
	}
	t.frozen[name].by++
	var gone chan struct{}
	if h := t.bench.hosts[name]; h != nil {
		if h.gone == nil {
			h.gone = make(chan struct{})
		}
		gone = h.gone
		now := time.Now()
		h.frozen = true
		t.bench.settle(h, now)
		t.dispatch(now)
	}
	t.mu.Unlock()
	if gone == nil {
		return nil
	}
	err := ErrClosed
	select {
	case <-gone:
		return nil
	case <-t.ledger.closed:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.thaw(name)
	return err
}

// thaw lets a host back onto the workbench, if nobody else keeps it off.
func (t *transfers) thaw(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	z := t.frozen[name]
	if z.by--; z.by > 0 {
		return
	}
	delete(t.frozen, name)
	close(z.over)
	now := time.Now()
	if h := t.bench.hosts[name]; h != nil {
		h.frozen = t.away.has(name)
		t.bench.settle(h, now)
	} else if !t.away.has(name) {
		t.nominate(name) // what was offered meanwhile
		t.bench.recrawl.again()
	}
	t.dispatch(now)
}

// changedRole is told of a role that is on disk. It needs mu held.
func (t *transfers) changedRole(name string, h Role, now time.Time) {
	b := t.bench.hosts[name]
	switch {
	case h == Owned:
		t.away.remove(name)
		t.bench.recrawl.again()
		switch {
		case b == nil && t.frozen[name] == nil:
			t.nominate(name)
		case b != nil && (b.frozen || b.place == loading):
			t.rescan() // it may be leaving because of the role that it had before
		}
	case b != nil: // it came in after all: whoever asked for the role went away before it was written
		b.frozen = true
		t.bench.settle(b, now)
		fallthrough
	default:
		t.away.add(name)
	}
}

// offered is called by the ledger with what has just been committed, in order.
func (t *transfers) offered(offers []offered) {
	if len(offers) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, o := range offers {
		switch {
		case o.role != nil:
			t.changedRole(o.host, *o.role, now)
		case o.lowered:
			if h := t.bench.hosts[o.host]; h != nil {
				h.lower(o.hash, o.depth)
			}
		case o.ref == nil:
			if h := t.bench.hosts[o.host]; h != nil {
				h.forget(o.droppedAt)
				if !h.reading {
					t.bench.settle(h, now)
				}
			}
		case t.bench.offer(o, now):
		case o.away:
		case o.first && t.frozen[o.host] == nil && len(t.bench.hosts) < t.cfg.FrontHosts && t.waiters.len() > 0 &&
			t.deps.Blocked(o.host) == "":
			// A host that nobody knows needs no look at the disk.
			h := t.bench.enter(o.host)
			t.checkInLocked(h)
			h.take(o.ref, cloned(o.entries))
			t.bench.loadedHost(h, record{}, now)
		default:
			t.nominate(o.host)
		}
	}
	t.dispatch(now)
}
