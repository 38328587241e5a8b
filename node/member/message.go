package member

import "proxima/frontier/coder"

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
