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
	// Links are what the page refers to. They are on no disk yet: who asked keeps them before the page counts as done.
	Links []frontier.Link
	// Coord is the coordinate of the node that made it, when it answered. It is valid where Placed is true.
	Coord  ncoord.Coordinate
	Placed bool
	// Lingers comes with an error only: for how long the peer may still download the page. Nobody else must ask its server before.
	Lingers time.Duration
}

// Errors of Remote.Do.
var (
	// ErrUnanswered says that no answer came in time. The page may have been asked for all the same.
	ErrUnanswered = errors.New("the remote fetch was not answered")
	// ErrGone says that the peer is dead, and was for a while if it had been asked. It is an ErrUnanswered. A peer that is only cut off
	// goes on: see Result.Lingers.
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
	Fetch(ctx context.Context, to string, req *wire.FetchRequest) (*wire.FetchResponse, error)
}

// RemoteDeps are what remote fetches need from the other rooms. None of the functions may block or call back.
type RemoteDeps struct {
	// Self is this node's id.
	Self string
	// Clock tells whether this node was stopped.
	Clock *lease.Clock
	// Peers sends messages.
	Peers Peers
	// FromLife has something taken for a life of a peer, unless a later one was heard of: lease.Holder.FromLife.
	FromLife func(id string, boot uint64, take func()) bool
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

// Remote is both sides of remote fetches: what this node asks of others (here), and what it does for them (work.go). All of it
// is in memory, and bounded. All methods are safe for concurrent use.
type Remote struct {
	cfg     RemoteConfig
	deps    RemoteDeps
	stopped chan struct{} // closed when the node stops

	// mu guards what follows, and the states of work.
	mu     sync.Mutex
	closed bool            // stopped
	alive  map[string]bool // nil: everybody is
	number uint64          // of the last fetch that was asked for
	asks   map[*ask]bool   // that wait
	work   map[workKey]*Work
	open   int            // work that has not ended
	held   map[string]int // calls that wait for work to end, by peer
	holds  int            // the sum
	links  int            // bytes of the links in results that somebody may wait for
}

// ask is a remote fetch that waits for its answer.
type ask struct {
	to     string
	cancel context.CancelCauseFunc
	gone   *time.Timer // cancels it; nil while the peer is alive
}

// NewRemote makes both sides; Run starts them.
func NewRemote(cfg RemoteConfig, deps RemoteDeps) *Remote {
	// Numbers of two lives of a node must not meet.
	return &Remote{cfg: cfg, deps: deps, stopped: make(chan struct{}), number: rand.Uint64(), asks: make(map[*ask]bool),
		work: make(map[workKey]*Work), held: make(map[string]int)}
}

// Run waits for the end of the context. Then all who wait in Do get ErrClosed, and work that has not begun is given back.
func (r *Remote) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for k := range r.asks {
		k.cancel(ErrClosed)
	}
	r.giveBackLocked("the node stops", func(*Work) bool { return true })
	close(r.stopped)
	return nil
}

// SetAlive names the peers that are alive. Fetches by others end when they have been gone for a while: some are taken for dead that live,
// and nobody else may ask their servers yet. What the others asked for and has not begun is dropped. Before the first call everybody
// counts as alive; this node itself always does.
func (r *Remote) SetAlive(ids []string) {
	alive := map[string]bool{r.deps.Self: true}
	for _, id := range ids {
		alive[id] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive = alive
	for k := range r.asks {
		switch {
		case !alive[k.to] && k.gone == nil:
			k.gone = time.AfterFunc(r.cfg.back(), func() { k.cancel(ErrGone) })
		case alive[k.to] && k.gone != nil:
			k.gone.Stop()
			k.gone = nil
		}
	}
	r.giveBackLocked("who asked is gone", func(w *Work) bool { return !alive[w.From] })
}

// Busy says that remote fetches are under way, asked for here or carried out here: the crawl is not at its end.
func (r *Remote) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asks)+r.open > 0
}

// Do lets a peer (or this node itself) carry out a remote fetch and returns what became of it. Besides that of the context
// its errors are ErrUnanswered, ErrGone, ErrClosed and RefusedError; of the result counts Lingers then.
func (r *Remote) Do(ctx context.Context, to string, f RemoteFetch) (res Result, err error) {
	end := time.Now().Add(r.cfg.Wait)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &ask{to: to, cancel: cancel}
	number, err := r.enter(k)
	if err == nil {
		ctx, stop := context.WithDeadlineCause(ctx, end, ErrUnanswered)
		defer stop()
		res, err = r.ask(ctx, to, number, f, end)
		r.leave(k)
		var refused *RefusedError
		if err != nil && !errors.As(err, &refused) { // it may have been taken
			res = Result{Lingers: max(0, time.Until(r.overAt(end)))}
		}
	}
	if err != nil {
		err = fmt.Errorf("ask %s for %s: %w", to, f.URL, err)
	}
	return res, err
}

// overAt is when a download must be over for which somebody waits until end.
func (r *Remote) overAt(end time.Time) time.Time { return end.Add(-r.cfg.call()) }

// enter gives a fetch its number, if it may be asked for. It can be cancelled until it leaves.
func (r *Remote) enter(k *ask) (number uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, ErrClosed
	case r.alive != nil && !r.alive[k.to]:
		return 0, ErrGone
	}
	r.number++
	r.asks[k] = true
	return r.number, nil
}

func (r *Remote) leave(k *ask) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.asks, k)
	if k.gone != nil {
		k.gone.Stop()
	}
}

// notLent is why a remote fetch is not even sent.
const notLent = "the lease of its server is about to end"

// ask asks the peer until it says what became of the page.
func (r *Remote) ask(ctx context.Context, to string, number uint64, f RemoteFetch, end time.Time) (Result, error) {
	var links []frontier.Link // of a page that is downloaded: they come in portions
	for try := 0; ; try++ {
		// For how long the download may go on, should the message take as long as it may.
		within := time.Until(earlier(r.overAt(end), r.deps.Lent(f.Server)))
		if to != r.deps.Self {
			within -= r.cfg.call()
		}
		if try == 0 && within < time.Millisecond {
			return Result{}, &RefusedError{Peer: r.deps.Self, Reason: notLent}
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, r.cfg.call())
		resp, err := r.deps.Peers.Fetch(call, to, &wire.FetchRequest{Number: number, Page: encodeFetch(f), WithinMs: max(0, within.Milliseconds()),
			Links: uint32(len(links))})
		cancel()
		switch {
		case err != nil:
		case resp.GetRefused() != "":
			return Result{}, &RefusedError{Peer: to, Reason: cut(resp.GetRefused())}
		case resp.GetResult() != nil:
			res, ok := decodeResponse(resp, links)
			if ok && !resp.GetMore() {
				return res, nil
			} else if ok {
				links = res.Links
				continue
			}
		}
		// It failed, or the page is not downloaded yet. Who was let wait for it asks again at once.
		if err == nil && time.Since(sent) >= r.cfg.call()/4 {
			continue
		}
		if sleep(ctx, pause(try)) != nil {
			return Result{}, context.Cause(ctx)
		}
	}
}

// pause is the wait before a fetch is asked for again, up to a second, drawn from half of it to the whole so that those that
// failed together do not come back together.
func pause(try int) time.Duration {
	wait := min(250*time.Millisecond<<min(try, 2), time.Second)
	return wait/2 + rand.N(wait/2+1)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
