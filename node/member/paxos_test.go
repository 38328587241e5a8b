package member

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// A ballot's number is above all that this node has seen, promised, accepted and begun.
func TestBallotsGoUp(t *testing.T) {
	for name, c := range map[string]paxos{
		"seen":     {round: round{seen: 8}},
		"promised": {kept: kept{promised: ballot{number: 8}}},
		"accepted": {kept: kept{accepted: proposal{ballot: ballot{number: 8}}}},
		"begun":    {round: round{ballot: ballot{number: 8}}},
	} {
		c.self = nodeID(1)
		c.begin(nil, time.Time{})
		if c.round.ballot != (ballot{9, nodeID(1)}) || c.round.seen != 9 {
			t.Errorf("after number 8 was %s it begins %+v", name, c.round)
		}
	}
	c := paxos{self: nodeID(1)}
	c.found(time.Unix(1_000_000, 0), nodeID(1), nodeID(2))
	c.read(message{kind: messageRefuse, from: nodeID(2), set: c.set, ballot: ballot{8, nodeID(3)}}, nil)
	if c.begin(nil, time.Time{}); c.round.ballot.number != 9 {
		t.Errorf("refused for number 8 it begins %+v", c.round)
	}
}

// An acceptance counts only if the promise of its voter was read before.
func TestAcceptanceWithoutAPromise(t *testing.T) {
	now, none := time.Unix(1_000_000, 0), func(string) bool { return false }
	c := &paxos{self: nodeID(1)}
	c.found(now, nodeID(1), nodeID(2), nodeID(3))
	c.read(message{kind: messagePromise, from: nodeID(2), set: c.set}, none) // of no ballot
	c.begin([]string{nodeID(1), nodeID(2)}, now)
	before := c.set
	for i, step := range []struct {
		kind, from int
		decided    bool
	}{{messagePromise, 1, false}, {messagePromise, 2, false}, {messagePromise, 1, false}, {messagePromise, 2, false}, {messageAccepted, 3, false}, {messageAccepted, 1, false}, {messageAccepted, 2, true}} {
		_, changed := c.read(message{kind: step.kind, from: nodeID(step.from), set: before, ballot: c.round.ballot}, none)
		if changed != step.decided {
			t.Errorf("step %d: it is decided: %v", i, changed)
		}
	}
}

// A voter whose promise comes late is asked to accept as well: a majority is decided though one that was asked first does not answer.
func TestLatePromiseCounts(t *testing.T) {
	now, none := time.Unix(1_000_000, 0), func(string) bool { return false }
	c := &paxos{self: nodeID(1)}
	c.found(now, nodeID(1), nodeID(2), nodeID(3), nodeID(4), nodeID(5))
	c.begin([]string{nodeID(1), nodeID(2)}, now)
	before := c.set
	for i, step := range []struct {
		kind, from int
		asks       int
		decided    bool
	}{{messagePromise, 1, 0, false}, {messagePromise, 2, 0, false}, {messagePromise, 3, 3, false}, {messagePromise, 4, 1, false}, {messagePromise, 4, 0, false},
		{messageAccepted, 1, 0, false}, {messageAccepted, 5, 0, false}, {messageAccepted, 2, 0, false}, {messageAccepted, 4, 0, true}} {
		out, decided := c.read(message{kind: step.kind, from: nodeID(step.from), set: before, ballot: c.round.ballot}, none)
		if len(out) != step.asks || decided != step.decided {
			t.Errorf("step %d: it asks %d voters, and it is decided: %v", i, len(out), decided)
		}
	}
}

// A voter that gave up its vote says so in its answer, and is not counted among the voters until the next decision.
func TestAnswersWithoutAVote(t *testing.T) {
	now, none := time.Unix(1_000_000, 0), func(string) bool { return false }
	c := &paxos{self: nodeID(1)}
	c.found(now, nodeID(1), nodeID(2), nodeID(3))
	c.begin([]string{nodeID(1), nodeID(3)}, now)
	before := c.set
	for i, step := range []struct {
		kind, from int
		renounced  bool
		asks       int
		decided    bool
	}{{messagePromise, 1, false, 0, false}, {messagePromise, 3, true, 2, false}, {messageAccepted, 1, false, 0, false}, {messageAccepted, 3, true, 0, true}} {
		out, decided := c.read(message{kind: step.kind, from: nodeID(step.from), set: before, ballot: c.round.ballot, renounced: step.renounced}, none)
		if len(out) != step.asks || decided != step.decided {
			t.Errorf("step %d: it asks %d voters, and it is decided: %v", i, len(out), decided)
		}
	}
}

// Who gave up its vote and left counts for nothing. Who gave it up and is back counts only where all voters are there.
func TestWhoIsTheMajority(t *testing.T) {
	for states, want := range map[string]bool{ // of each voter: is it here, gone, back without its vote, or has it left?
		"": false, "h": true, "g": false, "hhg": true, "hgg": false, "hg": true, "gh": false, "hggh": true, "ghhg": false,
		"hb": true, "bh": true, "bb": true, "bbg": false, "bhg": false, "hbg": false, "hhb": true,
		"l": false, "hl": true, "bl": false, "lgh": false, "lhg": true, "hbl": true, "bhl": false, "ggl": false,
	} {
		c := &paxos{self: nodeID(1)}
		there, gave := map[string]bool{}, map[string]bool{}
		for i, state := range states {
			id := nodeID(i)
			c.set.ids = append(c.set.ids, id)
			if state == 'h' || state == 'b' {
				there[id] = state == 'b'
			}
			gave[id] = state == 'l'
		}
		if got := c.majority(there, func(id string) bool { return gave[id] }); got != want {
			t.Errorf("%q are the majority: %v", states, got)
		}
	}
}

// Forced voters begin a line of their own, and take precedence over those before.
func TestForcedVoters(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := &paxos{self: nodeID(1)}
	for i, want := range []origin{{now.UnixMilli(), 0, nodeID(1)}, {now.UnixMilli(), 1, nodeID(1)}, {now.UnixMilli(), 2, nodeID(1)}} {
		before := c.set
		if c.force(now.Add(time.Duration(i)*time.Hour), []string{nodeID(1)}); c.set.origin != want || c.set.version != uint64(i+1) || c.set.compare(before) <= 0 {
			t.Errorf("forced %d times: %+v", i, c.set)
		}
	}
}

// Of two sets of voters that of the older overlay takes precedence, then of the line that was forced more often, then the later one.
func TestWhichVotersTakePrecedence(t *testing.T) {
	sets := []voters{ // each takes precedence over those before
		{}, {origin: origin{2, 0, "a"}, version: 9}, {origin: origin{2, 5, "a"}, version: 1}, {origin: origin{1, 0, "b"}, version: 1},
		{origin: origin{1, 0, "a"}, version: 1}, {origin: origin{1, 0, "a"}, version: 2}, {origin: origin{1, 1, "b"}, version: 1},
	}
	for i, v := range sets {
		for j, w := range sets {
			if got := v.compare(w); got != cmp.Compare(i, j) {
				t.Errorf("of %+v and %+v: %d", v, w, got)
			}
		}
	}
}

// Of the sets that voters have accepted before, a ballot proposes that of the latest ballot, in whatever order it hears of them.
func TestBallotProposesWhatMayBeDecided(t *testing.T) {
	now, none := time.Unix(1_000_000, 0), func(string) bool { return false }
	accepted := map[int]proposal{2: {ballot{5, nodeID(2)}, []string{nodeID(2)}}, 3: {ballot{4, nodeID(3)}, []string{nodeID(3)}}} // 1 has accepted none
	for _, order := range [][]int{{1, 2, 3}, {2, 3, 1}, {3, 2, 1}} {
		c := &paxos{self: nodeID(1)}
		c.found(now, nodeID(1), nodeID(2), nodeID(3), nodeID(4), nodeID(5))
		c.begin([]string{nodeID(1)}, now)
		var asks []outgoing
		for _, from := range order {
			asks, _ = c.read(message{kind: messagePromise, from: nodeID(from), set: c.set, ballot: c.round.ballot, accepted: accepted[from]}, none)
		}
		if len(asks) != 3 || asks[0].kind != messageAccept || !slices.Equal(asks[0].accepted.ids, []string{nodeID(2)}) {
			t.Errorf("after %v promised: %+v", order, asks)
		}
	}
}

// A new set of voters ends all that was about the one before. A node that leaves takes none, nor does anybody an older or an empty one.
func TestAdoptedVotersBeginAnew(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	next := voters{origin{now.UnixMilli(), 0, nodeID(1)}, 2, []string{nodeID(1)}}
	for name, k := range map[string]struct {
		change  func(c *paxos, v *voters)
		adopted bool
	}{
		"the next":      {func(*paxos, *voters) {}, true},
		"the same":      {func(_ *paxos, v *voters) { v.version = 1 }, false},
		"without ids":   {func(_ *paxos, v *voters) { v.ids = nil }, false},
		"while leaving": {func(c *paxos, _ *voters) { c.quit = true }, false},
	} {
		c, v := paxos{self: nodeID(1)}, next
		c.found(now, nodeID(1), nodeID(2))
		c.begin([]string{nodeID(1)}, now)
		c.promised, c.accepted, c.renounced, c.dirty = ballot{3, nodeID(2)}, proposal{ballot{3, nodeID(2)}, []string{nodeID(2)}}, true, false
		before := c.stamp()
		k.change(&c, &v)
		is := c.adopt(v)
		anew := c.promised == ballot{} && c.accepted.ids == nil && !c.renounced && c.round.until.IsZero() && c.dirty && c.stamp() == v.stamp()
		if is != k.adopted || is != anew || is == (c.stamp() == before) {
			t.Errorf("%s: adopted %v: %+v", name, is, c)
		}
	}
}

// What a voter answers: it promises again what it has promised, and answers nothing where it has no vote, or to what cannot be meant.
func TestAnswersOfAVoter(t *testing.T) {
	const none = -1
	at := ballot{3, nodeID(2)}
	for name, k := range map[string]struct {
		change func(c *paxos, msg *message)
		answer int
	}{
		"the same ballot again":   {func(*paxos, *message) {}, messagePromise},
		"a later ballot":          {func(_ *paxos, msg *message) { msg.ballot.number++ }, messagePromise},
		"an earlier ballot":       {func(_ *paxos, msg *message) { msg.ballot.number-- }, messageRefuse},
		"a set":                   {func(_ *paxos, msg *message) { msg.kind = messageAccept }, messageAccepted},
		"a set in a later ballot": {func(_ *paxos, msg *message) { msg.kind = messageAccept; msg.ballot.number++ }, messageRefuse},
		"no set":                  {func(_ *paxos, msg *message) { msg.kind, msg.accepted.ids = messageAccept, nil }, messageRefuse},
		"another's ballot":        {func(_ *paxos, msg *message) { msg.ballot.by = nodeID(3) }, none},
		"no ballot":               {func(c *paxos, msg *message) { c.promised, msg.ballot.number = ballot{}, 0 }, none},
		"who leaves":              {func(c *paxos, _ *message) { c.quit = true }, none},
		"who is no voter":         {func(c *paxos, _ *message) { c.self = nodeID(4) }, none},
		"one who is no voter":     {func(_ *paxos, msg *message) { msg.from, msg.ballot.by = nodeID(4), nodeID(4) }, none},
		"who has an earlier set":  {func(_ *paxos, msg *message) { msg.set.version++ }, messageDecided},
	} {
		c := &paxos{self: nodeID(1)}
		c.found(time.Unix(1_000_000, 0), nodeID(1), nodeID(2), nodeID(3))
		c.promised, c.dirty = at, false
		msg := message{kind: messagePrepare, from: nodeID(2), set: c.set, ballot: at, accepted: proposal{at, []string{nodeID(2)}}}
		k.change(c, &msg)
		out, _ := c.read(msg, func(string) bool { return false })
		answer := none
		if len(out) == 1 {
			answer = out[0].kind
		}
		if agrees := answer == messagePromise || answer == messageAccepted; answer != k.answer || c.dirty != agrees || agrees && c.promised != msg.ballot {
			t.Errorf("%s: the answer is %d, not %d; %+v", name, answer, k.answer, c)
		}
	}
}
