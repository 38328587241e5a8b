package lease

import (
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
	q   *inquiry // of a scenario
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

// send sends a request, and checks the answer and the holder that it names.
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
