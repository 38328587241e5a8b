package lease

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

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

// look tells the holder what the frontier wants of server(1).
func (b *bench) look(wanted bool, inFlight int) {
	b.tick([]Server{{Addr: server(1), Wanted: wanted, InFlight: inFlight}}, b.now)
}

// sends returns the item that is due, after a check of its wish.
func (b *bench) sends(wish wire.Wish) (item, *wire.LeaseItem) {
	b.t.Helper()
	due := b.due(b.now, nil)
	if len(due) != 1 || len(due[b.grantedBy]) != 1 || due[b.grantedBy][0].wish != wish {
		b.t.Fatalf("due: %v, want %v to %s", due, wish, b.grantedBy)
	}
	it := due[b.grantedBy][0]
	return it, b.message(&it, b.grantedBy, b.now)
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
	b.look(true, 0)
	it, _ := b.sends(acquire)
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
