package peer

import (
	"sync"
)

// Traffic is what went over the wire for one procedure: messages, and bytes of their bodies as compressed.
type Traffic struct {
	MessagesSent     uint64 `json:"messages_sent"`
	BytesSent        uint64 `json:"bytes_sent"`
	MessagesReceived uint64 `json:"messages_received"`
	BytesReceived    uint64 `json:"bytes_received"`
}

// Counts is the traffic by procedure ("Deliver") and the failures by kind, since the start.
type Counts struct {
	Procedures map[string]Traffic `json:"procedures"`
	Failures   map[string]uint64  `json:"failures"`
}

// Plus adds the counts of a client and a server.
func (c Counts) Plus(o Counts) Counts {
	sum := Counts{Procedures: map[string]Traffic{}, Failures: map[string]uint64{}}
	for _, part := range []Counts{c, o} {
		for name, t := range part.Procedures {
			s := sum.Procedures[name]
			s.MessagesSent += t.MessagesSent
			s.BytesSent += t.BytesSent
			s.MessagesReceived += t.MessagesReceived
			s.BytesReceived += t.BytesReceived
			sum.Procedures[name] = s
		}
		for kind, n := range part.Failures {
			sum.Failures[kind] += n
		}
	}
	return sum
}

// Kinds of failures: what Counts and Refusal call them.
const (
	KindVersion     = "version"     // the header is of another version
	KindRun         = "run"         // the header is of another run
	KindSender      = "sender"      // the header's sender is not the node of the certificate
	KindMalformed   = "malformed"   // the message cannot be decoded, or makes no sense
	KindOversized   = "oversized"   // the message is larger than allowed
	KindProcedure   = "procedure"   // no such call, or not spoken as the protocol wants
	KindHandshake   = "handshake"   // the connection does not stand: another secret, or no TLS
	KindBusy        = "busy"        // too many calls or connections at once
	KindPanic       = "panic"       // a handler broke down
	KindInternal    = "internal"    // a handler failed
	KindUnavailable = "unavailable" // a peer, or a handler, is not available
	KindTimeout     = "timeout"     // no answer within the timeout
	KindCanceled    = "canceled"    // the caller gave up, or the peer was forgotten
	KindIdentity    = "identity"    // another node answers at the peer's address
	KindSecret      = "secret"      // the peer has another secret
	KindTold        = "told"        // the callee does not know all that the sender has been told, and is told it
)

// tally gathers Counts. Safe for concurrent use.
type tally struct {
	// mu guards what follows.
	mu         sync.Mutex
	procedures map[string]Traffic
	failures   map[string]uint64
}

func newTally() *tally {
	return &tally{procedures: map[string]Traffic{}, failures: map[string]uint64{}}
}

// sent and received count one message each.
func (t *tally) sent(procedure string, bytes int64) {
	t.change(procedure, func(c *Traffic) { c.MessagesSent++; c.BytesSent += uint64(bytes) })
}

func (t *tally) received(procedure string, bytes int64) {
	t.change(procedure, func(c *Traffic) { c.MessagesReceived++; c.BytesReceived += uint64(bytes) })
}

func (t *tally) change(procedure string, f func(*Traffic)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.procedures[procedure]
	f(&c)
	t.procedures[procedure] = c
}

func (t *tally) failed(kind string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures[kind]++
}

func (t *tally) counts() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Counts{Procedures: t.procedures, Failures: t.failures}.Plus(Counts{})
}
