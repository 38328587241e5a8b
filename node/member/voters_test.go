package member

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clockOf is a table of a node that has met others, some of them voters with it.
func clockOf(t *testing.T, self int, others []int, voters ...int) *clock {
	now := time.Unix(1_000_000, 0)
	c := &clock{table: newTable(Default(), nodeID(self), 1, true, now), t: t, now: now}
	for _, i := range others {
		c.meet(i, 1, true)
	}
	if len(voters) > 0 {
		c.paxos.found(now, c.self.id)
		c.vote(voters...)
	}
	return c
}

// numbers are the numbers of ids.
func numbers(ids []string) (out []int) {
	for _, id := range ids {
		var n int
		if _, err := fmt.Sscanf(id[:8], "%x", &n); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// Who is to vote next: a voter until it has left or has been dead for long, and a settled member that holds the present set.
func TestWhoIsToVote(t *testing.T) {
	window := Default().MajorityWindow
	for name, k := range map[string]struct {
		who    int // 2 is a voter, 4 is none
		change func(c *clock, r *record)
		want   []int
	}{
		"all":                       {2, func(*clock, *record) {}, []int{1, 2, 3, 4}},
		"a voter has left":          {2, func(c *clock, r *record) { c.gone(r, left, c.now) }, []int{1, 3, 4}},
		"a voter gave its vote up":  {2, func(c *clock, r *record) { r.gave = c.paxos.plain() }, []int{1, 3, 4}},
		"it gave up an earlier one": {2, func(c *clock, r *record) { r.gave = c.paxos.plain() + 1 }, []int{1, 2, 3, 4}},
		"a voter has just died":     {2, func(c *clock, r *record) { r.phase, r.since = dead, c.now.Add(1-window) }, []int{1, 2, 3, 4}},
		"a voter is dead for long":  {2, func(c *clock, r *record) { r.phase, r.since = dead, c.now.Add(-window) }, []int{1, 3, 4}},
		"a voter holds another set": {2, func(_ *clock, r *record) { r.stamp++ }, []int{1, 2, 3, 4}},
		"another is not settled":    {4, func(_ *clock, r *record) { r.settled = false }, []int{1, 2, 3}},
		"another is a founder":      {4, func(_ *clock, r *record) { r.settled, r.founder = false, true }, []int{1, 2, 3, 4}},
		"another is not understood": {4, func(_ *clock, r *record) { r.bad = true }, []int{1, 2, 3}},
		"another holds another set": {4, func(_ *clock, r *record) { r.stamp++ }, []int{1, 2, 3}},
		"another has died":          {4, func(_ *clock, r *record) { r.phase = dead }, []int{1, 2, 3}},
	} {
		c := clockOf(t, 1, []int{2, 3, 4}, 1, 2, 3)
		c.self.settled = true
		k.change(c, c.members[nodeID(k.who)])
		if got := numbers(c.wanted(c.now)); !slices.Equal(got, k.want) {
			t.Errorf("%s: %v are to vote, not %v", name, got, k.want)
		}
	}
}

// What a member says of its end counts for its life, and is answered where it leaves.
func TestFarewellOfALife(t *testing.T) {
	for name, k := range map[string]struct {
		kind, life             int
		renounced              bool
		over, left, gave, hear bool
	}{
		"the crawl is over":           {messageOver, 5, false, true, false, false, false},
		"and it votes no more":        {messageOver, 5, true, true, false, true, false},
		"said in an earlier life":     {messageOver, 4, true, false, false, false, false},
		"said in a life to come":      {messageOver, 6, true, false, false, false, false},
		"it leaves":                   {messageLeave, 5, false, false, true, false, true},
		"it leaves without a vote":    {messageLeave, 5, true, false, true, true, true},
		"it left in an earlier life":  {messageLeave, 4, true, false, false, false, false},
		"it leaves in a life to come": {messageLeave, 6, true, false, true, false, true},
	} {
		c := clockOf(t, 1, nil, 1, 2, 3)
		c.meet(2, 5, true)
		out := c.read(message{kind: k.kind, from: nodeID(2), set: c.paxos.set, ballot: ballot{uint64(k.life), nodeID(2)}, renounced: k.renounced}, c.now)
		r := c.members[nodeID(2)]
		if r.over != k.over || (r.phase == left) != k.left || c.absent(nodeID(2)) != k.gave || (len(out) == 1 && out[0].kind == messageLeft) != k.hear {
			t.Errorf("%s: over %v, left %v, its vote given up %v, answered %v", name, r.over, r.phase == left, c.absent(nodeID(2)), len(out))
		}
	}
	c := clockOf(t, 1, []int{2}, 1, 2, 3)
	earlier := c.paxos.set
	c.vote(1, 2)
	c.read(message{kind: messageLeave, from: nodeID(2), set: earlier, ballot: ballot{1, nodeID(2)}, renounced: true}, c.now)
	if c.absent(nodeID(2)) {
		t.Error("who gave up a vote among earlier voters has none among these")
	}
}

// A node that has come back after it gave up its vote does not wait for itself.
func TestWhomANodeWithoutAVoteMisses(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3}, 1, 2, 3)
	c.paxos.renounced = true
	c.lost(nodeID(3), c.now)
	missing, voters := c.missing(c.now)
	if len(missing) != 1 || missing[0].ID != nodeID(3) || voters != 3 {
		t.Errorf("of %d voters it misses %v", voters, missing)
	}
}

// Where all voters have been stopped since the last decision, and one is stopped again before the next, the others name it and not each other.
func TestAllWereStoppedAndOneIsGone(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3}, 1, 2, 3)
	c.paxos.renounced = true
	for _, i := range []int{2, 3} {
		c.members[nodeID(i)].stamp = marked(c.paxos.plain(), proposal{}, true)
	}
	if c.update(c.now); !c.majority {
		t.Fatalf("all are there: %s", c.whyMinority(c.now))
	}
	giveUp(c)
	c.gone(c.members[nodeID(2)], left, c.now)
	c.pass(time.Minute)
	want := "waiting for 1 of 3 nodes: 00000002 (stopped 1m0s ago); all have been stopped since they last agreed who votes, so all must be there once"
	if got := c.whyMinority(c.now); c.majority || !strings.HasPrefix(got, want) {
		t.Errorf("majority %v: %s", c.majority, got)
	}
	c.gone(c.members[nodeID(3)], left, c.now)
	if got := c.whyMinority(c.now); !strings.HasPrefix(got, "waiting for 2 of 3 nodes: 00000002 (stopped 1m0s ago), 00000003 (stopped 0s ago);") {
		t.Error(got)
	}
}

// A farewell is acknowledged in the life that said it.
func TestAcknowledgementOfAFarewell(t *testing.T) {
	c := clockOf(t, 1, []int{2}, 1, 2)
	for _, life := range []uint64{c.self.boot + 1, c.self.boot} {
		c.read(message{kind: messageLeft, from: nodeID(2), ballot: ballot{life, nodeID(1)}}, c.now) // it says none
		c.farewellAcks = map[string]bool{}
		c.read(message{kind: messageLeft, from: nodeID(2), ballot: ballot{life, nodeID(1)}}, c.now)
		if acked := c.farewellAcks[nodeID(2)]; acked != (life == c.self.boot) {
			t.Errorf("in life %d it is acknowledged: %v", life, acked)
		}
		c.farewellAcks = nil
	}
}

// The next life knows what this one has promised, accepted and given up, and where the voters are.
func TestVotesOutliveALife(t *testing.T) {
	c := clockOf(t, 1, []int{2}, 1, 2, 3)
	p := &c.paxos
	p.promised, p.accepted, p.renounced = ballot{3, nodeID(2)}, proposal{ballot{2, nodeID(3)}, []string{nodeID(3)}}, true
	want := kept{set: p.set, promised: p.promised, accepted: p.accepted, renounced: true, addrs: []string{"", "10.0.0.2:1", ""}}
	next := newTable(Default(), nodeID(1), 2, true, c.now)
	k, err := decode[kept](encode(nil, c.keep()), "votes")
	must(t, err)
	next.restore(k, c.now)
	if d := cmp.Diff(want, next.keep(), unexported); d != "" {
		t.Error(d)
	}
}

// Founders count for a quarter of the time that a newcomer waits, at least a second.
func TestGraceOfFounders(t *testing.T) {
	for settle, want := range map[time.Duration]time.Duration{time.Second: time.Second, 4 * time.Second: time.Second, 12 * time.Second: 3 * time.Second} {
		if got := (&table{cfg: Config{SettleAfter: settle}}).grace(); got != want {
			t.Errorf("where newcomers wait %v founders count for %v, want %v", settle, got, want)
		}
	}
}

// How a node gives up its vote: others who vote go on without it. Where there are none, those that know its voters become the next.
func TestHowAVoteIsGivenUp(t *testing.T) {
	for name, k := range map[string]struct {
		change    func(c *clock)
		renounced bool
		next      []int
	}{
		"others vote":                         {func(*clock) {}, true, []int{1, 2, 3}},
		"the others are dead":                 {func(c *clock) { c.lost(nodeID(2), c.now); c.lost(nodeID(3), c.now) }, false, []int{1, 2, 3}},
		"half would stay, without the lowest": {func(c *clock) { c.vote(1, 2, 3); c.lost(nodeID(2), c.now) }, false, []int{1, 2, 3}},
		"half would stay, with the lowest":    {func(c *clock) { c.vote(1, 2, 3); c.lost(nodeID(3), c.now) }, true, []int{1, 2, 3}},
		"one gave its vote up":                {func(c *clock) { c.members[nodeID(2)].gave = c.paxos.plain() }, true, []int{1, 2, 3}},
		"the others gave theirs up":           {giveUp, false, []int{4}},
		"and nobody knows the voters":         {func(c *clock) { giveUp(c); c.members[nodeID(4)].stamp++ }, false, []int{1, 2, 3}},
		"and another set was accepted":        {func(c *clock) { giveUp(c); c.paxos.accepted.ids = []string{nodeID(2)} }, false, []int{1, 2, 3}},
		"it is no voter":                      {func(c *clock) { c.vote(2, 3) }, false, []int{2, 3}},
	} {
		c := clockOf(t, 1, []int{2, 3, 4}, 1, 2, 3)
		k.change(c)
		c.paxos.dirty = false
		c.depart(c.now)
		if p := &c.paxos; !p.quit || p.renounced != k.renounced || !slices.Equal(numbers(p.set.ids), k.next) || p.dirty != (k.renounced || len(k.next) == 1) {
			t.Errorf("%s: it renounced %v, and the voters are %v", name, p.renounced, numbers(p.set.ids))
		}
	}
}

// giveUp ends the votes of the others.
func giveUp(c *clock) {
	c.members[nodeID(2)].gave, c.members[nodeID(3)].gave = c.paxos.plain(), c.paxos.plain()
}

// Who is asked whether it is there is asked again until it has answered, whenever it was pinged besides, and nobody else is.
func TestWhoIsAskedAgain(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3, 4, 5})
	c.pass(time.Minute)
	since := c.now.Add(time.Second)
	c.lost(nodeID(5), since)
	c.answered(nodeID(2), since)
	c.answered(nodeID(3), since.Add(-1))
	for _, i := range []int{3, 4} {
		c.members[nodeID(i)].pinged = since.Add(time.Second)
	}
	var again []string
	for _, r := range c.silent(since) {
		again = append(again, r.id)
	}
	if got := numbers(again); !slices.Equal(got, []int{3, 4}) {
		t.Errorf("asked again are %v", got)
	}
}

// The end of a vote is on disk before it is told: a node that is started again would vote, and the others count without it.
func TestEndOfAVoteIsOnDisk(t *testing.T) {
	for what, end := range map[string]func(m *Members) error{"leaves": (*Members).giveUp, "over": (*Members).Over} {
		var disk []byte
		m := lone(t, func(_ *Config, d *Deps) { d.Keep = func(b []byte) error { disk = b; return nil } })
		c := &clock{table: m.table, t: t, now: m.now()}
		for _, i := range []int{2, 3} {
			c.meet(i, 1, true)
		}
		c.paxos.found(c.now, c.self.id)
		c.vote(1, 2, 3)
		must(t, m.store())
		must(t, end(m))
		if k, err := decode[kept](disk, "votes"); err != nil || !c.paxos.renounced || !k.renounced {
			t.Errorf("%s: in memory the vote is given up: %v, on disk: %v, %v", what, c.paxos.renounced, k.renounced, err)
		}
	}
}
