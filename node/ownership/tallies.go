package ownership

import (
	"context"
	"errors"
	"time"

	"proxima/node/bell"
	"proxima/node/view"
)

// tally is how many hosts an owner has at a home, with a digest of their records. If both compute the same tally, no lists need
// be exchanged.
type tally struct {
	count  uint64
	digest uint64
}

// tallies count the records by home and by owner. When homes change, new tallies replace these, and count all records again, page by page.
// Until the count is over, cursor and ahead tell which records are in it. The lock of the book guards them.
type tallies struct {
	byHome  map[string]tally // the hosts that this node owns and other nodes are home of
	byOwner map[string]tally // the hosts that this node is home of and other nodes own

	counting bool
	cursor   string              // the last host counted
	ahead    map[string]struct{} // hosts beyond the cursor that are counted already, because they changed
}

// newTallies begins a count.
func newTallies() *tallies {
	return &tallies{byHome: make(map[string]tally), byOwner: make(map[string]tally), counting: true, ahead: make(map[string]struct{})}
}

// counted reports whether a host is in the tallies.
func (t *tallies) counted(host string) bool {
	if !t.counting || host <= t.cursor {
		return true
	}
	_, ok := t.ahead[host]
	return ok
}

// replace counts one record instead of another. Records without an owner do not count.
func (t *tallies) replace(host string, v *view.View, old, r Record) {
	if t.counted(host) {
		t.count(v, old, false)
	} else {
		t.ahead[host] = struct{}{}
	}
	t.count(v, r, true)
}

// count adds a record or removes it.
func (t *tallies) count(v *view.View, r Record, in bool) {
	if r.Owner == "" {
		return
	}
	home := v.Home(r.Host)
	switch {
	case r.Owner == v.Self && home != v.Self:
		add(t.byHome, home, r, in)
	case home == v.Self && r.Owner != v.Self:
		add(t.byOwner, r.Owner, r, in)
	}
}

// take counts the next records, unless they are counted already.
func (t *tallies) take(v *view.View, page []Record) {
	for _, r := range page {
		if !t.counted(r.Host) {
			t.count(v, r, true)
		}
		t.cursor = r.Host
	}
}

// add counts a record in one tally of m, or takes it out. An empty tally is dropped.
func add(m map[string]tally, key string, r Record, in bool) {
	t := m[key]
	if t.digest ^= r.hash(); in {
		t.count++
	} else {
		t.count--
	}
	if t == (tally{}) {
		delete(m, key)
		return
	}
	m[key] = t
}

// runRecounts counts all records again whenever the homes have changed.
func (o *Ownership) runRecounts(ctx context.Context) error {
	return bell.Loop(ctx, o.recount, 0, func(bool) error {
		o.mu.Lock()
		t := o.tallies
		o.mu.Unlock()
		err := o.records.pages(func(page []Record) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.tallies != t {
				return errOutdated
			}
			t.take(o.views.Now(), page)
			return ctx.Err()
		})
		if err != nil && !errors.Is(err, errOutdated) {
			return err
		}
		o.mu.Lock()
		if o.tallies == t {
			t.counting, t.ahead = false, nil
			for owner := range t.byOwner {
				o.census.expectLocked(owner, time.Now()) // it has had no chance to renew here
			}
			o.renew.Ring()
		}
		o.mu.Unlock()
		return nil
	})
}

// errOutdated ends a count after which a new one has begun.
var errOutdated = errors.New("the homes have changed again")
