package member

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// nodeID is the id of node i: its first eight characters, of which texts tell, are the number.
func nodeID(i int) string { return fmt.Sprintf("%08x%024x", i, 0) }

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
	version := c.paxos.set.version + 1
	if c.adopt(voters{c.paxos.set.origin, version, ids}, c.now); c.paxos.set.version != version {
		c.t.Fatal("the voters were not adopted")
	}
	for _, r := range c.members {
		if r.phase == alive {
			r.stamp = c.paxos.plain()
		}
	}
	c.update(c.now)
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
	one := trips{}
	if one.add(3 * time.Millisecond); one.median() != 3 {
		t.Errorf("the median of 3 is %v", one.median())
	}
	for i := range 20 {
		tr.add(time.Duration(i) * time.Millisecond)
	}
	if m := tr.median(); m != 15 { // of 12 to 19
		t.Errorf("median %v", m)
	}
}

// Where many come and die, as a node that begins anew with each start, a newcomer takes the place of the one that has been dead for longest.
func TestTheDeadMakeRoom(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	begun := c.now
	for i := 10; len(c.members) < maxEntries; i++ {
		c.meet(i, 1, false)
		c.lost(nodeID(i), begun.Add(time.Duration(i)*time.Second))
	}
	c.update(begun.Add(2 * time.Hour))
	last := nodeID(10 + maxEntries)
	if !c.makeRoom() || len(c.members) != maxEntries-1 || c.members[nodeID(10)] != nil || c.members[nodeID(11)] == nil {
		t.Errorf("the longest dead has made no room: %d members", len(c.members))
	}
	c.seen(last, "192.0.2.1:7", meta{boot: 1, addr: "192.0.2.1:8"}, nil, c.now)
	for id, r := range c.members {
		if r != c.self && id != last {
			r.over = true
		}
	}
	if c.makeRoom() {
		t.Error("who counts, lives or has found the crawl to be over makes room")
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
		c.paxos.set.ids = []string{nodeID(1)}
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

// A newcomer takes nobody for alive by hearsay: gossip does not tell it of a member that is only suspected to be dead, nor of its death.
func TestNobodyIsAliveByHearsay(t *testing.T) {
	c := newClock(t)
	c.meet(9, 1, true)
	c.hear(entry{id: nodeID(5), boot: 1, phase: alive, settled: true, over: true})
	c.pass(5 * time.Minute)
	if r := c.members[nodeID(5)]; r != nil && r.phase == alive {
		t.Error("a member is alive that was never met")
	}
	c.hear(entry{id: nodeID(5), boot: 1, phase: dead, over: true, since: 4 * time.Minute})
	if r := c.members[nodeID(5)]; r == nil || r.phase != dead || !r.over || len(c.settled) != 2 {
		t.Errorf("of a member that has ended this is known: %+v, and %v settled", r, c.settled)
	}
}
