package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"proxima/ncoord"
	"proxima/node/view"
)

// standings are what node 2 may be to node 1: in its life 5, for ten seconds.
var standings = []struct {
	name string
	make func(c *clock, r *record)
}{
	{"settled", func(_ *clock, r *record) { r.settled = true }},
	{"new", func(c *clock, r *record) { r.declared, r.over, r.stamp, r.gave = false, true, 1, c.paxos.plain() }},
	{"dead", func(_ *clock, r *record) { r.phase, r.settled, r.founder = dead, true, true }},
	{"left", func(_ *clock, r *record) { r.phase, r.saidFarewell = left, true }},
	{"unseen", func(_ *clock, r *record) {
		*r = record{id: r.id, phase: dead, since: r.since, unseen: true, settled: true}
	}},
	{"unknown", func(c *clock, r *record) { delete(c.members, r.id) }},
}

// standing tells what node 2 is: the phase, the life and for how many seconds, and in words what it counts for.
func standing(c *clock) (phase string, words []string) {
	r := c.members[nodeID(2)]
	if r == nil {
		return "", nil
	}
	for _, w := range []struct {
		is   bool
		word string
	}{{r.declared, "declared"}, {r.settled, "settled"}, {r.founder, "founder"}, {r.unseen, "unseen"}, {r.bad, "bad"}, {r.over, "over"}, {r.saidFarewell, "leaving"}, {c.absent(r.id), "gave"},
		{r.placed, "placed"}, {r.trips.n > 0, "trips"}, {r.addr != "" && r.location != nil && r.way.Reach == view.Streams, "reached"}, {r.stamp == c.paxos.plain(), "stamp"},
		{r.votes(c.now), "votes"}, {c.stirred, "stirred"}} {
		if w.is {
			words = append(words, w.word)
		}
	}
	return fmt.Sprintf(" %v life %d %.0fs", r.phase, r.boot, c.now.Sub(r.since).Seconds()), words
}

// becomes checks what becomes of each standing by each of some news, the same outcomes together: what has changed, and the events.
func becomes(t *testing.T, news []string, tell func(c *clock, name string), want string) {
	t.Helper()
	var all strings.Builder
	for _, s := range standings {
		var outcomes []string
		by := map[string][]string{}
		for _, name := range news {
			c := clockOf(t, 1, nil, 1, 2, 3)
			c.seen(nodeID(2), "10.0.0.2:1", meta{boot: 5, addr: "a:1", location: &ncoord.Location{}, settled: true, placed: true, stamp: c.paxos.plain(),
				way: view.Way{Reach: view.Streams}}, nil, c.now)
			r := c.members[nodeID(2)]
			r.trips.add(time.Second)
			s.make(c, r)
			c.events, c.stirred, c.now = nil, false, c.now.Add(10*time.Second)
			was, had := standing(c)
			tell(c, name)
			is, has := standing(c)
			outcome := ""
			if is != was {
				outcome = is
			}
			for _, w := range had {
				if !slices.Contains(has, w) {
					outcome += " -" + w
				}
			}
			for _, w := range has {
				if !slices.Contains(had, w) {
					outcome += " +" + w
				}
			}
			for _, e := range slices.DeleteFunc(c.events, func(e Event) bool { return e.Kind == EventReach }) {
				outcome += " " + strings.TrimSuffix(e.Kind+": "+e.Reason, ": ")
			}
			if by[outcome] == nil {
				outcomes = append(outcomes, outcome)
			}
			by[outcome] = append(by[outcome], name)
		}
		for _, o := range outcomes {
			fmt.Fprintf(&all, "%s, by %s:%s\n", s.name, strings.Join(by[o], ", "), o)
		}
	}
	if d := cmp.Diff(strings.TrimPrefix(want, "\n"), all.String()); d != "" {
		t.Errorf("%s\n%s", d, all.String())
	}
}

// What a member publishes counts by its life and by what was known of it: who said farewell comes back in another life only, and what
// cannot be read changes nothing but that.
func TestNewsOfAMember(t *testing.T) {
	becomes(t, []string{"life 4", "life 5", "life 6", "new", "over", "over and other voters", "garbage", "silence"}, func(c *clock, name string) {
		m, err := meta{boot: 5, addr: "a:1", location: &ncoord.Location{}, settled: true, stamp: c.paxos.plain(), way: view.Way{Reach: view.Streams}}, error(nil)
		switch name {
		case "life 4":
			m.boot = 4
		case "life 6":
			m.boot = 6
		case "new":
			m.settled = false
		case "over":
			m.over = true
		case "over and other voters":
			m.over, m.stamp = true, 1
		case "garbage":
			m, err = meta{}, errors.New("garbage")
		case "silence":
			c.lost(nodeID(2), c.now)
			return
		}
		c.seen(nodeID(2), "10.0.0.2:1", m, err, c.now)
	}, `
settled, by life 4:
settled, by life 5: +votes
settled, by life 6: alive life 6 0s -placed +votes +stirred rejoin: restarted
settled, by new: -declared +votes
settled, by over: +over +gave +votes
settled, by over and other voters: -stamp +over
settled, by garbage: +bad +votes bad_meta: garbage
settled, by silence: dead life 5 0s -placed -trips +stirred death
new, by life 4:
new, by life 5, over: +declared +stamp +votes
new, by life 6: alive life 6 0s -over -placed +declared +stamp +votes +stirred rejoin: restarted
new, by new: +stamp +votes
new, by over and other voters: +declared
new, by garbage: +bad bad_meta: garbage
new, by silence: dead life 5 0s -placed -trips +stirred death: the crawl is over
dead, by life 4: alive life 4 0s -placed +votes +stirred rejoin: answers again
dead, by life 5: alive life 5 0s +votes +stirred rejoin: answers again
dead, by life 6: alive life 6 0s -placed +votes +stirred rejoin: answers again
dead, by new: alive life 5 0s -declared +votes +stirred rejoin: answers again
dead, by over: alive life 5 0s +over +gave +votes +stirred rejoin: answers again
dead, by over and other voters: alive life 5 0s -stamp +over +stirred rejoin: answers again
dead, by garbage: alive life 5 0s +bad +votes +stirred bad_meta: garbage rejoin: answers again
dead, by silence:
left, by life 4, life 5, new, over, over and other voters:
left, by life 6: alive life 6 0s -leaving -placed +votes +stirred join
left, by garbage: +bad bad_meta: garbage
left, by silence: -leaving
unseen, by life 4: alive life 4 0s -unseen +declared +reached +stamp +votes +stirred join
unseen, by life 5: alive life 5 0s -unseen +declared +reached +stamp +votes +stirred join
unseen, by life 6: alive life 6 0s -unseen +declared +reached +stamp +votes +stirred join
unseen, by new: alive life 5 0s -unseen +reached +stamp +votes +stirred join
unseen, by over: alive life 5 0s -unseen +declared +over +gave +reached +stamp +votes +stirred join
unseen, by over and other voters: alive life 5 0s -unseen +declared +over +reached +stirred join
unseen, by garbage: alive life 0 0s -unseen +bad +stirred bad_meta: garbage join
unseen, by silence:
unknown, by life 4: alive life 4 0s +declared +reached +stamp +votes +stirred join
unknown, by life 5: alive life 5 0s +declared +reached +stamp +votes +stirred join
unknown, by life 6: alive life 6 0s +declared +reached +stamp +votes +stirred join
unknown, by new: alive life 5 0s +reached +stamp +votes +stirred join
unknown, by over: alive life 5 0s +declared +over +gave +reached +stamp +votes +stirred join
unknown, by over and other voters: alive life 5 0s +declared +over +reached +stirred join
unknown, by garbage: alive life 0 0s +bad +stirred bad_meta: garbage join
unknown, by silence:
`)
}

// What others say of a member counts where it can know better: of its end, and of those that this node has not seen itself.
func TestHearsayOfAMember(t *testing.T) {
	becomes(t, []string{"alive", "life 4", "life 6", "dead", "long dead", "left", "long left", "left in life 4", "over", "over in life 4", "gave", "gave earlier"}, func(c *clock, name string) {
		e := entry{id: nodeID(2), boot: 5, settled: !strings.Contains(name, "left"), since: 20 * time.Second, over: strings.Contains(name, "over"),
			gave: strings.Contains(name, "gave")}
		set := voters{c.paxos.set.origin, c.paxos.set.version, nil}
		switch name {
		case "life 4", "left in life 4", "over in life 4":
			e.boot = 4
		case "life 6":
			e.boot = 6
		case "dead":
			e.phase = dead
		case "long dead":
			e.phase, e.since = dead, c.cfg.ForgetAfter
		case "long left":
			e.since = c.cfg.MajorityWindow
		case "gave earlier":
			set.version--
		}
		if strings.Contains(name, "left") {
			e.phase = left
		}
		c.merge(state{sender: nodeID(9), set: set, members: []entry{e}}, c.now)
	}, `
settled, by alive, life 4, life 6, dead, long dead, left, long left, left in life 4, over in life 4, gave earlier:
settled, by over: +over
settled, by gave: +gave
new, by alive, life 4, dead, over, over in life 4, gave, gave earlier: +settled
new, by life 6, long dead, left, long left, left in life 4:
dead, by alive, life 4, life 6, dead, long dead, left in life 4, over in life 4, gave earlier:
dead, by left, long left: left life 5 0s -declared -settled -founder -placed -trips +stirred leave
dead, by over: +over
dead, by gave: +gave
left, by alive, life 4, life 6, dead, long dead, left, long left, left in life 4, over in life 4, gave earlier:
left, by over: +over
left, by gave: +gave
unseen, by alive, life 4, life 6, gave earlier:
unseen, by dead: dead life 0 20s
unseen, by long dead: dead life 0 60s
unseen, by left, long left, left in life 4: left life 0 0s -settled +stirred leave
unseen, by over, over in life 4: +over
unseen, by gave: +gave
unknown, by alive, life 4, life 6, long dead, long left, gave, gave earlier:
unknown, by dead: dead life 5 20s +settled +unseen
unknown, by left: left life 5 20s +unseen
unknown, by left in life 4: left life 4 20s +unseen
unknown, by over: dead life 5 0s +settled +unseen +over
unknown, by over in life 4: dead life 4 0s +settled +unseen +over
`)
}

// A newcomer hears of who counts or votes though it does not answer, who has left, and who has found the crawl to be over.
func TestWhatANewcomerHears(t *testing.T) {
	c := clockOf(t, 1, []int{2, 3, 4, 5, 6, 9}, 1, 2, 5, 7)
	c.pass(time.Minute)
	c.lost(nodeID(2), c.now)
	c.lost(nodeID(3), c.now)
	c.members[nodeID(4)].declared, c.members[nodeID(4)].settled, c.members[nodeID(6)].settled = false, false, false
	c.lost(nodeID(4), c.now)
	c.read(message{kind: messageOver, from: nodeID(6), ballot: ballot{1, nodeID(6)}}, c.now)
	c.read(message{kind: messageLeave, from: nodeID(5), set: c.paxos.set, ballot: ballot{1, nodeID(5)}, renounced: true}, c.now)
	c.read(message{kind: messageLeave, from: nodeID(9), ballot: ballot{1, nodeID(9)}}, c.now)
	c.now = c.now.Add(9 * time.Second)
	s, err := decode[state](encode(nil, c.state(1, c.now)), "state")
	must(t, err)
	n := newTable(Default(), nodeID(8), 1, true, c.now)
	n.merge(s, c.now)
	heard := ""
	for _, id := range slices.Sorted(maps.Keys(n.members)) {
		r := n.members[id]
		heard += fmt.Sprintf("%s %v for %v, settled %v, over %v, gave %v\n", id[7:8], r.phase, c.now.Sub(r.since), r.settled, r.over, n.absent(id))
	}
	if want := `1 dead for 0s, settled false, over false, gave false
2 dead for 9s, settled true, over false, gave false
3 dead for 9s, settled true, over false, gave false
5 left for 0s, settled false, over false, gave true
6 dead for 0s, settled false, over true, gave false
7 dead for 1m9s, settled false, over false, gave false
8 alive for 0s, settled false, over false, gave false
9 left for 9s, settled false, over false, gave false
`; heard != want {
		t.Errorf("it hears:\n%s", heard)
	}
}

// Of a member's places the newer one counts, by a count that begins anew with each life.
func TestPlaceOfALife(t *testing.T) {
	c := newClock(t)
	for _, said := range []struct{ boot, rev, believed uint64 }{{7, 9, 9}, {7, 8, 9}, {8, 1, 1}} {
		c.seen(nodeID(2), "10.0.0.2:1", meta{boot: said.boot, addr: "a:1", placed: true, place: place{rev: said.rev}}, nil, c.now)
		if got := c.members[nodeID(2)].place.rev; got != said.believed {
			t.Errorf("place %d of life %d: place %d is believed", said.rev, said.boot, got)
		}
	}
}
