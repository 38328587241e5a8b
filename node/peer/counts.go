package peer

import (
	"maps"
	"sync"
)

// Traffic is what one procedure sent and received: messages, and bytes of their bodies after compression.
type Traffic struct {
	MessagesSent     uint64 `json:"messages_sent"`
	BytesSent        uint64 `json:"bytes_sent"`
	MessagesReceived uint64 `json:"messages_received"`
	BytesReceived    uint64 `json:"bytes_received"`
}

func (t Traffic) plus(o Traffic) Traffic {
	return Traffic{t.MessagesSent + o.MessagesSent, t.BytesSent + o.BytesSent,
		t.MessagesReceived + o.MessagesReceived, t.BytesReceived + o.BytesReceived}
}

// Counts is the traffic by procedure ("Deliver") and the failures by kind, since the start.
type Counts struct {
	Procedures map[string]Traffic `json:"procedures"`
	Failures   map[string]uint64  `json:"failures"`
}

// Plus returns the sum of two counts, as of a client and a server.
func (c Counts) Plus(o Counts) Counts {
	sum := c.clone()
	for name, t := range o.Procedures {
		sum.Procedures[name] = sum.Procedures[name].plus(t)
	}
	for kind, n := range o.Failures {
		sum.Failures[kind] += n
	}
	return sum
}

func (c Counts) clone() Counts { return Counts{maps.Clone(c.Procedures), maps.Clone(c.Failures)} }

// tally gathers Counts. It is safe for concurrent use.
type tally struct {
	// mu guards what follows.
	mu  sync.Mutex
	all Counts
}

func newTally() *tally { return &tally{all: Counts{map[string]Traffic{}, map[string]uint64{}}} }

func (t *tally) add(procedure string, more Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Procedures[procedure] = t.all.Procedures[procedure].plus(more)
}

func (t *tally) failed(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all.Failures[kind]++
}

func (t *tally) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.clone()
}
