package member

import "fmt"

// Kinds of letters.
const (
	letterDecided  = iota // tells the sender's latest decided set; a receiver with a later one answers with that
	letterPrepare         // asks to promise a ballot
	letterPromise         // promises, and tells what it accepted before
	letterAccept          // asks to accept a set
	letterAccepted        // accepted it
	letterRefuse          // promised a higher ballot
	letterOver            // tells that the crawl is over; the ballot's number is the sender's boot
	letterLeave           // tells that the sender leaves; the ballot's number is its boot
	letterLeft            // acknowledges letterLeave
	letterKinds
)

// letter is what nodes send each other directly, to decide the next set of voters and to take leave.
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

func (l *letter) code(c *coder) {
	c.version(letterVersion)
	kind := byte(l.kind)
	if c.byte(&kind); kind >= letterKinds {
		c.fail(fmt.Errorf("unknown kind %d", kind))
	}
	l.kind = int(kind)
	c.flags(&l.renounced)
	c.id(&l.from)
	if c.writing && l.kind != letterDecided {
		l.set.ids = nil
	}
	l.set.code(c)
	l.ballot.code(c)
	l.accepted.code(c)
}

// kept is what a node must remember of its votes.
type kept struct {
	set       voters
	promised  ballot
	accepted  proposal
	renounced bool
	// addrs are the gossip addresses of the voters, "" if unknown.
	addrs []string
}

const keptVersion = 1

func (k *kept) code(c *coder) {
	c.version(keptVersion)
	c.flags(&k.renounced)
	k.set.code(c)
	k.promised.code(c)
	k.accepted.code(c)
	if !c.writing {
		k.addrs = make([]string, len(k.set.ids))
	}
	for i := range k.addrs {
		c.text(&k.addrs[i], maxAddr)
	}
}
