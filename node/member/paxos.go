package member

import (
	"slices"
	"time"

	"proxima/frontier/coder"
)

// paxos decides, step by step, whose votes count. It is a pure function of its inputs: no clock, no network, no
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
type paxos struct {
	self string
	kept
	quit bool // this node is leaving

	round round
	mark  uint64 // cached result of plain, 0 if not computed
	dirty bool   // something must be stored before messages are sent
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

// outgoing is a message with its addressee.
type outgoing struct {
	to string
	message
}

// plain is the stamp of a node that has this set, and has neither accepted the next one nor given up its vote.
func (c *paxos) plain() uint64 {
	if c.mark == 0 {
		c.mark = c.set.stamp()
	}
	return c.mark
}

// stamp is what this node publishes of its voters, for others to compare.
func (c *paxos) stamp() uint64 { return marked(c.plain(), c.accepted, c.renounced) }

// adopt installs a decided set if it is later than the present one.
func (c *paxos) adopt(v voters) bool {
	if c.quit || v.version == 0 || len(v.ids) == 0 || v.compare(c.set) <= 0 {
		return false
	}
	c.kept = kept{set: voters{v.origin, v.version, slices.Clone(v.ids)}}
	c.round, c.mark = round{}, 0
	c.dirty = true
	return true
}

// found starts a line of sets.
func (c *paxos) found(now time.Time, ids ...string) {
	c.adopt(voters{origin{founded: max(now.UnixMilli(), 1), by: c.self}, 1, ids})
}

// force starts a line that takes precedence over the present one.
func (c *paxos) force(now time.Time, ids []string) {
	if c.set.version == 0 {
		c.found(now, ids...)
		return
	}
	c.adopt(voters{origin{c.set.origin.founded, c.set.origin.forced + 1, c.self}, c.set.version + 1, ids})
}

// majority reports whether the voters in there are the majority of the set. The values of there say which of them gave
// up their vote; absent reports who gave up its vote and left. Of two halves, the one with the lowest id is the
// majority.
func (c *paxos) majority(there map[string]bool, absent func(id string) bool) bool {
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
func (c *paxos) begin(ids []string, now time.Time) (out []outgoing) {
	number := max(c.round.seen, c.promised.number, c.accepted.ballot.number, c.round.ballot.number) + 1
	c.round = round{ballot: ballot{number, c.self}, until: now.Add(ballotFor), value: proposal{ids: slices.Clone(ids)},
		asked: map[string]bool{}, answers: map[string]bool{}, seen: number}
	for _, id := range c.set.ids {
		out = append(out, c.write(id, message{kind: messagePrepare, ballot: c.round.ballot}))
	}
	return out
}

// write addresses a message, with what every message says of its sender.
func (c *paxos) write(to string, msg message) outgoing {
	msg.from, msg.set = c.self, c.set
	return outgoing{to, msg}
}

// decided tells a node the latest set.
func (c *paxos) decided(to string) outgoing { return c.write(to, message{kind: messageDecided}) }

// read handles a message and returns what to send. changed reports whether a set was adopted.
func (c *paxos) read(msg message, absent func(id string) bool) (out []outgoing, changed bool) {
	switch order := msg.set.compare(c.set); {
	case order > 0 && msg.kind == messageDecided:
		return nil, c.adopt(msg.set)
	case order != 0:
		// A node that is behind learns from it, and one that is ahead answers with its set.
		return []outgoing{c.decided(msg.from)}, false
	case msg.kind == messageDecided || !c.set.has(msg.from):
		return nil, false
	}
	c.round.seen = max(c.round.seen, msg.ballot.number)
	switch msg.kind {
	case messagePrepare, messageAccept:
		return c.answer(msg), false
	case messagePromise, messageAccepted:
		return c.counted(msg, absent)
	}
	return nil, false
}

// answer handles a request to a voter.
func (c *paxos) answer(msg message) []outgoing {
	if !c.set.has(c.self) || c.quit || msg.ballot.by != msg.from || msg.ballot.number == 0 {
		return nil
	}
	switch order := msg.ballot.compare(c.promised); {
	case msg.kind == messagePrepare && order >= 0:
		c.promised, c.dirty = msg.ballot, true
		return []outgoing{c.write(msg.from, message{kind: messagePromise, ballot: msg.ballot, accepted: c.accepted, renounced: c.renounced})}
	case msg.kind == messageAccept && order == 0 && len(msg.accepted.ids) > 0:
		c.accepted, c.dirty = proposal{msg.ballot, msg.accepted.ids}, true
		return []outgoing{c.write(msg.from, message{kind: messageAccepted, ballot: msg.ballot, renounced: c.renounced})}
	}
	return []outgoing{c.write(msg.from, message{kind: messageRefuse, ballot: c.promised})}
}

// counted handles an answer to this node's ballot.
func (c *paxos) counted(msg message, absent func(id string) bool) (out []outgoing, changed bool) {
	r := &c.round
	_, asked := r.asked[msg.from]
	switch {
	case msg.ballot != r.ballot || r.until.IsZero() || asked != (msg.kind == messageAccepted):
		return nil, false
	case !r.accepting:
		if msg.accepted.ids != nil && msg.accepted.ballot.compare(r.highest) > 0 {
			r.highest, r.value.ids = msg.accepted.ballot, msg.accepted.ids
		}
	case !asked: // its promise is late: the more are asked, the fewer of them must answer
		r.asked[msg.from] = msg.renounced
		return []outgoing{c.accept(msg.from)}, false
	}
	r.answers[msg.from] = msg.renounced
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
			out = append(out, c.accept(id))
		}
	}
	return out, false
}

// accept asks a voter whose promise was read to accept the set of this node's ballot.
func (c *paxos) accept(id string) outgoing {
	r := &c.round
	return c.write(id, message{kind: messageAccept, ballot: r.ballot, accepted: proposal{r.ballot, r.value.ids}})
}

// Kinds of messages.
const (
	messageDecided  = iota // tells the sender's latest decided set; a receiver with a later one answers with that
	messagePrepare         // asks to promise a ballot
	messagePromise         // promises, and tells what it accepted before
	messageAccept          // asks to accept a set
	messageAccepted        // accepted it
	messageRefuse          // promised a higher ballot
	messageOver            // tells that the crawl is over; the ballot's number is the sender's boot
	messageLeave           // tells that the sender leaves; the ballot's number is its boot
	messageLeft            // acknowledges messageLeave
	messageKinds
)

// message is what a node sends another one directly, to decide the next set of voters or to say that it leaves.
type message struct {
	kind int
	from string
	// set is the sender's latest decided set. Only messageDecided carries its ids.
	set    voters
	ballot ballot
	// accepted is what messagePromise tells and messageAccept asks for.
	accepted  proposal
	renounced bool
}

const messageVersion = 2

// code writes a message, or reads one.
func (m *message) code(c *coder.Coder) {
	c.Version(messageVersion)
	kind := byte(m.kind)
	c.Byte(&kind, messageKinds-1)
	m.kind = int(kind)
	c.Flags(&m.renounced)
	id(c, &m.from)
	if !c.Reading() && m.kind != messageDecided {
		m.set.ids = nil
	}
	m.set.code(c)
	m.ballot.code(c)
	m.accepted.code(c)
}

// kept is what a node must remember of its votes.
type kept struct {
	set voters
	// promised and accepted are about the set after this one.
	promised  ballot
	accepted  proposal
	renounced bool // this node gave up its vote in the set
	// addrs are the gossip addresses of the voters, "" if unknown. They are filled in when this is stored.
	addrs []string
}

const keptVersion = 1

// code writes what is kept, or reads it.
func (k *kept) code(c *coder.Coder) {
	c.Version(keptVersion)
	c.Flags(&k.renounced)
	k.set.code(c)
	k.promised.code(c)
	k.accepted.code(c)
	if c.Reading() {
		k.addrs = make([]string, len(k.set.ids))
	}
	for i := range k.addrs {
		c.Text(&k.addrs[i], maxAddr)
	}
}
