package ownership

import (
	"context"

	"proxima/node/view"
)

// tally is how many hosts two nodes share, and a digest of their records: equal tallies need no lists.
type tally struct {
	count  uint64
	digest uint64
}

// tallies count the records by home and by owner. When the homes change they are counted anew, some at a time: records
// behind the cursor are counted as they change, those before it when it comes to them. They are used under the lock of
// the book.
type tallies struct {
	owned map[string]tally // by home: hosts that this node owns
	lent  map[string]tally // by owner: hosts whose home this node is

	counting bool
	round    int                 // counts the counts
	cursor   string              // the last host that was counted
	ahead    map[string]struct{} // hosts beyond the cursor that are counted because they changed
}

func newTallies() tallies {
	return tallies{owned: make(map[string]tally), lent: make(map[string]tally)}
}

// begin counts anew from the first record.
func (t *tallies) begin() {
	t.owned, t.lent, t.ahead = make(map[string]tally), make(map[string]tally), make(map[string]struct{})
	t.counting, t.cursor = true, ""
	t.round++
}

// counted says whether a host stands in the tallies already.
func (t *tallies) counted(host string) bool {
	if !t.counting || host <= t.cursor {
		return true
	}
	_, ok := t.ahead[host]
	return ok
}

// replace puts one record in the place of another; those without an owner count nothing.
func (t *tallies) replace(host string, v *view.View, old, r Record) {
	if t.counted(host) {
		t.count(v, old, false)
	} else {
		t.ahead[host] = struct{}{}
	}
	t.count(v, r, true)
}

// count adds a record, or takes it out.
func (t *tallies) count(v *view.View, r Record, in bool) {
	if r.Owner == "" {
		return
	}
	home := v.Home(r.Host)
	switch {
	case r.Owner == v.Self && home != v.Self:
		add(t.owned, home, r, in)
	case home == v.Self && r.Owner != v.Self:
		add(t.lent, r.Owner, r, in)
	}
}

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

// runRecounts counts the records anew whenever the homes have changed.
func (o *Ownership) runRecounts(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.recount:
		}
		o.mu.Lock()
		round := o.tallies.round
		o.mu.Unlock()
		over := false
		err := o.records.pages(func(page []Record) error {
			if over = over || !o.countPage(round, page); over {
				return nil
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		o.mu.Lock()
		if done := o.tallies.round == round; done {
			o.tallies.counting, o.tallies.ahead = false, nil
			o.census.expect(o.tallies.lent)
			signal(o.renew)
			signal(o.check)
		}
		o.mu.Unlock()
	}
}

// countPage counts some records; false where a new count has begun.
func (o *Ownership) countPage(round int, page []Record) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := &o.tallies
	if t.round != round {
		return false
	}
	for _, r := range page {
		if !t.counted(r.Host) {
			t.count(o.views.Now(), r, true)
		}
	}
	if len(page) > 0 {
		t.cursor = page[len(page)-1].Host
	}
	return true
}
