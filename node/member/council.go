package member

import (
	"slices"
	"time"
)

// council decides whose votes count, step by step. It is a function of what it is told: no clock, no network, no locks.
//
// A set of voters is followed by the next only if a majority of it accepted that one. Two sides of a partition would
// otherwise each drop the other's voters and both be the majority. Each step is one decision of Paxos: a voter promises
// a ballot (prepare, promise), accepts a set in it (accept, accepted), and the one that a majority accepted is decided;
// who begins a later ballot hears of what may have been decided and proposes that. A set is accepted only in the ballot
// that was promised last, and only by those whose promise the proposer has read. Promises and acceptances are on disk
// before they are told.
//
// A voter that leaves in order gives its vote in the present set up: the majority is that of the others (absent). It
// promises and accepts nothing from then on, and if it comes back before the next set, its vote counts only where all
// voters are there (renounced).
type council struct {
	self string
	set  voters
	// promised and accepted are for the set after this one.
	promised  ballot
	accepted  proposal
	renounced bool // this node gave its vote in the set up
	quit      bool // it leaves

	round round
	mark  uint64 // plain, once it was asked for
	dirty bool   // something must be stored before letters go out
}

// round is this node's own ballot.
type round struct {
	ballot    ballot
	until     time.Time // when it has failed; zero is none
	accepting bool
	value     proposal
	highest   ballot // of what was accepted before
	// asked are the voters whose promise was read, answers those that agreed to the present step; whether they gave
	// their vote up.
	asked, answers map[string]bool
	seen           uint64 // the highest number of a ballot that was heard of
}

// ballotFor is how long a ballot may take.
const ballotFor = 3 * time.Second

// post is a letter and whom it is for.
type post struct {
	to string
	letter
}

// plain is the stamp of who holds this node's set, and has neither accepted the next one nor given its vote up.
func (c *council) plain() uint64 {
	if c.mark == 0 {
		c.mark = c.set.stamp()
	}
	return c.mark
}

func (c *council) stamp() uint64 { return marked(c.plain(), c.accepted, c.renounced) }

// adopt takes a set over that is decided, if it is later than what is known.
func (c *council) adopt(v voters) bool {
	if c.quit || v.version == 0 || len(v.ids) == 0 || v.compare(c.set) <= 0 {
		return false
	}
	c.set = voters{v.origin, v.version, slices.Clone(v.ids)}
	c.promised, c.accepted, c.renounced = ballot{}, proposal{}, false
	c.round, c.mark = round{}, 0
	c.dirty = true
	return true
}

// found begins a line.
func (c *council) found(now time.Time, ids ...string) {
	c.adopt(voters{origin{founded: max(now.UnixMilli(), 1), by: c.self}, 1, ids})
}

// force begins a line that takes precedence over the present one.
func (c *council) force(now time.Time, ids []string) {
	if c.set.version == 0 {
		c.found(now, ids...)
		return
	}
	c.adopt(voters{origin{c.set.origin.founded, c.set.origin.forced + 1, c.self}, c.set.version + 1, ids})
}

// majority says whether some voters are the majority of the set. there tells whether each of them gave its vote up;
// absent says who gave it up and has left. Of two halves it is that of the lowest id.
func (c *council) majority(there map[string]bool, absent func(id string) bool) bool {
	all, count, present, lowest := len(c.set.ids) > 0, 0, 0, false
	for _, id := range c.set.ids {
		renounced, here := there[id]
		all = all && here
		if absent(id) {
			continue
		}
		count++
		if here && !renounced {
			present++
			lowest = lowest || count == 1
		}
	}
	return all || 2*present > count || 2*present == count && lowest
}

// begin opens a ballot for a set.
func (c *council) begin(ids []string, now time.Time) (out []post) {
	number := max(c.round.seen, c.promised.number, c.accepted.ballot.number, c.round.ballot.number) + 1
	c.round = round{ballot: ballot{number, c.self}, until: now.Add(ballotFor), value: proposal{ids: slices.Clone(ids)},
		asked: map[string]bool{}, answers: map[string]bool{}, seen: number}
	for _, id := range c.set.ids {
		out = append(out, c.write(id, letter{kind: letterPrepare, ballot: c.round.ballot}))
	}
	return out
}

// running says whether a ballot of this node is under way.
func (c *council) running(now time.Time) bool { return now.Before(c.round.until) }

func (c *council) write(to string, l letter) post {
	l.from, l.set = c.self, c.set
	return post{to, l}
}

// decided tells somebody the latest set.
func (c *council) decided(to string) post { return c.write(to, letter{kind: letterDecided}) }

// read takes a letter and gives what is to be sent; changed says that a set was adopted.
func (c *council) read(l letter, absent func(id string) bool) (out []post, changed bool) {
	switch order := l.set.compare(c.set); {
	case order > 0 && l.kind == letterDecided:
		return nil, c.adopt(l.set)
	case order != 0:
		// To who is behind it is news; who is ahead answers with what it has.
		return []post{c.decided(l.from)}, false
	case l.kind == letterDecided || !c.set.has(l.from):
		return nil, false
	}
	c.round.seen = max(c.round.seen, l.ballot.number)
	switch l.kind {
	case letterPrepare, letterAccept:
		return c.answer(l), false
	case letterPromise, letterAccepted:
		return c.counted(l, absent)
	}
	return nil, false
}

// answer is that of a voter.
func (c *council) answer(l letter) []post {
	if !c.set.has(c.self) || c.quit || l.ballot.by != l.from || l.ballot.number == 0 {
		return nil
	}
	switch order := l.ballot.compare(c.promised); {
	case l.kind == letterPrepare && order >= 0:
		c.promised, c.dirty = l.ballot, true
		return []post{c.write(l.from, letter{kind: letterPromise, ballot: l.ballot, accepted: c.accepted, renounced: c.renounced})}
	case l.kind == letterAccept && order == 0 && len(l.accepted.ids) > 0:
		c.accepted, c.dirty = proposal{l.ballot, l.accepted.ids}, true
		return []post{c.write(l.from, letter{kind: letterAccepted, ballot: l.ballot, renounced: c.renounced})}
	}
	return []post{c.write(l.from, letter{kind: letterRefuse, ballot: c.promised})}
}

// counted counts an answer to this node's ballot.
func (c *council) counted(l letter, absent func(id string) bool) (out []post, changed bool) {
	r := &c.round
	if l.ballot != r.ballot || r.until.IsZero() || r.accepting != (l.kind == letterAccepted) {
		return nil, false
	}
	if r.accepting {
		if _, asked := r.asked[l.from]; !asked {
			return nil, false
		}
	} else if l.accepted.ids != nil && l.accepted.ballot.compare(r.highest) > 0 {
		r.highest, r.value.ids = l.accepted.ballot, l.accepted.ids
	}
	r.answers[l.from] = l.renounced
	// Who gave its vote up says so in its answer, with what it accepted before: it is no voter until the next decision.
	if !c.majority(r.answers, func(id string) bool { return absent(id) || r.answers[id] }) {
		return nil, false
	}
	if r.accepting {
		return nil, c.adopt(voters{c.set.origin, c.set.version + 1, r.value.ids})
	}
	r.asked, r.answers, r.accepting = r.answers, map[string]bool{}, true
	for _, id := range c.set.ids {
		if _, ok := r.asked[id]; ok {
			out = append(out, c.write(id, letter{kind: letterAccept, ballot: r.ballot, accepted: proposal{r.ballot, r.value.ids}}))
		}
	}
	return out, false
}
