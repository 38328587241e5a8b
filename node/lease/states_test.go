package lease

import (
	"slices"
	"testing"
	"time"

	"proxima/assign"
)

// TestStates checks what a holder tells of a server in each state of its lease.
func TestStates(t *testing.T) {
	now := time.Now()
	here, over := Right{moment{now.Add(time.Hour), now.Add(time.Hour)}}, Right{moment{now.Add(-time.Second), now.Add(-time.Second)}}
	for name, c := range map[string]struct {
		lease         *lease
		held, memory  bool
		counts, waits int
		why           string
	}{
		"not wanted":           {why: ""},
		"not asked for yet":    {lease: &lease{wanted: true}, waits: 1, why: "its grantor has not answered yet"},
		"held by the home":     {lease: &lease{hold: true, why: "leased to x"}, waits: 1, why: "leased to x"},
		"wanted no more":       {lease: &lease{why: "leased to x"}, why: "leased to x"},
		"here":                 {lease: &lease{wanted: true, right: here}, held: true, memory: true, counts: 1},
		"here, wanted no more": {lease: &lease{right: here}, held: true, memory: true, counts: 1},
		"after a stop":         {lease: &lease{wanted: true, right: here, unsure: true, why: wasStopped}, held: true, memory: true, counts: 1, why: wasStopped},
		"going back":           {lease: &lease{right: here, withdrawn: true}, memory: true, counts: 1, why: "its lease is being given back"},
		"over, not noticed":    {lease: &lease{wanted: true, right: over, why: "x"}, waits: 1, why: "x"},
	} {
		s := &stub{}
		h := NewHolder(Default(), s.deps(NewClock(nil)))
		if c.lease != nil {
			c.lease.memory = &assign.Memory{}
			h.book.all[server(1)] = c.lease
		}
		_, memory := h.Memory(server(1))
		if held := slices.Contains(h.Held(), server(1)); held != c.held || memory != c.memory {
			t.Errorf("%s: held %v, memory %v", name, held, memory)
		}
		if s := h.Status(); s.Held != c.counts || s.Waiting != c.waits {
			t.Errorf("%s: %+v", name, s)
		}
		if why := h.Why(server(1)); why != c.why {
			t.Errorf("%s: %q, want %q", name, why, c.why)
		}
	}
}

// When an item is due, other renewals of its grantor go along if they are due soon and have not failed.
func TestCompany(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *bench, l *lease)
		goes   bool
	}{
		"soon":       {func(b *bench, l *lease) { l.next = b.now.Add(b.cfg.early()) }, true},
		"later":      {func(b *bench, l *lease) { l.next = b.now.Add(b.cfg.early() + 1) }, false},
		"failed":     {func(b *bench, l *lease) { l.next, l.fails = b.now.Add(1), 1 }, false},
		"going back": {func(b *bench, l *lease) { l.next, l.withdrawn = b.now.Add(1), true }, false},
		"under way":  {func(b *bench, l *lease) { l.next, l.busy = b.now.Add(1), true }, false},
		"not here":   {func(b *bench, l *lease) { l.next, l.right, l.wanted = b.now.Add(1), Right{}, true }, false},
	} {
		b := newBench(t)
		l := b.obtain()
		c.change(b, l)
		next := l.next
		if due := b.due(b.now, nil); len(due) != 0 {
			t.Errorf("%s: %v is due alone", name, due)
		}
		if soonest := b.dueAt; !l.busy && soonest.After(next) {
			t.Errorf("%s: the next is due in %v, want %v", name, soonest.Sub(b.now), next.Sub(b.now))
		}
		b.want(server(2), b.now)
		if due := b.due(b.now, nil)["k"]; len(due) != map[bool]int{true: 2, false: 1}[c.goes] {
			t.Errorf("%s: %d go", name, len(due))
		}
	}
}

// The times of a lease scale with its length, up to bounds for looks, calls and first retries.
func TestTimes(t *testing.T) {
	for length, want := range map[time.Duration][8]time.Duration{
		4 * time.Second: {34 * time.Second, 4 * time.Second / 6, 4 * time.Second / 12, 4 * time.Second / 60, time.Second, time.Second, 500 * time.Millisecond,
			500 * time.Millisecond},
		2 * time.Second: {32 * time.Second, 2 * time.Second / 6, 2 * time.Second / 12, 2 * time.Second / 60, 500 * time.Millisecond,
			500 * time.Millisecond, 250 * time.Millisecond, 250 * time.Millisecond},
		time.Minute: {90 * time.Second, 10 * time.Second, 5 * time.Second, time.Second, 5 * time.Second, 15 * time.Second, 500 * time.Millisecond,
			7500 * time.Millisecond},
		2 * time.Minute: {150 * time.Second, 20 * time.Second, 10 * time.Second, time.Second, 5 * time.Second, 30 * time.Second, 500 * time.Millisecond,
			15 * time.Second},
	} {
		c := Config{Time: length, Skew: 30 * time.Second}
		got := [8]time.Duration{c.Window(), c.ReleaseAfter(), c.HeldRetry(), c.lookEvery(), c.timeout(), c.early(), c.retryMin(), c.retryMax()}
		if got != want {
			t.Errorf("of leases of %v: %v, want %v", length, got, want)
		}
	}
}
