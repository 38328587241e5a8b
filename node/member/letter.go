package member

import (
	"errors"
	"fmt"
)

var (
	errMany  = fmt.Errorf("more than %d members", maxEntries)
	errOrder = errors.New("members are not in order")
)

// Kinds of letters.
const (
	letterDecided  = iota // tells a decided set, the sender's latest; who knows a later one answers with it
	letterPrepare         // asks to promise a ballot
	letterPromise         // promises, and tells what was accepted before
	letterAccept          // asks to accept a set
	letterAccepted        // accepted it
	letterRefuse          // has promised a higher ballot
	letterOver            // tells that the crawl is over: the ballot's number is the sender's life
	letterLeave           // tells that the sender leaves, with its life in the same place
	letterLeft            // has heard that
	letterKinds
)

// letter is what nodes tell each other directly: to decide the next set of voters, and to take leave.
type letter struct {
	kind int
	from string
	// set is the sender's latest decided set. Only letterDecided carries its ids.
	set    voters
	ballot ballot
	// accepted is what letterPromise tells and letterAccept asks for.
	accepted  proposal
	renounced bool
}

const letterVersion = 2

func appendLetter(b []byte, l letter) []byte {
	if l.kind != letterDecided {
		l.set.ids = nil
	}
	flag := byte(0)
	if l.renounced {
		flag = 1
	}
	b = append(b, letterVersion, byte(l.kind), flag)
	b = appendID(b, l.from)
	b = appendVoters(b, l.set)
	b = appendBallot(b, l.ballot)
	return appendProposal(b, l.accepted)
}

func decodeLetter(b []byte) (letter, error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != letterVersion {
		return letter{}, fmt.Errorf("decode letter: unknown version %d", v)
	}
	l := letter{kind: int(r.byte())}
	flag := r.byte()
	if r.err == nil && (l.kind >= letterKinds || flag > 1) {
		return letter{}, fmt.Errorf("decode letter: unknown kind %d, %d", l.kind, flag)
	}
	l.renounced = flag == 1
	l.from, l.set, l.ballot, l.accepted = r.id(), r.voters(), r.ballot(), r.proposal()
	if err := r.end(); err != nil {
		return letter{}, fmt.Errorf("decode letter: %w", err)
	}
	return l, nil
}

// kept is what a node must not forget of its votes.
type kept struct {
	set       voters
	promised  ballot
	accepted  proposal
	renounced bool
	// addrs are the gossip addresses of the voters, "" where none is known.
	addrs []string
}

const keptVersion = 1

func appendKept(b []byte, k kept) []byte {
	flag := byte(0)
	if k.renounced {
		flag = 1
	}
	b = append(b, keptVersion, flag)
	b = appendVoters(b, k.set)
	b = appendBallot(b, k.promised)
	b = appendProposal(b, k.accepted)
	for _, a := range k.addrs {
		b = appendBytes(b, []byte(a))
	}
	return b
}

func decodeKept(b []byte) (kept, error) {
	r := reader{b: b}
	if v := r.byte(); r.err == nil && v != keptVersion {
		return kept{}, fmt.Errorf("unknown version %d", v)
	}
	k := kept{renounced: r.byte() == 1}
	k.set, k.promised, k.accepted = r.voters(), r.ballot(), r.proposal()
	for range k.set.ids {
		k.addrs = append(k.addrs, string(r.bytes(maxAddr)))
	}
	return k, r.end()
}
