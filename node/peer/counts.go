package peer

import (
	"maps"
	"strings"
	"sync"
	"time"

	"proxima/node/runlog"
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

// Refusal is something that a server did not accept.
type Refusal struct {
	// Peer is the id of the node that sent it, or the host of its address if the node is not known.
	Peer string
	// Kind is one of the Kinds.
	Kind string
	// Procedure is the call, empty for a connection.
	Procedure string
	// Reason says what was wrong.
	Reason string
	// Skipped counts refusals of the same peer and kind since the last one reported.
	Skipped uint64
}

const (
	// refusalEvery is the least time between two reports of one peer and kind.
	refusalEvery = time.Second
	// maxTold bounds the peers and kinds remembered, because strangers have as many addresses as they like.
	maxTold = 1024
	// toldFor is how long a peer and kind with skipped refusals is remembered at least.
	toldFor = time.Minute
	// maxReason bounds the text of a peer that is kept or reported, in bytes.
	maxReason = 300
)

// refusals counts what is refused, and reports some of it. It is safe for concurrent use.
type refusals struct {
	tally *tally
	tell  func(Refusal)

	// mu guards what follows.
	mu   sync.Mutex
	told map[[2]string]*told
}

type told struct {
	at      time.Time
	skipped uint64
}

func newRefusals(t *tally, tell func(Refusal)) *refusals {
	return &refusals{tally: t, tell: tell, told: map[[2]string]*told{}}
}

func (r *refusals) add(f Refusal) {
	r.tally.failed(f.Kind)
	if r.tell == nil || f.Kind == KindTold { // that is not the peer's fault
		return
	}
	f.Reason = plain(f.Reason)
	if r.due(&f) {
		r.tell(f)
	}
}

// plain makes a peer's text safe for a log.
func plain(words string) string { return runlog.Plain(words, maxReason) }

// due reports whether to report a refusal, and fills in how many were skipped.
func (r *refusals) due(f *Refusal) bool {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	key := [2]string{f.Peer, f.Kind}
	last := r.told[key]
	if last == nil && len(r.told) >= maxTold {
		for k, t := range r.told {
			if age := now.Sub(t.at); age >= refusalEvery && t.skipped == 0 || age >= toldFor {
				delete(r.told, k)
			}
		}
		if len(r.told) >= maxTold {
			key = [2]string{"", f.Kind} // count all others together
			last = r.told[key]
		}
	}
	switch {
	case last == nil:
		r.told[key] = &told{at: now}
		return true
	case now.Sub(last.at) < refusalEvery:
		last.skipped++
		return false
	}
	f.Skipped, last.skipped, last.at = last.skipped, 0, now
	return true
}

// faults receives net/http's log of what went wrong with peers' connections, one line per Write.
type faults struct{ r *refusals }

func (f faults) Write(line []byte) (int, error) {
	f.r.add(Refusal{Kind: KindInternal, Reason: strings.TrimSpace(string(line))})
	return len(line), nil
}
