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
		if _, err := fmt.Sscanf(id, "%x", &n); err == nil {
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

// The voters decide the next set in turn, the lowest first, and not again while a ballot is under way or just after it.
func TestWhoDecides(t *testing.T) {
	for self, turn := range map[int]time.Duration{1: 0, 2: nextInTurn, 3: 2 * nextInTurn} {
		others := slices.DeleteFunc([]int{1, 2, 3, 4}, func(i int) bool { return i == self })
		c := clockOf(t, self, others, 1, 2, 3) // 4 is to become one
		after := func(d time.Duration, want bool) {
			t.Helper()
			if out := c.decide(c.now.Add(d), 0.5); (len(out) == 3) != want {
				t.Errorf("node %d after %v: %d messages", self, d, len(out))
			}
		}
		for id := range c.members {
			c.answered(id, c.now)
		}
		after(0, turn == 0)
		if turn > 0 {
			after(turn-1, false)
			after(turn, true)
		}
		for from := self; from <= 4; from++ { // its own ballot, and those of higher ones, do not put it off
			c.read(message{kind: messagePrepare, from: nodeID(from), set: c.paxos.set, ballot: ballot{1, nodeID(from)}}, c.now.Add(turn))
		}
		after(turn+ballotFor, false) // it was not decided
		after(turn+ballotFor*3/2-1, false)
		after(turn+ballotFor*3/2, true)
		now := c.now.Add(time.Minute)
		c.read(message{kind: messagePrepare, from: nodeID(0), set: c.paxos.set, ballot: ballot{9, nodeID(0)}}, now)
		after(time.Minute+nextInTurn-1, false) // a lower one tries
		after(time.Minute+nextInTurn, true)
		c.gone(c.members[nodeID(4)], dead, c.now)
		if after(2*time.Hour, false); !c.wished.IsZero() { // there is nothing to decide
			t.Error("the time of the wish is kept")
		}
	}
}

// Whom a minority waits for, in the words of the status: the first five, each with what was last known of it.
func TestWhomAMinorityWaitsFor(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3, 4, 5, 6, 7, 8}, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	const head, tail = "waiting for ", "; if they are gone for good, run: proxima go-alone"
	words := func(when, want string) {
		t.Helper()
		got := c.waiting(c.now)
		for i := range 10 {
			got = strings.ReplaceAll(got, nodeID(i)[:8], "node")
		}
		if got != head+want+tail {
			t.Errorf("%s:\n%s\n%s", when, got, head+want+tail)
		}
	}
	words("all but one answer", "1 of 9 nodes: node (not seen since this node started)")
	c.lost(nodeID(2), c.now)
	c.members[nodeID(3)].stamp++
	c.members[nodeID(3)].matched = time.Time{}
	c.deaf = true
	c.now = c.now.Add(10 * time.Second)
	words("one died, one holds another set", "3 of 9 nodes: node (last seen 10s ago at 10.0.0.2:1), node (it answers, and its vote is being settled), "+
		"node (not seen since this node started)")
	c.pass(c.cfg.HearWithin)
	words("nobody answers", "8 of 9 nodes: node (last seen 30s ago at 10.0.0.2:1), node (last seen 30s ago at 10.0.0.3:1), "+
		"node (last seen 30s ago at 10.0.0.4:1), node (last seen 30s ago at 10.0.0.5:1), node (last seen 30s ago at 10.0.0.6:1), and 3 more")
	c.members[nodeID(4)].gave = c.paxos.plain()
	if missing, voters := c.missing(c.now); len(missing) != 7 || voters != 8 {
		t.Errorf("one gave its vote up: %d of %d are missing", len(missing), voters)
	}
}

// Those that hold another set are told the latest one, four at a time, and each again after three seconds.
func TestWhoIsToldTheVoters(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3, 4, 5, 6, 7, 8}, 1, 2, 3)
	for i := 3; i <= 8; i++ {
		c.members[nodeID(i)].stamp++
	}
	c.members[nodeID(2)].stamp, c.members[nodeID(2)].bad = 1, true // it would not understand
	told := map[string]int{}
	ask := func(want int) {
		t.Helper()
		out := c.ask(c.now)
		for _, p := range out {
			told[p.to]++
		}
		if len(out) != want {
			t.Errorf("%d are told, not %d", len(out), want)
		}
	}
	ask(4)
	ask(2)
	ask(0)
	c.now = c.now.Add(3*time.Second - 1)
	ask(0)
	c.now = c.now.Add(1)
	ask(4)
	ask(2)
	if len(told) != 6 || told[nodeID(2)] > 0 {
		t.Errorf("told: %v", told)
	}
}

// Of nodes that know of no overlay the lowest founds one, when nobody new has come for a while.
func TestWhoFounds(t *testing.T) {
	for name, k := range map[string]struct {
		self, other int
		change      func(r *record)
		after       time.Duration
		founds      bool
	}{
		"the lowest":               {1, 2, func(*record) {}, foundAfter, true},
		"too soon":                 {1, 2, func(*record) {}, foundAfter - 1, false},
		"not the lowest":           {2, 1, func(*record) {}, time.Hour, false},
		"the lowest that answers":  {2, 1, func(r *record) { r.phase = dead }, time.Hour, false}, // and nobody else is there
		"what is not understood":   {2, 1, func(r *record) { r.bad = true }, time.Hour, false},
		"the other is in an older": {1, 2, func(r *record) { r.stamp = 7 }, time.Hour, false},
	} {
		c := clockOf(t, k.self, []int{k.other})
		c.now = c.now.Add(time.Second)
		c.meet(k.other, 2, true) // its next life is a new one to come
		k.change(c.members[nodeID(k.other)])
		c.foundIfLowest(c.now.Add(k.after))
		if founds := c.paxos.set.version > 0; founds != k.founds {
			t.Errorf("%s: it founds: %v", name, founds)
		}
	}
}

// Who goes on alone goes on with those that live and are understood. In a majority of all there is nothing to do.
func TestWithWhomANodeGoesOnAlone(t *testing.T) {
	c := clockOf(t, 2, []int{1, 3}, 1, 2, 3)
	for i, k := range []struct {
		change          func()
		dropped, voters []int
		forced          uint64
	}{{func() {}, nil, []int{1, 2, 3}, 0}, {func() { c.members[nodeID(3)].bad = true }, []int{3}, []int{1, 2}, 1}, {func() { c.forget(c.now) }, nil, []int{1, 2}, 2}} {
		k.change()
		c.update(c.now)
		dropped := c.goAlone(c.now, "told")
		if !slices.Equal(numbers(dropped), k.dropped) || !slices.Equal(numbers(c.paxos.set.ids), k.voters) || c.paxos.set.origin.forced != k.forced {
			t.Errorf("step %d: it drops %v and goes on with %v", i, numbers(dropped), numbers(c.paxos.set.ids))
		}
	}
}

// Where the configuration says so a minority goes on alone, the lowest that lives first.
func TestGoingOnAloneInTurn(t *testing.T) {
	for self, turn := range map[int]time.Duration{1: 0, 2: nextInTurn} {
		c := clockOf(t, self, []int{3 - self, 3, 4, 5}, 1, 2, 3, 4, 5)
		c.cfg.GoAloneAfter = time.Minute
		for i := 3; i <= 5; i++ {
			c.lost(nodeID(i), c.now)
		}
		c.update(c.now)
		if c.majority || c.aloneByItself(c.now.Add(time.Minute+turn-1)) {
			t.Errorf("node %d goes on alone too soon", self)
		}
		for id := range c.members {
			c.answered(id, c.now.Add(time.Minute+turn))
		}
		if !c.aloneByItself(c.now.Add(time.Minute+turn)) || !slices.Equal(numbers(c.paxos.set.ids), []int{1, 2}) {
			t.Errorf("node %d, after a minute: the voters are %v", self, numbers(c.paxos.set.ids))
		}
		c.cfg.GoAloneAfter = 0
		if c.aloneByItself(c.now.Add(time.Hour)) {
			t.Error("it goes on alone unasked")
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

// A voter that has given up its vote has the same set as the others, however long ago that was, and counts as present without a vote.
func TestVoterWithoutItsVoteIsPresent(t *testing.T) {
	c := clockOf(t, 1, nil, 1, 2, 3)
	c.meet(2, 5, true)
	renounced := marked(c.paxos.plain(), proposal{}, true)
	c.seen(nodeID(2), "10.0.0.2:1", meta{boot: 5, settled: true, addr: "a:1", stamp: renounced}, nil, c.now)
	c.pass(2 * behindFor)
	there := c.there(c.now)
	if without, present := there[nodeID(2)]; !present || !without || len(there) != 2 {
		t.Errorf("present, and without a vote: %v", there)
	}
}

// The next life knows what this one has promised, accepted and given up, and where the voters are.
func TestVotesOutliveALife(t *testing.T) {
	c := clockOf(t, 1, []int{2}, 1, 2, 3)
	p := &c.paxos
	p.promised, p.accepted, p.renounced = ballot{3, nodeID(2)}, proposal{ballot{2, nodeID(3)}, []string{nodeID(3)}}, true
	want := kept{set: p.set, promised: p.promised, accepted: p.accepted, renounced: true, addrs: []string{"", "10.0.0.2:1", ""}}
	next := newTable(Default(), nodeID(1), 2, true, c.now)
	next.restore(c.keep(), c.now)
	if d := cmp.Diff(want, next.keep(), unexported); d != "" {
		t.Error(d)
	}
}

// A member that was dead for too long counts no more when it answers, even if this node did not look in the meantime.
func TestMemberThatReturnsTooLate(t *testing.T) {
	forget := Default().ForgetAfter
	for away, want := range map[time.Duration][]int{forget - 1: {2, 3}, forget: {1, 3}} { // by then this node has settled
		c := newClock(t)
		c.meet(2, 1, true)
		c.meet(3, 1, true)
		c.lost(nodeID(2), c.now)
		c.now = c.now.Add(away)
		c.meet(2, 2, false)
		c.expect(fmt.Sprint("after ", away), true, want...)
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

// Who was away while voters were decided hears of them in the first stream.
func TestVotersComeByStream(t *testing.T) {
	c := newClock(t)
	c.vote(1, 2)
	now := c.paxos.set
	told := state{sender: nodeID(2), set: voters{now.origin, now.version + 1, nil},
		members: []entry{{id: nodeID(1), voter: true}, {id: nodeID(2)}, {id: nodeID(3), voter: true}}}
	c.merge(told, c.now)
	if got, want := c.paxos.set, []string{nodeID(1), nodeID(3)}; got.version != now.version+1 || !slices.Equal(got.ids, want) {
		t.Errorf("version %d of the voters: %v, want version %d: %v", got.version, got.ids, now.version+1, want)
	}
	told.set.version = now.version
	c.merge(told, c.now)
	if c.paxos.set.version != now.version+1 {
		t.Error("older voters count")
	}
}

// A voter whose name is all that an earlier life has left was never here: it joins, and does not come back.
func TestVoterKnownByNameJoins(t *testing.T) {
	c := newClock(t)
	c.vote(1, 2)
	c.meet(2, 1, true)
	joins := slices.IndexFunc(c.events, func(e Event) bool { return e.Kind == EventJoin && e.ID == nodeID(2) })
	again := slices.IndexFunc(c.events, func(e Event) bool { return e.Kind == EventRejoin })
	if joins < 0 || again >= 0 {
		t.Errorf("events: %+v", c.events)
	}
}

// How a node gives up its vote: others who vote go on without it. Where there are none, those that know its voters become the next.
func TestHowAVoteIsGivenUp(t *testing.T) {
	for name, k := range map[string]struct {
		change    func(c *clock)
		renounced bool
		next      []int
	}{
		"others vote":                  {func(*clock) {}, true, []int{1, 2, 3}},
		"the others are dead":          {func(c *clock) { c.lost(nodeID(2), c.now); c.lost(nodeID(3), c.now) }, false, []int{1, 2, 3}},
		"one gave its vote up":         {func(c *clock) { c.members[nodeID(2)].gave = c.paxos.plain() }, true, []int{1, 2, 3}},
		"the others gave theirs up":    {giveUp, false, []int{4}},
		"and nobody knows the voters":  {func(c *clock) { giveUp(c); c.members[nodeID(4)].stamp++ }, false, []int{1, 2, 3}},
		"and another set was accepted": {func(c *clock) { giveUp(c); c.paxos.accepted.ids = []string{nodeID(2)} }, false, []int{1, 2, 3}},
		"it is no voter":               {func(c *clock) { c.vote(2, 3) }, false, []int{2, 3}},
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

// Voters that have accepted a set which was not decided, or gave up their vote and came back, are decided on anew after a while.
func TestVotersThatAreStuck(t *testing.T) {
	for name, k := range map[string]struct {
		stamp func(c *clock) uint64
		stuck bool
	}{
		"as the others":      {func(c *clock) uint64 { return c.paxos.plain() }, false},
		"has accepted a set": {func(c *clock) uint64 { return c.paxos.plain() + 1 }, true},
		"gave its vote up":   {func(c *clock) uint64 { return marked(c.paxos.plain(), proposal{}, true) }, true},
	} {
		c := clockOf(t, 1, []int{2, 3}, 1, 2, 3)
		c.self.settled = true
		c.members[nodeID(3)].stamp = k.stamp(c)
		c.pass(behindFor)
		if out := c.decide(c.now, 0); len(out) > 0 {
			t.Errorf("%s: decided on at once", name)
		}
		c.pass(2 * time.Second)
		if out := c.decide(c.now, 0); (len(out) == 3) != k.stuck {
			t.Errorf("%s: decided on anew: %v", name, len(out) == 3)
		}
		c.paxos.quit, c.tried, c.paxos.round = true, time.Time{}, round{}
		if out := c.decide(c.now, 0); len(out) > 0 {
			t.Errorf("%s: decided on by a node that leaves", name)
		}
	}
}

// The version grows where something has changed, once, and a node that leaves tells of no minority.
func TestWhenTheVersionGrows(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3}, 1, 2, 3)
	c.pass(time.Minute)
	for _, k := range []struct {
		what   string
		change func()
		grows  uint64
		told   int
	}{
		{"nothing", func() {}, 0, 0},
		{"one died", func() { c.lost(nodeID(3), c.now) }, 1, 1},
		{"nothing more", func() {}, 0, 0},
		{"nobody answers", func() { c.now = c.now.Add(c.cfg.HearWithin) }, 1, 1},
		{"one answers again", func() { c.answered(nodeID(2), c.now) }, 1, 1},
		{"it stood still while leaving", func() { c.paxos.quit = true; c.forget(c.now) }, 1, 0},
	} {
		before := c.version
		c.events = nil
		k.change()
		if c.update(c.now); c.version-before != k.grows || len(c.events) != k.told {
			t.Errorf("%s: the version grows by %d, and it tells %+v", k.what, c.version-before, c.events)
		}
	}
}
