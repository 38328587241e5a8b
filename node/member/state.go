package member

import (
	"errors"
	"time"
)

// maxEntries bounds the members that are known, and those of a state: what peers tell must not fill the memory, and work
// that is done for each of them must not take long. Their state fits into maxStream.
const maxEntries = 1024

// A state is what one node tells another of the members whenever they compare all they know (memberlist's push/pull):
// who counts as settled although it does not say so itself, or is dead. It is how a newcomer gets the view of those that
// were there before.
type state struct {
	// sender is who tells, boot and nonce its life, age how long that life has lasted.
	sender string
	boot   uint64
	nonce  uint64
	age    time.Duration
	// set is the latest decided set of voters, without its ids: those are the entries that say so.
	set voters
	// members are in the order of their ids.
	members []entry
}

// entry is one member in a state.
type entry struct {
	id      string
	boot    uint64
	phase   phase
	settled bool
	// voter says whether it is in the set, gave whether it left and gave its vote in it up.
	voter, gave bool
	// over says whether it has told that the crawl is.
	over bool
	// since is how long it has been in its phase.
	since time.Duration
}

// phase is what has become of a member.
type phase uint8

const (
	alive phase = iota
	dead
	left
)

func (s *state) code(c *coder) {
	c.version(stateVersion)
	c.id(&s.sender)
	c.uvarint(&s.boot)
	c.fixed(&s.nonce)
	c.millis(&s.age)
	if s.set.code(c); len(s.set.ids) > 0 {
		c.fail(errors.New("voters out of place"))
	}
	n := c.count(len(s.members))
	for k := 0; k < n && (c.writing || c.err == nil); k++ {
		if !c.writing {
			s.members = append(s.members, entry{})
		}
		e := &s.members[k]
		e.code(c)
		if k > 0 && s.members[k-1].id >= e.id {
			c.fail(errOrder)
		}
	}
}

func (e *entry) code(c *coder) {
	c.id(&e.id)
	isDead, isLeft := e.phase == dead, e.phase == left
	c.flags(&isDead, &isLeft, &e.settled, &e.voter, &e.gave, &e.over)
	switch {
	case isDead && isLeft:
		c.fail(errors.New("a member both dead and left"))
	case isDead:
		e.phase = dead
	case isLeft:
		e.phase = left
	}
	c.uvarint(&e.boot)
	c.millis(&e.since)
}

func appendState(b []byte, s state) []byte { return encode(b, &s) }

func decodeState(b []byte) (state, error) { return decode[state](b, "state") }
