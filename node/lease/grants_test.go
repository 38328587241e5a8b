package lease

import (
	"fmt"
	"testing"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

const (
	acquire = wire.Wish_WISH_ACQUIRE
	renew   = wire.Wish_WISH_RENEW
	release = wire.Wish_WISH_RELEASE

	given     = wire.Grant_GRANT_GIVEN
	held      = wire.Grant_GRANT_HELD
	elsewhere = wire.Grant_GRANT_ELSEWHERE
	later     = wire.Grant_GRANT_LATER
)

// desk is a grantor with a clock that the test moves.
type desk struct {
	*grants
	t   *testing.T
	now time.Time
	ids map[string]uint64
}

// everyone lists the members of these tests. All of them are alive.
var everyone = []string{"a", "b", "c", "d", "h", "k", "n", "n0", "n1", "o", "x", "y"}

// newDesk makes a grantor of all servers. If old is set, it may grant at once.
func newDesk(t *testing.T, old bool) *desk {
	cfg := Default()
	d := &desk{grants: newGrants(&cfg, 2), t: t, now: time.Unix(1e9, 0), ids: map[string]uint64{}}
	d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"k"}, Majority: true}, d.now)
	if old {
		d.pass(cfg.Window())
	}
	return d
}

func (d *desk) pass(t time.Duration) { d.now = d.now.Add(t) }

// ask sends a request in order, and checks the answer and the holder that it names.
func (d *desk) ask(from string, wish wire.Wish, want wire.Grant, holder string) *wire.LeaseAnswer {
	d.t.Helper()
	d.ids[from]++
	return d.send(request{from: from, boot: 1, id: d.ids[from], addr: server(1), wish: wish}, want, holder)
}

func (d *desk) send(r request, want wire.Grant, holder string) *wire.LeaseAnswer {
	d.t.Helper()
	got := d.answer(r, d.now)
	if got.GetGrant() != want || got.GetHolder() != holder || got.GetWaitMs() < 0 {
		d.t.Fatalf("%v by %s: %v %q, want %v %q", r.wish, r.from, got.GetGrant(), got.GetHolder(), want, holder)
	}
	return got
}

// ms converts a time of a message.
func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// TestDecisions has what a grantor answers; these tests are about the times and the order.
func TestGrantsExpire(t *testing.T) {
	d := newDesk(t, true)
	d.ask("a", acquire, given, "a")
	d.pass(d.cfg.Time / 2)
	d.ask("a", renew, given, "a")
	d.pass(d.cfg.Window() - 1)
	d.ask("b", acquire, held, "a")
	d.pass(1)
	if n := d.granted(d.now); n != 0 {
		t.Errorf("%d are granted", n)
	}
	d.ask("a", renew, later, "") // the lease has expired, so a must acquire it like any node
	d.ask("b", acquire, given, "b")
}

func TestNewGrantorBelievesTheFirstClaim(t *testing.T) {
	d := newDesk(t, false)
	d.ask("b", renew, given, "b")
	d.ask("b", release, given, "")
	d.ask("a", acquire, later, "") // the claim of b tells nothing about other servers
	d.pass(d.cfg.Window() - 1)
	d.ask("a", acquire, later, "")
	d.pass(1)
	d.ask("c", renew, later, "") // too late for a claim
	d.ask("a", acquire, given, "a")
}

func TestGrantorByAChangeOfMembers(t *testing.T) {
	d := newDesk(t, true)
	mine := view.View{Self: "k", Alive: everyone, Settled: []string{"k"}, Majority: true}
	other := view.View{Self: "k", Alive: everyone, Settled: []string{"o"}, Majority: true}
	d.ask("a", acquire, given, "a")
	d.setView(other, d.now)
	d.ask("a", renew, elsewhere, "")
	d.pass(time.Second)
	d.setView(mine, d.now)
	d.ask("b", acquire, later, "") // o may have granted it
	d.ask("a", renew, given, "a")
	d.pass(2 * d.cfg.Time)
	d.ask("b", acquire, given, "b")

	// An equal view changes nothing. A view without a majority ends the right to grant.
	d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"k"}, Majority: true, Version: 7}, d.now)
	d.ask("b", renew, given, "b")
	d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"k"}}, d.now)
	d.ask("b", renew, later, "")
	d.ask("c", acquire, later, "")
	d.pass(time.Second)
	d.setView(mine, d.now)
	d.ask("c", acquire, later, "")
	d.pass(d.cfg.Window())
	d.ask("c", acquire, given, "c")

	// It knows nothing of views that it has forgotten, except its own grants.
	for i := range 200 {
		d.setView(view.View{Self: "k", Alive: everyone, Settled: []string{"k", fmt.Sprint("n", i%2)}[:1+i%2], Majority: true}, d.now)
		d.pass(time.Millisecond)
	}
	d.setView(mine, d.now)
	if blind := d.blind(server(1), d.now); blind < d.cfg.Time {
		t.Errorf("it knows what was granted, but for %v", blind)
	}
	d.ask("c", acquire, given, "c")
}

// A grantor that slept does not know whether its successor has granted a server meanwhile: its monotonic clock stood still, so that its own
// grant looks as if it lived. It confirms the holder, if that renews. What others say that they hold counts more.
func TestGrantorThatSlept(t *testing.T) {
	d := newDesk(t, true)
	d.ask("a", acquire, given, "a")
	d.forget(d.now)
	d.ask("b", acquire, held, "a")
	d.ask("a", acquire, later, "") // it has lost the lease, so another node may have it
	d.ask("a", renew, given, "a")

	d.forget(d.now)
	d.ask("a", acquire, later, "")
	if !d.inquires(map[string][]*wire.Right{"b": {{Server: server(1).AsSlice(), ForMs: 10_000}}}) {
		t.Fatal("the inquiry failed")
	}
	d.ask("a", acquire, held, "b")

	d = newDesk(t, true) // nothing is unknown, so a member that says that it holds a server is wrong
	d.grants.ask = true
	if !d.inquires(map[string][]*wire.Right{"b": {{Server: server(1).AsSlice(), ForMs: 10_000}}}) {
		t.Fatal("the inquiry failed")
	}
	d.ask("a", acquire, given, "a")

	d = newDesk(t, false) // a claim counts as a grant when nothing has been unknown for a while
	for range 4 {
		d.ask("a", renew, given, "a")
		d.pass(d.cfg.Time / 2)
	}
	d.grants.ask = true
	if !d.inquires(nil) {
		t.Fatal("the inquiry failed")
	}
	d.ask("b", acquire, held, "a")
}

// inquires makes an inquiry to which all members answer with the rights that they have, and reports whether it is concluded.
func (d *desk) inquires(rights map[string][]*wire.Right) bool {
	d.t.Helper()
	q := d.inquiry(d.now)
	for _, id := range everyone {
		if !q.take(id, &wire.RightsResponse{SameView: true, Boot: 1, Rights: rights[id]}) {
			d.t.Fatalf("the answer of %s was refused", id)
		}
	}
	d.lives.hear("late", 1, d.now, d.cfg.Window())
	d.known["forgotten"] = 1
	concluded := d.conclude(q, d.now)
	if d.known["late"] > 0 || concluded && d.known["forgotten"] > 0 {
		d.t.Error("members count as having told of a life that began after they were asked, or of one that is forgotten")
	}
	return concluded
}

func TestSuccessor(t *testing.T) {
	d := newDesk(t, true)
	d.ask("a", acquire, given, "a")
	d.send(request{from: "a", boot: 1, id: 8, addr: server(1), wish: renew, wait: time.Hour}, given, "a") // it says less later
	d.send(request{from: "a", boot: 1, id: 9, addr: server(1), wish: release, successor: "b", wait: 90 * time.Second}, given, "")
	d.ask("c", acquire, held, "b")
	d.pass(30 * time.Second)
	if got := d.ask("b", acquire, given, "b"); ms(got.GetWaitMs()) != time.Minute {
		t.Errorf("wait %v", ms(got.GetWaitMs()))
	}
	d.send(request{from: "b", boot: 1, id: 9, addr: server(1), wish: release, successor: "nobody"}, given, "")
	d.pass(d.cfg.Time)
	d.ask("c", acquire, given, "c")
	d.send(request{from: "c", boot: 1, id: 9, addr: server(1), wish: release, successor: "c"}, given, "") // for anybody
	d.send(request{from: "a", boot: 1, id: 10, addr: server(1), wish: acquire}, given, "a")
}

func TestMessagesOutOfOrder(t *testing.T) {
	d := newDesk(t, true)
	message := func(boot, id uint64, wish wire.Wish, want wire.Grant, holder string) {
		t.Helper()
		d.send(request{from: "a", boot: boot, id: id, addr: server(1), wish: wish}, want, holder)
	}
	message(1, 5, acquire, given, "a")
	message(1, 6, release, given, "")
	message(1, 5, acquire, later, "") // repeated late: a does not want it any more
	message(1, 8, acquire, given, "a")
	message(1, 6, release, later, "") // late too
	message(1, 7, renew, later, "")
	message(1, 8, acquire, given, "a") // sent twice
	message(2, 1, acquire, later, "")  // the next life of a does not know what this one asked peers for
	d.known["a"] = 2
	message(3, 1, acquire, later, "") // nor what that one did
	message(1, 9, renew, later, "")
	d.ask("b", acquire, held, "a")
	d.pass(d.cfg.Window())
	message(3, 2, acquire, given, "a")
	if d.counts.Stale != 4 {
		t.Errorf("%d messages were out of order", d.counts.Stale)
	}
}

func TestGrantorIsBounded(t *testing.T) {
	d := newDesk(t, true)
	d.most = 3
	for i := range 3 {
		d.send(request{from: "a", addr: server(i), wish: acquire}, given, "a")
	}
	d.send(request{from: "a", addr: server(3), wish: acquire}, later, "")
	d.send(request{from: "a", addr: server(0), wish: renew}, given, "a")
	d.pass(2 * d.cfg.Time)
	d.prune(d.now)
	if len(d.entries) != 0 || d.granted(d.now) != 0 {
		t.Errorf("%d entries are left", len(d.entries))
	}
	d.send(request{from: "a", addr: server(3), wish: acquire}, given, "a")
	d.send(request{from: "a", addr: server(3), wish: release, wait: time.Hour}, given, "")
	d.prune(d.now)
	if got := d.send(request{from: "b", addr: server(3), wish: acquire}, given, "b"); ms(got.GetWaitMs()) != time.Hour {
		t.Errorf("the wait was forgotten: %v", ms(got.GetWaitMs()))
	}
}
