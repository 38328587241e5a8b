package member

import (
	"encoding/binary"
	"fmt"
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
	// set is the latest decided set of voters; its ids are the entries that say so.
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

const (
	entryPhase   = 3
	entrySettled = 1 << 2
	entryVoter   = 1 << 3
	entryGave    = 1 << 4
	entryOver    = 1 << 5
	entryFlags   = entryPhase | entrySettled | entryVoter | entryGave | entryOver
)

func appendState(b []byte, s state) []byte {
	b = append(b, stateVersion)
	b = appendID(b, s.sender)
	b = binary.AppendUvarint(b, s.boot)
	b = binary.LittleEndian.AppendUint64(b, s.nonce)
	b = binary.AppendUvarint(b, millis(s.age))
	b = appendVoters(b, voters{s.set.origin, s.set.version, nil})
	b = binary.AppendUvarint(b, uint64(len(s.members)))
	for _, e := range s.members {
		flags := byte(e.phase)
		if e.settled {
			flags |= entrySettled
		}
		if e.voter {
			flags |= entryVoter
		}
		if e.gave {
			flags |= entryGave
		}
		if e.over {
			flags |= entryOver
		}
		b = append(appendID(b, e.id), flags)
		b = binary.AppendUvarint(b, e.boot)
		b = binary.AppendUvarint(b, millis(e.since))
	}
	return b
}

func decodeState(b []byte) (state, error) {
	s, err := readState(b)
	if err != nil {
		return state{}, fmt.Errorf("decode state: %w", err)
	}
	return s, nil
}

func readState(b []byte) (s state, err error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != stateVersion {
		return s, fmt.Errorf("unknown version %d", v)
	}
	s.sender = r.id()
	s.boot = r.uvarint()
	s.nonce = r.fixed()
	s.age = r.millis()
	if s.set = r.voters(); r.err == nil && len(s.set.ids) > 0 {
		return s, fmt.Errorf("voters out of place")
	}
	n := r.uvarint()
	if r.err == nil && n > maxEntries {
		return s, fmt.Errorf("%d members, more than %d", n, maxEntries)
	}
	for range n {
		if r.err != nil {
			break
		}
		e := entry{id: r.id()}
		flags := r.byte()
		e.boot, e.since = r.uvarint(), r.millis()
		e.phase, e.settled = phase(flags&entryPhase), flags&entrySettled != 0
		e.voter, e.gave, e.over = flags&entryVoter != 0, flags&entryGave != 0, flags&entryOver != 0
		if r.err == nil && (e.phase > left || flags&^entryFlags != 0) {
			return s, fmt.Errorf("unknown flags %#x", flags)
		}
		if k := len(s.members); r.err == nil && k > 0 && s.members[k-1].id >= e.id {
			return s, fmt.Errorf("members are not in order")
		}
		s.members = append(s.members, e)
	}
	return s, r.end()
}

// millis is a duration in whole milliseconds, not negative.
func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

// maxAge bounds durations that others tell: longer ones are taken for it.
const maxAge = 10 * 365 * 24 * time.Hour

func (r *reader) millis() time.Duration {
	v := r.uvarint()
	if v > uint64(maxAge/time.Millisecond) {
		if r.err == nil {
			r.err = fmt.Errorf("age of %d ms", v)
		}
		return 0
	}
	return time.Duration(v) * time.Millisecond
}
