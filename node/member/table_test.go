package member

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func nodeID(i int) string { return fmt.Sprintf("%032x", i) }

// clock is a table and its time.
type clock struct {
	*table
	t    *testing.T
	now  time.Time
	deaf bool // nobody answers
}

// newClock is a table of node 1.
func newClock(t *testing.T) *clock {
	now := time.Unix(1_000_000, 0)
	return &clock{table: newTable(Default(), nodeID(1), 1, false, now), t: t, now: now}
}

func (c *clock) pass(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(min(time.Second, end.Sub(c.now)))
		for id, r := range c.members {
			if r.phase == alive && !c.deaf {
				c.answered(id, c.now)
			}
		}
		c.update(c.now)
	}
}

func (c *clock) meet(i int, boot uint64, settled bool) {
	c.seen(nodeID(i), fmt.Sprintf("10.0.0.%d:1", i), meta{boot: boot, settled: settled, addr: "a:1", stamp: c.paxos.plain()},
		nil, c.now)
	c.answered(nodeID(i), c.now)
	c.update(c.now)
}

func (c *clock) hear(entries ...entry) {
	c.merge(state{sender: nodeID(9), set: voters{c.paxos.set.origin, c.paxos.set.version, nil}, members: entries}, c.now)
	c.update(c.now)
}

// vote makes some the voters, as if that had been decided, and lets all that are alive know it.
func (c *clock) vote(places ...int) {
	c.t.Helper()
	var ids []string
	for _, i := range places {
		ids = append(ids, nodeID(i))
	}
	if !c.adopt(voters{c.paxos.set.origin, c.paxos.set.version + 1, ids}, c.now) {
		c.t.Fatal("the voters were not adopted")
	}
	for _, r := range c.members {
		if r.phase == alive {
			r.stamp = c.paxos.plain()
		}
	}
	c.update(c.now)
}

func (c *clock) expect(when string, majority bool, want ...int) {
	c.t.Helper()
	var ids []string
	for _, i := range want {
		ids = append(ids, nodeID(i))
	}
	if !slices.Equal(c.settled, ids) || c.majority != majority {
		c.t.Errorf("%s: settled %v, majority %v (%s), want %v, %v", when, c.settled, c.majority, c.waiting(c.now), ids, majority)
	}
}

func TestLoneNodeCountsAtOnce(t *testing.T) {
	c := newClock(t)
	c.expect("at once", true, 1)
	if c.self.declared {
		t.Error("declared at once")
	}
	c.pass(61 * time.Second)
	c.expect("later", true, 1)
	if !c.self.declared {
		t.Error("not declared after a minute")
	}
}

func TestFoundersDeclareTogether(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, false)
	c.meet(3, 1, false)
	c.expect("fresh", true, 1, 2, 3)
	c.pass(30 * time.Second)
	c.meet(2, 1, true)
	c.expect("the first declared", true, 1, 2, 3)
	if !c.self.declared {
		t.Error("a founder did not follow")
	}
	c.meet(4, 1, true)
	c.expect("one came that had declared itself elsewhere", true, 1, 2, 3, 4)
	c.lost(nodeID(4), c.now)
	c.pass(c.grace() - 1)
	c.expect("before the grace is over", true, 1, 2, 3, 4)
	c.read(message{kind: messageLeave, from: nodeID(4), set: c.paxos.set, ballot: ballot{1, nodeID(4)}}, c.now)
	c.pass(1)
	c.expect("node 3 never declared", true, 1, 2)
}

func TestOlderOverlayEndsFounders(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, false)
	c.meet(3, 1, true)
	c.expect("met an older overlay", true, 3)
	c.pass(50 * time.Second)
	if c.self.declared {
		t.Error("declared before its time")
	}
	c.pass(11 * time.Second)
	c.expect("a minute later", true, 1, 3)
}

func TestSettledElsewhereIsInherited(t *testing.T) {
	c := newClock(t)
	c.self.boot = 5
	c.meet(2, 1, true)
	c.expect("joined", true, 2)
	c.hear(entry{id: nodeID(1), boot: 4, phase: dead, settled: true, voter: true, since: 59 * time.Second})
	c.expect("told of its last life", true, 1, 2)
	if !c.self.declared {
		t.Error("not declared")
	}

	c = newClock(t)
	c.self.boot = 5
	c.meet(2, 1, true)
	c.hear(entry{id: nodeID(1), boot: 4, phase: dead, settled: true, voter: true, since: 61 * time.Second})
	c.expect("told of a life long ago", true, 2)
	c.hear(entry{id: nodeID(1), boot: 6, phase: alive, settled: true, voter: true})
	c.expect("told of a life to come", true, 2)
}

func TestHearsayOfTheDead(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	c.pass(61 * time.Second)
	c.hear(entry{id: nodeID(3), boot: 1, phase: dead, settled: true, voter: true, since: 50 * time.Second},
		entry{id: nodeID(4), boot: 1, phase: dead, settled: true, voter: true, since: 11 * time.Minute},
		entry{id: nodeID(5), boot: 1, phase: alive, settled: true, voter: true},
		entry{id: nodeID(6), boot: 1, phase: left})
	c.expect("told", true, 1, 2, 3)
	c.pass(11 * time.Second)
	c.expect("forgotten", true, 1, 2)
	c.vote(1, 2, 3)
	c.lost(nodeID(2), c.now)
	c.pass(time.Second)
	c.expect("one of three is left", false, 1, 2)
	c.pass(24 * time.Hour)
	c.expect("a day later", false, 1)
	if want := "waiting for 2 of 3 nodes: 00000000 (last seen 24h0m1s ago at 10.0.0.2:1), 00000000 (not seen since this node" +
		" started); if they are gone for good, run: proxima go-alone"; c.waiting(c.now) != want {
		t.Errorf("it says %q, not %q", c.waiting(c.now), want)
	}
}

func TestLeftStaysLeft(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	c.meet(3, 1, true)
	c.vote(1, 2, 3)
	bye := message{kind: messageLeave, from: nodeID(2), set: c.paxos.set, ballot: ballot{1, nodeID(2)}, renounced: true}
	for range 2 { // the answer may be lost
		if out := c.read(bye, c.now); len(out) != 1 || out[0].kind != messageLeft || out[0].to != nodeID(2) {
			t.Errorf("the farewell was answered by %v", out)
		}
	}
	c.update(c.now)
	c.expect("left", true, 3)
	c.seen(nodeID(2), "10.0.0.2:1", meta{boot: 1, settled: true, addr: "a:1"}, nil, c.now) // it was under way
	c.update(c.now)
	c.expect("its last news are older", true, 3)
	c.lost(nodeID(2), c.now)
	c.hear(entry{id: nodeID(2), boot: 1, phase: alive, settled: true, voter: true},
		entry{id: nodeID(3), boot: 1, phase: alive, settled: true, voter: true})
	c.expect("heard of again", true, 3)
	// Who missed the farewell learns of it from others.
	c.vote(0, 1, 3)
	c.lost(nodeID(3), c.now)
	c.update(c.now)
	c.expect("dead", false, 3)
	c.hear(entry{id: nodeID(0), phase: left, voter: true, gave: true}, entry{id: nodeID(3), boot: 1, phase: left, voter: true, gave: true})
	c.expect("left after all", true, 1)
	c.meet(2, 2, false)
	c.expect("came back", true, 1, 2)
}

func TestNoSettlingInAMinority(t *testing.T) {
	c := newClock(t)
	for i := 2; i <= 5; i++ {
		c.meet(i, 1, true)
	}
	c.vote(1, 2, 3, 4, 5)
	for i := 2; i <= 4; i++ {
		c.lost(nodeID(i), c.now)
	}
	c.pass(5 * time.Minute)
	c.expect("a minority", false, 5)
	if c.self.declared {
		t.Error("declared in a minority")
	}
	c.meet(3, 1, true)
	c.meet(4, 1, true)
	c.pass(59 * time.Second)
	c.expect("healed", true, 3, 4, 5)
	c.pass(2 * time.Second)
	c.expect("a minute later", true, 1, 3, 4, 5)
}

// Of two halves that of the lowest voter is the majority, whether the node that counts votes itself or not.
func TestHalves(t *testing.T) {
	for _, test := range []struct {
		voters, gone []int
		majority     bool
	}{
		{[]int{1, 2, 3, 4}, []int{3, 4}, true},
		{[]int{0, 1, 3, 4}, []int{0, 4}, false},
		{[]int{1, 2}, []int{2}, true},
		{[]int{0, 1}, []int{0}, false},
		{[]int{2, 3, 4, 5}, []int{4, 5}, true},
		{[]int{2, 3, 4, 5}, []int{2, 3}, false},
		{[]int{0, 3, 4, 5}, []int{0, 3}, false},
		{[]int{2, 3, 4, 5}, []int{2, 4, 5}, false},
		{[]int{2}, []int{2}, false},
	} {
		c := newClock(t)
		for _, i := range test.voters {
			if i != 1 {
				c.meet(i, 1, true)
			}
		}
		c.vote(test.voters...)
		for _, i := range test.gone {
			c.lost(nodeID(i), c.now)
		}
		c.update(c.now)
		if c.majority != test.majority {
			t.Errorf("voters %v without %v: majority %v", test.voters, test.gone, c.majority)
		}
	}
}

// The gossip's word of an end may overtake the farewell: it counts all the same.
func TestLateFarewell(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	c.meet(3, 1, true)
	c.vote(1, 2, 3)
	c.lost(nodeID(2), c.now)
	c.update(c.now)
	c.expect("it ended", true, 2, 3)
	c.read(message{kind: messageLeave, from: nodeID(2), set: c.paxos.set, ballot: ballot{1, nodeID(2)}, renounced: true}, c.now)
	c.update(c.now)
	c.expect("it had left", true, 3)
	c.seen(nodeID(2), "10.0.0.2:1", meta{boot: 2, settled: true, addr: "a:1"}, nil, c.now)
	c.update(c.now)
	c.expect("it is back", true, 2, 3)
}

func TestAnEchoOfAnEarlierLife(t *testing.T) {
	c := newClock(t)
	c.meet(2, 7, true)
	c.seen(nodeID(2), "10.0.0.9:1", meta{boot: 6, addr: "b:1"}, nil, c.now)
	c.update(c.now)
	c.expect("echo", true, 2)
	if r := c.members[nodeID(2)]; r.boot != 7 || r.addr != "a:1" {
		t.Errorf("the echo was believed: %+v", r)
	}
	c.lost(nodeID(2), c.now)
	c.hear(entry{id: nodeID(2), boot: 6, phase: left})
	c.expect("dead, and its earlier life had left", true, 2)
}

func TestBadMetaIsToldOnce(t *testing.T) {
	c := newClock(t)
	c.pass(61 * time.Second)
	for range 5 {
		c.seen(nodeID(2), "10.0.0.2:1", meta{}, errors.New("garbage"), c.now)
		c.update(c.now)
	}
	told := 0
	for _, e := range c.events {
		if e.Kind == EventBadMeta && e.ID == nodeID(2) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times", told)
	}
	r := c.members[nodeID(2)]
	if r.phase != alive || r.placed || r.addr != "" || r.settled {
		t.Errorf("kept as %+v", r)
	}
	c.meet(2, 3, true)
	c.expect("mended", true, 1, 2)
}

// A member votes as soon as it says that it has the same voters. When its next life says otherwise it does not.
func TestMemberWithTheSameVotersVotesAtOnce(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	c.vote(1, 2)
	same := c.paxos.plain()
	for _, k := range []struct {
		boot, stamp uint64
		votes       bool
	}{{2, same + 1, false}, {2, same, true}, {2, same + 1, true}, {3, same + 1, false}, {4, same, true}} {
		c.seen(nodeID(2), "10.0.0.2:1", meta{boot: k.boot, settled: true, addr: "a:1", stamp: k.stamp}, nil, c.now)
		if got := c.members[nodeID(2)].votes(c.now); got != k.votes {
			t.Errorf("boot %d, the same voters %v: it votes: %v", k.boot, k.stamp == same, got)
		}
	}
}

func TestTripsMedian(t *testing.T) {
	var tr trips
	if tr.median() != 0 {
		t.Error("a median of nothing")
	}
	for i := range 20 {
		tr.add(time.Duration(i) * time.Millisecond)
	}
	if m := tr.median(); m != 15 { // of 12 to 19
		t.Errorf("median %v", m)
	}
}

// A peer may tell of as many members as it likes, again and again: what is kept has a bound.
func TestMembersByHearsayAreBounded(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	for round := range 3 {
		var entries []entry
		for i := range maxEntries {
			entries = append(entries, entry{id: fmt.Sprintf("f%031x", round*maxEntries+i), boot: 1, phase: left, over: true})
		}
		c.hear(entries...)
		if len(c.members) > maxEntries {
			t.Fatalf("%d members are kept, more than %d", len(c.members), maxEntries)
		}
		c.adopt(voters{c.paxos.set.origin, uint64(2 + round), []string{nodeID(0), nodeID(1)}}, c.now) // a voter that is not kept yet
		if n := len(c.state(1, c.now).members); n > maxEntries {
			t.Fatalf("%d members are told of, more than %d", n, maxEntries)
		}
		delete(c.members, nodeID(0))
	}
	d := delegate{&Members{table: c.table}}
	node := func(n int) *memberlist.Node {
		return &memberlist.Node{Name: nodeID(n), Addr: net.IPv4(192, 0, 2, byte(n)), Port: 7946}
	}
	if err := d.NotifyAlive(node(2)); err != nil {
		t.Errorf("a member that is known: %v", err)
	}
	if err := d.NotifyAlive(node(3)); err == nil {
		t.Error("one member more was taken in")
	}
	c.update(c.now.Add(11 * time.Minute))
	if err := d.NotifyAlive(node(3)); err != nil {
		t.Errorf("later: %v", err)
	}
}
