package member

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A node that nobody answers is in a minority before it has found anybody dead, and in none as soon as they answer again.
func TestMajorityIsHeard(t *testing.T) {
	c := newClock(t)
	for i := 2; i <= 9; i++ {
		c.meet(i, 1, true)
	}
	c.vote(1, 2, 3, 4, 5, 6, 7, 8, 9)
	c.pass(time.Minute)
	if !c.majority {
		t.Fatal("no majority while all answer")
	}
	c.deaf, c.events = true, nil
	c.pass(c.cfg.HearWithin + time.Second)
	if c.majority {
		t.Error("the majority although nobody answers")
	}
	if len(c.events) == 0 || !strings.Contains(c.events[0].Reason, "waiting for 8 of 9 nodes") {
		t.Errorf("told: %+v", c.events)
	}
	if text := c.waiting(c.now); !strings.Contains(text, "waiting for 8 of 9 nodes") || !strings.Contains(text, "last seen 21s ago") {
		t.Error(text)
	}
	if n := len(c.quiet(c.now)); n != 4 {
		t.Errorf("%d voters are asked, where 4 more make a majority", n)
	}
	for _, r := range c.quiet(c.now.Add(time.Second)) { // those that were not asked before
		c.answered(r.id, c.now)
	}
	for i := 2; i <= 5; i++ {
		if c.hears(c.members[nodeID(i)], time.Second, c.now) {
			t.Errorf("%d is asked again before others were asked", i)
		}
	}
	c.update(c.now)
	if !c.majority {
		t.Error("no majority although four of eight others answer")
	}
	if n := len(c.quiet(c.now)); n != 0 {
		t.Errorf("%d voters are asked, although a majority has answered", n)
	}
}

// Who becomes a voter soon is asked before it is one: a new set of voters makes nobody a minority.
func TestNextVotersAreAsked(t *testing.T) {
	var most []int
	for i := range maxQuestions {
		most = append(most, 2+i)
	}
	for i, k := range []struct {
		all, heard, bad int // the members from 1 on that are heard, and one that is not understood
		voters, asked   []int
	}{{9, 1, 0, []int{1}, []int{2, 3, 4, 5}}, {9, 1, 3, []int{1}, []int{2, 4, 5, 6}}, {9, 2, 0, []int{1, 2, 3}, []int{3, 4, 5}},
		{9, 6, 0, []int{1, 7, 8, 9}, []int{7, 8}}, {9, 6, 0, []int{1, 2, 9}, nil}, {200, 1, 0, []int{1}, most}} {
		c := newClock(t)
		for i := 2; i <= k.all; i++ {
			if c.meet(i, 1, true); i > k.heard {
				c.members[nodeID(i)].heard = c.now.Add(-c.cfg.HearWithin / 2)
			}
			c.members[nodeID(i)].bad = i == k.bad
		}
		c.vote(k.voters...)
		var asked []int
		for _, r := range c.quiet(c.now) {
			asked = append(asked, numbers([]string{r.id})...)
		}
		if !slices.Equal(asked, k.asked) {
			t.Errorf("case %d: %v are asked, not %v", i, asked, k.asked)
		}
	}
}

// What was asked before this node stood still says nothing of now, whenever the answer comes.
func TestAnswersToWhatWasAskedBeforeAStop(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	table := newTable(Default(), nodeID(0), 1, true, now)
	table.seen(nodeID(1), "10.0.0.1:1", meta{boot: 1, addr: "10.0.0.1:2"}, nil, now)
	table.forget(now.Add(time.Second))
	r := table.members[nodeID(1)]
	if table.answered(nodeID(1), now); !r.heard.IsZero() {
		t.Error("an answer to what was asked before the stop counts")
	}
	if table.answered(nodeID(1), now.Add(2*time.Second)); r.heard.IsZero() {
		t.Error("an answer to what was asked after it does not")
	}
	if table.answered(nodeID(1), now.Add(time.Second)); !r.heard.Equal(now.Add(2 * time.Second)) {
		t.Error("a late answer makes an earlier one of a later one")
	}
}

// A frozen node finds streams of others when it runs again, which they made long ago. These say nothing of now.
func TestStateThatWaitedIsNoAnswer(t *testing.T) {
	c := newClock(t)
	c.meet(2, 1, true)
	c.meet(9, 1, true)
	c.vote(1, 2, 9)
	c.pass(time.Minute)
	c.now = c.now.Add(2 * time.Minute)
	c.forget(c.now)
	c.hear()
	if c.majority {
		t.Error("the majority by the state of a member that had waited to be read")
	}
	c.now = c.now.Add(c.cfg.HearWithin)
	if c.hear(); !c.majority {
		t.Error("no majority by a state that was sent later")
	}
}

// How long a node has stood still does not count as time without a majority: its peers may have been there all along.
func TestStandingStillIsNoMinority(t *testing.T) {
	for name, deaf := range map[string]bool{"in a majority": false, "in a minority": true} {
		t.Run(name, func(t *testing.T) {
			c := newClock(t)
			c.cfg.GoAloneAfter = 15 * time.Minute
			c.meet(2, 1, true)
			c.meet(3, 1, true)
			c.vote(1, 2, 3)
			c.pass(time.Minute)
			c.deaf = deaf
			c.pass(5 * time.Minute)
			c.now = c.now.Add(time.Hour)
			c.update(c.now)
			if c.aloneByItself(c.now) {
				t.Error("it goes on alone as soon as it runs again")
			}
		})
	}
}
