package lease

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"proxima/assign"
	"proxima/node/wire"
)

// bench is a holder whose clock, grantor and frontier are moved by the test.
type bench struct {
	*leases
	t         *testing.T
	now       time.Time
	grantedBy string
	last      *Right // the last one that the frontier heard of
	// The call under way, if there is one, and what was said in a scenario.
	calling *item
	called  string
	sent    time.Time
	said    []string
}

func newBench(t *testing.T) *bench {
	cfg := Default()
	b := &bench{t: t, now: time.Unix(1e9, 0), grantedBy: "k"}
	b.leases = &leases{cfg: &cfg, rnd: rand.New(middle{}), all: map[netip.Addr]*lease{}, grantor: func(netip.Addr) string { return b.grantedBy },
		grant: func(_ netip.Addr, r Right, _ time.Duration) { b.last = &r }, halt: func(netip.Addr) { b.last = &Right{} }, deny: func(*HeldError) {}}
	return b
}

// at returns a moment at which both clocks agree.
func at(t time.Time) moment { return moment{t, t} }

func (b *bench) pass(t time.Duration) { b.now = b.now.Add(t) }

// look tells the holder whether the frontier wants server(1), where nothing is in flight.
func (b *bench) look(wanted bool) { b.tick([]Server{{Addr: server(1), Wanted: wanted}}, b.now) }

// sends returns the item that is due, after a check of its wish.
func (b *bench) sends(wish wire.Wish) item {
	b.t.Helper()
	due := b.due(b.now, nil)
	if len(due) != 1 || len(due[b.grantedBy]) != 1 || due[b.grantedBy][0].wish != wish {
		b.t.Fatalf("due: %v, want %v to %s", due, wish, b.grantedBy)
	}
	it := due[b.grantedBy][0]
	b.message(&it, b.grantedBy, b.now)
	return it
}

func (b *bench) silent() {
	b.t.Helper()
	if due := b.due(b.now, nil); len(due) != 0 {
		b.t.Fatalf("due: %v", due)
	}
}

// told returns for how long the frontier may use the server by the last grant, and whether there was one.
func (b *bench) told() (time.Duration, bool) {
	last := b.last
	b.last = nil
	if last == nil || *last == (Right{}) {
		return 0, last != nil
	}
	return last.until.mono.Sub(b.now), true
}

func yes() *wire.LeaseAnswer {
	return &wire.LeaseAnswer{Grant: given, ForMs: time.Minute.Milliseconds()}
}

// obtain acquires the lease on server(1).
func (b *bench) obtain() *lease {
	b.t.Helper()
	b.look(true)
	it := b.sends(acquire)
	b.answered(it, b.grantedBy, yes(), at(b.now), b.now)
	if d, ok := b.told(); !ok || d != time.Minute {
		b.t.Fatalf("leased for %v, %v", d, ok)
	}
	return it.lease
}

// Leases that begin at different times are renewed by one message in the end.
func TestRenewalsOfOneGrantorGoTogether(t *testing.T) {
	b := newBench(t)
	const servers, minutes = 40, 20
	messages := 0
	for second := range 60 * minutes {
		if second < servers {
			b.want(server(second), b.now)
		}
		for grantor, items := range b.due(b.now, nil) {
			messages++
			for i := range items {
				b.message(&items[i], grantor, b.now)
				b.answered(items[i], grantor, yes(), at(b.now), b.now)
			}
		}
		for addr, l := range b.all {
			if !l.live(b.now) && !l.next.After(b.now) {
				t.Fatalf("%v ran out", addr)
			}
		}
		b.pass(time.Second)
	}
	if most := servers + 5*minutes; messages > most {
		t.Errorf("%d messages for %d leases in %d minutes, want %d at most", messages, servers, minutes, most)
	}
	t.Logf("%d messages", messages)
}

func TestItemsOfAMessageAreBounded(t *testing.T) {
	b := newBench(t)
	for i := range 1250 {
		b.want(server(i), b.now)
	}
	for _, want := range []int{500, 500, 250} {
		if got := len(b.due(b.now, nil)["k"]); got != want {
			t.Errorf("%d items, want %d", got, want)
		}
	}
	b.want(server(99), b.now)
	if due := b.due(b.now, map[string]bool{"k": true}); len(due) != 0 {
		t.Error("two calls to one grantor at a time")
	}
}

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

// TestAnswers gives a holder each answer, or none, to each wish. It checks for how long the frontier may use the server ("-" if it hears
// nothing), when the next message is due, and what people are told. The answer comes two seconds after the question.
func TestAnswers(t *testing.T) {
	wishes := map[string]func(b *bench) item{
		"acquire": func(b *bench) item { b.look(true); return b.sends(acquire) },
		"renew":   func(b *bench) item { b.obtain(); b.pass(40 * time.Second); return b.sends(renew) },
		"release": func(b *bench) item {
			b.withdraw(server(1), b.obtain(), b.now)
			b.look(false)
			b.told()
			return b.sends(release)
		},
	}
	answers := map[string]*wire.LeaseAnswer{
		"given":         yes(),
		"given, over":   {Grant: given, ForMs: 2_000}, // when it arrives
		"given for 10s": {Grant: given, ForMs: 10_000},
		"given for 1h":  {Grant: given, ForMs: 3_600_000}, // no grantor can give more than a lease
		"held":          {Grant: held, Holder: "x"},
		"later, in 1ms": {Grant: later, RetryMs: 1},
		"later, in 20s": {Grant: later, RetryMs: 20_000},
		"later, in 1h":  {Grant: later, RetryMs: 3_600_000},
		"elsewhere":     {Grant: elsewhere},
		"unread":        {},
		"none":          nil,
	}
	const older, unreached = "grantor k waits until older leases have run out", "grantor k cannot be reached"
	for _, c := range []struct {
		wish, answer string
		told, next   string
		why          string
	}{
		{"acquire", "given", "58s", "26.5s", ""},
		{"acquire", "given, over", "-", "500ms", ""},
		{"acquire", "given for 10s", "8s", "26.5s", ""},
		{"acquire", "given for 1h", "58s", "26.5s", ""},
		{"acquire", "held", "-", "5s", "leased to x"},
		{"acquire", "later, in 1ms", "-", "750ms", older},
		{"acquire", "later, in 20s", "-", "20.25s", older},
		{"acquire", "later, in 1h", "-", "1m30.25s", older},
		{"acquire", "elsewhere", "-", "500ms", "node k does not see itself as the grantor"},
		{"acquire", "unread", "-", "500ms", "grantor k could not read the wish"},
		{"acquire", "none", "-", "500ms", unreached},
		{"renew", "given", "58s", "26.5s", ""},
		{"renew", "given, over", "-", "500ms", ""},
		{"renew", "given for 10s", "18s", "26.5s", ""}, // the grantor keeps earlier promises
		{"renew", "held", "0s", "5s", "leased to x"},
		{"renew", "later, in 1ms", "-", "750ms", older},
		{"renew", "later, in 20s", "-", "7.75s", older},
		{"renew", "elsewhere", "-", "500ms", "node k does not see itself as the grantor"},
		{"renew", "unread", "-", "500ms", "grantor k could not read the wish"},
		{"renew", "none", "-", "500ms", unreached},
		{"release", "given", "0s", "never", "given back"},
		{"release", "held", "0s", "never", "given back"},
		{"release", "none", "-", "500ms", unreached},
	} {
		b := newBench(t)
		it := wishes[c.wish](b)
		sent := b.now
		b.pass(2 * time.Second)
		if a := answers[c.answer]; a == nil {
			b.failed(it, "k", b.now)
		} else {
			b.answered(it, "k", a, at(sent), b.now)
		}
		told := "-"
		if d, ok := b.told(); ok {
			told = d.String()
		}
		next := "never"
		if l := b.all[server(1)]; l != nil {
			next = l.next.Sub(b.now).String()
		}
		if got := fmt.Sprint(told, " ", next, " ", it.lease.why); got != fmt.Sprint(c.told, " ", c.next, " ", c.why) {
			t.Errorf("%s, answered %s: told %s, next in %s, %q\nwant %s, %s, %q", c.wish, c.answer, told, next, it.lease.why, c.told, c.next, c.why)
		}
	}
}

// An answer about the server ends a series of failures. One that only says that the wrong node was asked does not.
func TestAnswersThatEndFailures(t *testing.T) {
	for answer, fails := range map[*wire.LeaseAnswer]int{yes(): 0, {Grant: held, Holder: "x"}: 0, {Grant: later, RetryMs: 1}: 0, {Grant: elsewhere}: 4, {}: 4} {
		b := newBench(t)
		b.look(true)
		it := b.sends(acquire)
		it.lease.fails = 3
		if b.answered(it, "k", answer, at(b.now), b.now); it.lease.fails != fails {
			t.Errorf("after %v there are %d failures, not %d", answer, it.lease.fails, fails)
		}
	}
}
