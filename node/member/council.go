package member

import (
	"slices"
	"time"
)

// council decides, step by step, whose votes count. It is a pure function of its inputs: no clock, no network, no
// locks.
//
// A set of voters is followed by the next only if a majority of it accepts that one. Otherwise the two sides of a
// partition would each drop the other's voters, and both would be the majority. Each step is one decision of Paxos. A
// voter promises a ballot (prepare, promise), then accepts a set in it (accept, accepted); once a majority has accepted
// a set, it is decided. A node that opens a later ballot learns what may have been decided, and proposes that. A voter
// accepts a set only in the ballot that it promised last, and only if the proposer has read its promise. Promises and
// acceptances are on disk before they are sent.
//
// A voter that leaves in order gives up its vote in the present set: the majority is then counted among the others
// (absent). From then on it promises and accepts nothing. If it comes back before the next set, its vote counts only
// where all voters are present (renounced).
type council struct {
	self string
	set  voters
	// promised and accepted are about the set after this one.
	promised  ballot
	accepted  proposal
	renounced bool // this node gave up its vote in the set
	quit      bool // this node is leaving

	round round
	mark  uint64 // cached result of plain, 0 if not computed
	dirty bool   // something must be stored before letters are sent
}

// round is this node's own ballot.
type round struct {
	ballot    ballot
	until     time.Time // when it counts as failed; zero if there is no ballot
	accepting bool
	value     proposal
	highest   ballot // of the set accepted before
	// asked are the voters whose promise was read; answers are those that agreed to the present step. The value says
	// whether they gave up their vote.
	asked, answers map[string]bool
	seen           uint64 // the highest ballot number seen
}

// ballotFor is how long a ballot may take.
const ballotFor = 3 * time.Second

// post is a letter with its addressee.
type post struct {
	to string
	letter
}

// plain is the stamp of a node that has this set, and has neither accepted the next one nor given up its vote.
func (c *council) plain() uint64 {
	if c.mark == 0 {
		c.mark = c.set.stamp()
	}
	return c.mark
}

func (c *council) stamp() uint64 { return marked(c.plain(), c.accepted, c.renounced) }

// adopt installs a decided set if it is later than the present one.
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

// found starts a line of sets.
func (c *council) found(now time.Time, ids ...string) {
	c.adopt(voters{origin{founded: max(now.UnixMilli(), 1), by: c.self}, 1, ids})
}

// force starts a line that takes precedence over the present one.
func (c *council) force(now time.Time, ids []string) {
	if c.set.version == 0 {
		c.found(now, ids...)
		return
	}
	c.adopt(voters{origin{c.set.origin.founded, c.set.origin.forced + 1, c.self}, c.set.version + 1, ids})
}

// majority reports whether the voters in there are the majority of the set. The values of there say which of them gave
// up their vote; absent reports who gave up its vote and left. Of two halves, the one with the lowest id is the
// majority.
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

// running reports whether a ballot of this node is in progress.
func (c *council) running(now time.Time) bool { return now.Before(c.round.until) }

func (c *council) write(to string, l letter) post {
	l.from, l.set = c.self, c.set
	return post{to, l}
}

// decided tells a node the latest set.
func (c *council) decided(to string) post { return c.write(to, letter{kind: letterDecided}) }

// read handles a letter and returns what to send. changed reports whether a set was adopted.
func (c *council) read(l letter, absent func(id string) bool) (out []post, changed bool) {
	switch order := l.set.compare(c.set); {
	case order > 0 && l.kind == letterDecided:
		return nil, c.adopt(l.set)
	case order != 0:
		// A node that is behind learns from it, and one that is ahead answers with its set.
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

// answer handles a request to a voter.
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

// counted handles an answer to this node's ballot.
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
	// A voter that gave up its vote says so in its answer, along with what it accepted before. It does not count until
	// the next decision.
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
