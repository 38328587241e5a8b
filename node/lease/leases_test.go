package lease

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"proxima/assign"
	"proxima/ncoord"
	"proxima/node/wire"
)

// bench is a holder whose clock, grantor and frontier are moved by the test.
type bench struct {
	*leases
	t         *testing.T
	now       time.Time
	grantedBy string
	last      *Right // the last one that the frontier heard of
}

func newBench(t *testing.T) *bench {
	cfg := Default()
	b := &bench{t: t, now: time.Unix(1e9, 0), grantedBy: "k"}
	b.leases = &leases{cfg: &cfg, rnd: rand.New(rand.NewPCG(1, 2)), all: map[netip.Addr]*lease{}, grantor: func(netip.Addr) string { return b.grantedBy },
		grant: func(_ netip.Addr, r Right, _ time.Duration) { b.last = &r }, halt: func(netip.Addr) { b.last = &Right{} }}
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

// renews acquires the lease, learns something of the server, and sends the request to renew it.
func (b *bench) renews() (*lease, item) {
	b.t.Helper()
	l := b.obtain()
	l.memory, l.changed = &assign.Memory{}, b.now
	l.memory.Observe("n", ncoord.Coordinate{}, page(time.Second), b.now)
	b.pass(b.cfg.Time / 2)
	it, _ := b.sends(renew)
	return l, it
}

func TestAnswerAfterTheLeaseCountsForNothing(t *testing.T) {
	b := newBench(t)
	l := b.obtain()
	b.pass(30 * time.Second)
	it, _ := b.sends(renew)
	l.memory = &assign.Memory{}
	sent, slowed := b.now, len(b.slowed(b.now))
	b.pass(30 * time.Second)
	if n := len(b.slowed(b.now)); slowed != 1 || n != 0 {
		t.Errorf("this node compares %d servers, and %d when its lease is over", slowed, n)
	}
	b.answered(it, b.grantedBy, yes(), at(sent), b.now)
	if d, ok := b.told(); ok {
		t.Errorf("leased for %v by an answer to a renewal of a lease that was over", d)
	}
	b.look(true, 0)
	if d, ok := b.told(); !ok || d != 0 || b.counts.Expired != 1 {
		t.Errorf("told %v %v, %d expired", d, ok, b.counts.Expired)
	}
	b.sends(acquire)
}

func TestReleaseWaitsForRequests(t *testing.T) {
	b := newBench(t)
	l := b.obtain()
	b.look(false, 0)
	b.pass(b.cfg.ReleaseAfter())
	b.look(false, 0)
	if d, ok := b.told(); !ok || d != 0 {
		t.Fatal("it was not withdrawn before it goes back")
	}
	b.silent() // until a look finds nothing in flight
	b.look(false, 0)
	it, _ := b.sends(release)
	b.failed(it, b.grantedBy, b.now)
	// The grantor may have heard it: the lease must not be used again.
	b.want(server(1), b.now)
	b.look(true, 0)
	if _, ok := b.told(); ok {
		t.Fatal("a lease was used again after the grantor was told that it is over")
	}
	b.silent() // looks do not shorten the pause before the next release
	b.pass(time.Second)
	it, _ = b.sends(release)
	b.answered(it, b.grantedBy, &wire.LeaseAnswer{Grant: given}, at(b.now), b.now)
	if l.live(b.now) {
		t.Error("the lease lives")
	}
	b.sends(acquire)
}

func TestWithdrawalIsTakenBack(t *testing.T) {
	b := newBench(t)
	b.obtain()
	b.look(false, 0)
	b.pass(b.cfg.ReleaseAfter())
	b.look(false, 0)
	b.told()
	b.look(true, 1) // a request had just begun
	if d, ok := b.told(); !ok || d != 50*time.Second {
		t.Errorf("leased for %v, %v", d, ok)
	}
	b.sends(renew)
}

// A lease that is given to another node, and comes back because it is wanted again, is as good as a new one.
func TestLeasesThatComeBack(t *testing.T) {
	b := newBench(t)
	for range 2 {
		l := b.obtain()
		b.look(false, 0)
		b.pass(b.cfg.ReleaseAfter() - 1)
		if b.look(false, 0); l.withdrawn {
			t.Fatal("it goes back too early")
		}
		b.pass(1)
		b.look(false, 0)
		if b.look(true, 0); l.withdrawn {
			t.Fatal("it goes back though it is wanted again")
		}
		l.successor = "s"
		b.withdraw(server(1), l, b.now)
		b.look(true, 0)
		it, _ := b.sends(release)
		b.answered(it, b.grantedBy, yes(), at(b.now), b.now)
	}
}

func TestGiveWaitsForTheRequestInFlight(t *testing.T) {
	b := newBench(t)
	l := b.obtain()
	l.successor = "s"
	b.withdraw(server(1), l, b.now)
	b.look(true, 1)
	b.silent()
	b.stopped(at(b.now)) // a gap changes nothing about that
	b.silent()
	b.want(server(1), b.now) // it is given away nevertheless
	b.look(true, 0)
	if _, m := b.sends(release); m.Successor != "s" {
		t.Errorf("%v", m)
	}
}

// What was learnt since the last message goes with the release, even right after that message.
func TestReleaseTakesTheMemoryAlong(t *testing.T) {
	b := newBench(t)
	l := b.obtain()
	l.memory = &assign.Memory{}
	for _, wish := range []wire.Wish{renew, release} {
		l.memory.Observe("n", ncoord.Coordinate{}, page(time.Second), b.now)
		if l.changed = b.now; wish == release {
			b.withdraw(server(1), l, b.now)
			b.look(false, 0)
		} else {
			b.pass(b.cfg.Time / 2)
		}
		it, m := b.sends(wish)
		if said, err := assign.DecodeMemory(m.GetMemory(), b.now); err != nil || said.Downloads() != l.memory.Downloads() {
			t.Errorf("%v takes %d of %d downloads along: %v", wish, said.Downloads(), l.memory.Downloads(), err)
		}
		b.answered(it, b.grantedBy, yes(), at(b.now), b.now)
		b.pass(time.Second)
	}
}

func TestNewGrantorIsToldBeforeTheRelease(t *testing.T) {
	b := newBench(t)
	l := b.obtain()
	b.grantedBy = "k2"
	b.setView(b.now)
	it, _ := b.sends(renew)
	b.answered(it, "k2", &wire.LeaseAnswer{Grant: elsewhere}, at(b.now), b.now) // its view is older
	b.silent()
	b.pass(time.Second)
	it, _ = b.sends(renew)
	l.successor = "s"
	b.withdraw(server(1), l, b.now)
	b.answered(it, "k2", yes(), at(b.now), b.now)
	b.told()
	b.grantedBy = "k3"
	b.setView(b.now)
	b.silent()
	b.look(false, 0)
	it, _ = b.sends(renew)
	b.answered(it, "k3", yes(), at(b.now), b.now)
	if d, ok := b.told(); ok {
		t.Errorf("a lease that was withdrawn is leased for %v", d)
	}
	b.sends(release)
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

// When a call has failed, the memory is sent again at once, and the answer to the next call counts, whatever made the lost one void.
func TestCallsThatFail(t *testing.T) {
	b := newBench(t)
	l, it := b.renews()
	l.void = true
	b.failed(it, b.grantedBy, b.now)
	b.pass(time.Second)
	it, m := b.sends(renew)
	b.answered(it, b.grantedBy, yes(), at(b.now), b.now)
	if d, ok := b.told(); !ok || d != time.Minute || len(m.GetMemory()) == 0 {
		t.Errorf("leased for %v, %v, %d bytes of memory", d, ok, len(m.GetMemory()))
	}
}

func TestMemoryThatChangesMeanwhileIsSentAgain(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		b := newBench(t)
		l, it := b.renews()
		if meanwhile {
			l.changed = b.now
		}
		if b.answered(it, b.grantedBy, yes(), at(b.now), b.now); l.changed.IsZero() == meanwhile {
			t.Errorf("changed meanwhile: %v; the grantor lacks what changed at %v", meanwhile, l.changed)
		}
	}
}
