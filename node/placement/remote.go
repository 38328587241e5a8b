package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/ncoord"
	"proxima/node/bell"
	"proxima/node/lease"
	"proxima/node/peer"
	"proxima/node/wire"
)

// RemoteFetch is one page that a node downloads for another.
type RemoteFetch struct {
	URL identity.URL
	// Server is the only address that may be dialled.
	Server netip.Addr
	// Epoch is the epoch of the host's record.
	Epoch uint64
	// Batch is the batch for which the page is downloaded, Labels the assigners that want it.
	Batch  string
	Labels []string
	// Assigned is set for downloads of a comparison, a round or an exploration. Other fetches are estimates.
	Assigned bool
	// Fresh asks for a new connection.
	Fresh bool
	// Quiet is set if another node reads the links of the page.
	Quiet bool
	// Depth, Hops and Attempt (0 is the first) belong to the URL.
	Depth, Hops, Attempt uint8
}

// Result is the result of a remote fetch.
type Result struct {
	// Outcome is that of the node that made the fetch: Ending, Trouble, Reason, Asked, RetryAfter and Links. The links are on no disk yet:
	// the asker stores them before the page counts as done. Lingers comes only with an error.
	frontier.Outcome
	// Status is the HTTP status, 0 if there is none.
	Status int
	// Timing is the timing of the download. It is valid if HTML is set.
	Timing assign.Timing
	// Unmade is set if the page was never requested, because the peer had no time for it. To server.ask, it may also be this node that had
	// no right to ask or was stopped: no more is known of the peer.
	Unmade bool
	// HTML is set if the download was a page: status 200 and HTML.
	HTML bool
	// Coord is the coordinate of the node that made the fetch, when it answered, or the zero value if unknown.
	Coord ncoord.Coordinate
}

// Errors of Remote.Do.
var (
	// errUnanswered is returned when no answer came in time. The page may have been requested nevertheless.
	errUnanswered = errors.New("the remote fetch was not answered")
	// errGone is an errUnanswered for a peer that is dead, or was dead for a while after it had been asked. A peer that is only cut
	// off may go on downloading (Result.Lingers).
	errGone = fmt.Errorf("%w: the peer is gone", errUnanswered)
	// errClosed is returned when Run has ended.
	errClosed = errors.New("remote fetches are closed")
	// errRefused is returned when the peer did not take the remote fetch. The page was not requested.
	errRefused = errors.New("refused the remote fetch")
	// errNotHeld is an errRefused of the node that asks: it does not hold the server, or not for long enough.
	errNotHeld = fmt.Errorf("%w: the lease of its server is about to end", errRefused)
)

// RemoteDeps are the dependencies of Remote. The functions must not block or call it back.
type RemoteDeps struct {
	// Self is the id of this node.
	Self string
	// Clock tells whether this node was stopped.
	Clock *lease.Clock
	// Fetch asks other nodes, and this one. It fills in the header.
	Fetch peer.Call[wire.FetchRequest, wire.FetchResponse]
	// FromLife calls take, unless a later life of the peer is known: lease.Holder.FromLife.
	FromLife func(id string, boot uint64, take func()) bool
	// Enqueue puts work into the frontier's queue, with the work as the tag of its task. It returns false if the queue is full.
	Enqueue func(*Work) bool
	// Check returns an error for an address that must never be dialled.
	Check func(netip.Addr) error
	// Blocked returns the rule of the blocklist that forbids a page or its server, "" if there is none.
	Blocked func(identity.URL, netip.Addr) string
	// LeasedUntil returns until when no other node is granted a server, even if this node falls silent; a past time if this node does
	// not hold it. Downloads for this node end by then.
	LeasedUntil func(netip.Addr) time.Time
	// Coordinate returns the coordinate of this node, which goes out with its answers; false if there is none yet.
	Coordinate func() (ncoord.Coordinate, bool)
}

// Remote makes remote fetches: it asks other nodes for pages (this file), and downloads pages for them (work.go). Everything is in
// memory and bounded. It is safe for concurrent use.
type Remote struct {
	wait    time.Duration
	deps    RemoteDeps
	stopped chan struct{} // closed when the node stops
	gaps    atomic.Uint64 // how often this node was frozen, or its clock jumped

	// mu guards the fields below, and the states of work.
	mu     sync.Mutex
	closed bool              // the node stops
	alive  map[string]bool   // nil before the first SetAlive
	number uint64            // of the last fetch that this node asked for
	asks   map[*ask]bool     // fetches that wait for their answer
	work   map[workKey]*Work // for others, until nobody can ask for it any more
	open   int               // how much of work has not ended
	held   map[string]int    // by peer: calls that wait for work to end
	holds  int               // the sum of held
	links  int               // bytes of the links in results that somebody may ask for
}

// ask is a remote fetch that waits for its answer.
type ask struct {
	to     string
	cancel context.CancelCauseFunc
	gone   *time.Timer // ends the wait for a dead peer; nil while the peer is alive
}

// RemoteWait is how long remote fetches usually wait for their answers, as in the method of 2009.
const RemoteWait = time.Minute

// NewRemote makes a Remote whose fetches wait so long for their answers. All nodes need the same wait. A longer one lets slow peers
// answer, but a server whose estimator has died or is cut off is left alone for five sixths of it. It needs Run.
func NewRemote(wait time.Duration, deps RemoteDeps) *Remote {
	r := &Remote{wait: wait, deps: deps, stopped: make(chan struct{}), asks: make(map[*ask]bool), work: make(map[workKey]*Work),
		held: make(map[string]int)}
	deps.Clock.OnGap(func() { r.gaps.Add(1) })
	return r
}

// queueFor is how long a page for a peer may wait for a fetcher here. Then it is given back.
func (r *Remote) queueFor() time.Duration { return r.wait / 3 }

// goneFor is how long a fetch goes on waiting for a peer that is taken for dead. A living peer contradicts that within 11 s.
func (r *Remote) goneFor() time.Duration { return r.wait / 4 }

// callFor bounds one call to a peer. A download for a peer is broken off that long before the peer stops waiting.
func (r *Remote) callFor() time.Duration { return r.wait / 6 }

// Run waits for the end of the context. Then calls of Do return errClosed, and work that has not begun is given back.
func (r *Remote) Run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for k := range r.asks {
		k.cancel(errClosed)
	}
	r.giveBackLocked("the node stops", func(*Work) bool { return true })
	close(r.stopped)
	return nil
}

// SetAlive sets the peers that are alive. A fetch by another peer fails when the peer has been gone for a while, but not at once: some
// peers that are taken for dead live, and nobody else may ask their servers yet anyway. What other peers asked for, and has not begun,
// is given back. Before the first call all peers count as alive. This node itself always does.
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
			k.gone = time.AfterFunc(r.goneFor(), func() { k.cancel(errGone) })
		case alive[k.to] && k.gone != nil:
			k.gone.Stop()
			k.gone = nil
		}
	}
	r.giveBackLocked("who asked is gone", func(w *Work) bool { return !alive[w.From] })
}

// Busy reports whether remote fetches are under way, for this node or for others. The crawl must not end then.
func (r *Remote) Busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asks)+r.open > 0
}

// Do lets a peer, which may be this node, carry out a remote fetch. It returns errUnanswered, errGone, errClosed, errRefused, the error of
// the context, or lease.ErrGap if there is no answer and this node was stopped meanwhile. With an error, only Lingers of the result is valid.
func (r *Remote) Do(ctx context.Context, to string, f RemoteFetch) (res Result, err error) {
	end := time.Now().Add(r.wait)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &ask{to: to, cancel: cancel}
	gaps := r.gaps.Load()
	number, err := r.enter(k)
	if err == nil {
		ctx, stop := context.WithDeadlineCause(ctx, end, errUnanswered)
		defer stop()
		res, err = r.ask(ctx, to, number, f, end)
		r.leave(k)
		if errors.Is(err, errUnanswered) && (r.deps.Clock.Awake() != nil || r.gaps.Load() > gaps) {
			err = lease.ErrGap // the peer is not to blame
		}
		if err != nil && !errors.Is(err, errRefused) { // it may have been taken
			res = Result{Outcome: frontier.Outcome{Lingers: max(0, time.Until(r.overAt(end)))}}
		}
	}
	if err != nil {
		err = fmt.Errorf("ask %s for %s: %w", to, f.URL, err)
	}
	return res, err
}

// overAt returns when a download must be over if somebody waits for it until end.
func (r *Remote) overAt(end time.Time) time.Time { return end.Add(-r.callFor()) }

// enter gives a fetch a number, and adds it to the asks until leave.
func (r *Remote) enter(k *ask) (number uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return 0, errClosed
	case r.alive != nil && !r.alive[k.to]:
		return 0, errGone
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

// ask calls the peer again and again, until it has returned the result and all links.
func (r *Remote) ask(ctx context.Context, to string, number uint64, f RemoteFetch, end time.Time) (Result, error) {
	var links []frontier.Link // those that have arrived
	for try := 0; ; try++ {
		// A server that is not held is held until the zero time. The duration until then is the least there is: nothing can be taken off it.
		over := earlier(r.overAt(end), r.deps.LeasedUntil(f.Server))
		if to != r.deps.Self {
			over = over.Add(-r.callFor()) // the message may arrive a whole call from now
		}
		within := time.Until(over) // how long the download may take
		if try == 0 && within < time.Millisecond {
			return Result{}, fmt.Errorf("node %s %w", r.deps.Self, errNotHeld)
		}
		sent := time.Now()
		call, cancel := context.WithTimeout(ctx, r.callFor())
		resp, err := r.deps.Fetch(call, to, &wire.FetchRequest{Number: number, Page: encodeFetch(f), WithinMs: max(0, within.Milliseconds()),
			Links: uint32(len(links))})
		cancel()
		switch {
		case err != nil:
		case resp.GetRefused() != "":
			return Result{}, fmt.Errorf("node %s %w: %s", to, errRefused, shorten(resp.GetRefused()))
		case resp.GetResult() != nil:
			res, ok := decodeResponse(resp, links)
			if ok && !resp.GetMore() {
				return res, nil
			} else if ok {
				links = res.Links
				continue
			}
		}
		if err == nil && time.Since(sent) >= r.callFor()/4 {
			continue // the page is not there yet, and the peer has let this node wait for it
		}
		if bell.Sleep(ctx, bell.Backoff(try+1, 250*time.Millisecond, time.Second)) != nil {
			return Result{}, context.Cause(ctx)
		}
	}
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time { return slices.MinFunc([]time.Time{a, b}, time.Time.Compare) }
