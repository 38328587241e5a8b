package errand

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/wire"
)

// Errand is one page that a peer is to download.
type Errand struct {
	URL identity.URL
	// Server is the address to dial: exactly that.
	Server netip.Addr
	// Epoch is that of the host's record.
	Epoch uint64
	// Batch is the batch for which it is downloaded, Labels the assigners of it.
	Batch  string
	Labels []string
	// Assigned says that it is a download of a comparison or of a round, not an estimate: its answer comes at once.
	Assigned bool
	// Fresh asks for a connection of its own.
	Fresh bool
	// Quiet says that the links of the page are read by someone else.
	Quiet bool
	// Depth, Hops and Attempt (0 is the first) are those of the URL.
	Depth, Hops, Attempt uint8
}

// Result is what became of an errand.
type Result struct {
	// Ending, Trouble, Reason, Asked and RetryAfter are those of the frontier's outcome at the node that made it.
	Ending     frontier.Ending
	Trouble    frontier.Trouble
	Reason     string
	Asked      bool
	RetryAfter time.Duration
	// Status is the HTTP status, 0 if none.
	Status int
	// Timing is that of the download; it counts only where HTML is true.
	Timing assign.Timing
	// Unmade says that the page was never asked for: the peer had no time for it.
	Unmade bool
	// HTML says that it was a page: status 200, and HTML.
	HTML bool
	// Coord is the coordinate of the node that made it, when it answered. It is valid where Placed is true.
	Coord  ncoord.Coordinate
	Placed bool
	// Lingers comes with an error only: for how long the peer may still download the page. Nobody else must ask its server before.
	Lingers time.Duration
}

// Job is an errand that this node carries out. It is the tag of the frontier's task.
type Job struct {
	Errand
	// From is the node that asked.
	From string
	// Until is when the download must be over: the asker stops waiting soon after, or may lose the server.
	Until time.Time

	id       uint64
	received time.Time
	// state is guarded by the worker's lock.
	state jobState
}

type jobState uint8

const (
	queued jobState = iota
	begun
	ended
)

// Errors of Do.
var (
	// ErrUnanswered says that no answer came in time. The page may have been asked for all the same.
	ErrUnanswered = errors.New("the errand was not answered")
	// ErrGone says that the peer died meanwhile, or was dead. It is an ErrUnanswered. A peer that is only cut off goes on: see
	// Result.Lingers.
	ErrGone = fmt.Errorf("%w: the peer is gone", ErrUnanswered)
	// ErrFull says that too many errands wait for answers.
	ErrFull = errors.New("too many errands wait for answers")
	// ErrClosed says that Run has ended.
	ErrClosed = errors.New("errands are closed")
)

// RefusedError says that the peer did not take the errand. The page was not asked for.
type RefusedError struct {
	Peer, Reason string
}

// Error says who refused, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("node %s refused the errand: %s", e.Peer, e.Reason)
}

// Peers sends messages to other nodes. It fills in the header.
type Peers interface {
	Ask(ctx context.Context, to string, req *wire.AskRequest) (*wire.AskResponse, error)
	Answer(ctx context.Context, to string, req *wire.AnswerRequest) (*wire.AnswerResponse, error)
}

// Deps are what the room needs from the others. None of the functions may block or call back into the room, but Late.
type Deps struct {
	// Self is this node's id: errands to it take the same way without the network.
	Self string
	// Peers sends messages.
	Peers Peers
	// Enqueue puts a job into the frontier's queue, with the job as its tag; false: the queue is full.
	Enqueue func(*Job) bool
	// Check says why an address must never be dialled, nil if it may.
	Check func(netip.Addr) error
	// Blocked says which rule of the blocklist forbids a page or its server, "" for none. Nil: none does.
	Blocked func(identity.URL, netip.Addr) string
	// Lent says until when nobody else gets a server, whatever becomes of this node: a time that is past where it is not lent
	// to this node. What downloads for it is broken off by then. Nil: for ever.
	Lent func(netip.Addr) time.Time
	// Coordinate is this node's own, published with its answers; false: it has none yet.
	Coordinate func() (ncoord.Coordinate, bool)
	// Late tells of an answer that came after Do had returned. The page is done or not, as the result says: nobody else
	// is told. Nil drops it. It is called outside all locks.
	Late func(peer string, e Errand, r Result)
}
