package member

import (
	"errors"
	"time"

	"proxima/frontier/coder"
)

// maxEntries bounds the members known, and those of a state. What peers send must not fill the memory, and work per
// member must not take long. A state of that size fits into maxStream.
const maxEntries = 1024

// maxAge bounds durations that other nodes send.
const maxAge = 10 * 365 * 24 * time.Hour

// A state is what one node tells another of the members when they compare all they know (memberlist's push/pull), such
// as who is settled or dead. From it a newcomer gets the view of older members.
type state struct {
	// sender is who sends it; boot and nonce identify its life, age is how long that has lasted.
	sender string
	boot   uint64
	nonce  uint64
	age    time.Duration
	// set is the latest decided set of voters, without its ids: those are the entries marked voter.
	set voters
	// members are sorted by id.
	members []entry
}

// entry is a member in a state.
type entry struct {
	id      string
	boot    uint64
	phase   phase
	settled bool
	// voter says that it is in the set, gave that it left and gave up its vote in it.
	voter, gave bool
	// over says that it has announced the end of the crawl.
	over bool
	// since is how long it has been in its phase.
	since time.Duration
}

// phase is the state of a member.
type phase uint8

const (
	alive phase = iota
	dead
	left
)

func (p phase) String() string { return [...]string{"alive", "dead", "left"}[p] }

// code writes a state, or reads one.
func (s *state) code(c *coder.Coder) {
	c.Version(stateVersion)
	id(c, &s.sender)
	c.Uvarint(&s.boot)
	c.Word(&s.nonce)
	c.Millis(&s.age, maxAge)
	if s.set.code(c); len(s.set.ids) > 0 {
		c.Fail(errors.New("voters where there must be none"))
	}
	list(c, &s.members, func(e *entry) { e.code(c) }, func(e entry) string { return e.id })
}

// code writes an entry, or reads one.
func (e *entry) code(c *coder.Coder) {
	id(c, &e.id)
	isDead, isLeft := e.phase == dead, e.phase == left
	c.Flags(&isDead, &isLeft, &e.settled, &e.voter, &e.gave, &e.over)
	switch {
	case isDead && isLeft:
		c.Fail(errors.New("a member that is both dead and left"))
	case isDead:
		e.phase = dead
	case isLeft:
		e.phase = left
	}
	c.Uvarint(&e.boot)
	c.Millis(&e.since, maxAge)
}
