package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/lease"
	"proxima/node/wire"
)

// RemoteFetch is one page that a node downloads for another.
type RemoteFetch struct {
	URL identity.URL
	// Server is the address to dial: exactly that.
	Server netip.Addr
	// Epoch is that of the host's record.
	Epoch uint64
	// Batch is the batch for which it is downloaded, Labels the assigners of it.
	Batch  string
	Labels []string
	// Assigned says that it is a download of a comparison or of a round, not an estimate.
	Assigned bool
	// Fresh asks for a connection of its own.
	Fresh bool
	// Quiet says that the links of the page are read by someone else.
	Quiet bool
	// Depth, Hops and Attempt (0 is the first) are those of the URL.
	Depth, Hops, Attempt uint8
}

// Result is what became of a remote fetch.
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

// useful says that a result tells something about places.
func useful(r Result, err error) bool {
	return err == nil && r.HTML && !r.Unmade && r.Timing.Total > 0
}

// Errors of Remote.Do.
var (
	// ErrUnanswered says that no answer came in time. The page may have been asked for all the same.
	ErrUnanswered = errors.New("the remote fetch was not answered")
	// ErrGone says that the peer died meanwhile, or was dead. It is an ErrUnanswered. A peer that is only cut off goes on: see
	// Result.Lingers.
	ErrGone = fmt.Errorf("%w: the peer is gone", ErrUnanswered)
	// ErrClosed says that Run has ended.
	ErrClosed = errors.New("remote fetches are closed")
)

// RefusedError says that the peer did not take the remote fetch. The page was not asked for.
type RefusedError struct {
	Peer, Reason string
}

// Error says who refused, and why.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("node %s refused the remote fetch: %s", e.Peer, e.Reason)
}

// Peers sends messages to other nodes, and to this one. It fills in the header.
type Peers interface {
	Ask(ctx context.Context, to string, req *wire.AskRequest) (*wire.AskResponse, error)
	Answer(ctx context.Context, to string, req *wire.AnswerRequest) (*wire.AnswerResponse, error)
}

// RemoteDeps are what remote fetches need from the other rooms. None of the functions may block or call back.
type RemoteDeps struct {
	// Self is this node's id.
	Self string
	// Clock tells whether this node was stopped.
	Clock *lease.Clock
	// Peers sends messages.
	Peers Peers
	// Enqueue puts work into the frontier's queue, with the work as its tag; false: the queue is full.
	Enqueue func(*Work) bool
	// Check says why an address must never be dialled, nil if it may.
	Check func(netip.Addr) error
	// Blocked says which rule of the blocklist forbids a page or its server, "" for none.
	Blocked func(identity.URL, netip.Addr) string
	// Lent says until when nobody else gets a server, whatever becomes of this node: a time that is past where it is not lent
	// to this node. What downloads for it is broken off by then.
	Lent func(netip.Addr) time.Time
	// Coordinate is this node's own, published with its answers; false: it has none yet.
	Coordinate func() (ncoord.Coordinate, bool)
}

// Remote is both sides of remote fetches: what this node asks of others (asker.go), and what it does for them (worker.go). All
// of it is in memory, and bounded. All methods are safe for concurrent use.
type Remote struct {
	cfg  RemoteConfig
	deps RemoteDeps
	// life ends a moment after Run: then nothing is sent any more.
	life context.Context
	end  context.CancelFunc
	// answers are the goroutines that bring answers.
	answers sync.WaitGroup

	// mu guards what follows, and the states of work.
	mu     sync.Mutex
	closed bool
	alive  map[string]bool // nil: everybody is
	next   uint64
	asks   map[uint64]*ask
	work   map[workKey]*Work // until its answer is acknowledged
	// recent is work that ended, in order, so that an ask that comes twice is not carried out twice.
	recent      map[workKey]struct{}
	recentOrder []endedWork
}

// NewRemote makes both sides; Run starts them.
func NewRemote(cfg RemoteConfig, deps RemoteDeps) (*Remote, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make remote fetches: %w", err)
	}
	// Ids of two lives of a node must not meet: an answer names no life.
	r := &Remote{cfg: cfg, deps: deps, next: rand.Uint64(), asks: make(map[uint64]*ask), work: make(map[workKey]*Work),
		recent: make(map[workKey]struct{})}
	r.life, r.end = context.WithCancel(context.Background())
	return r, nil
}

// farewell is how long a node that stops waits for peers to take the last answers.
const farewell = 2 * time.Second

// Run returns a moment after the context has ended. Then all who wait in Do get ErrClosed, work that has not begun is given
// back, and the last answers are sent once.
func (r *Remote) Run(ctx context.Context) error {
	<-ctx.Done()
	r.close()
	defer time.AfterFunc(farewell, r.end).Stop()
	r.giveUp()
	r.answers.Wait()
	r.mu.Lock()
	r.end() // under mu: what is finished now brings no answer any more
	r.mu.Unlock()
	r.answers.Wait()
	return nil
}

// SetAlive names the peers that are alive. Fetches by others end at once, and what they asked for and has not begun is
// dropped. Before the first call everybody counts as alive; this node itself always does.
func (r *Remote) SetAlive(ids []string) {
	alive := map[string]bool{r.deps.Self: true}
	for _, id := range ids {
		alive[id] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive = alive
	for _, k := range r.asks {
		if !alive[k.to] {
			k.cancel(ErrGone)
		}
	}
	for _, w := range r.work {
		if w.state == queued && !alive[w.From] {
			r.forgetLocked(w)
		}
	}
}

// Busy says that remote fetches are under way, asked for here or carried out here: the crawl is not at its end.
func (r *Remote) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asks)+len(r.work) > 0
}

// Bounds of the wait between two tries of a message.
const minPause, maxPause = 250 * time.Millisecond, 8 * time.Second

// pause is the wait after the n-th failure in a row, drawn from half of it to the whole so that peers that failed
// together do not come back together.
func pause(n int) time.Duration {
	wait := min(minPause<<min(n-1, 10), maxPause)
	return wait/2 + rand.N(wait/2+1)
}
