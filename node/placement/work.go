package placement

import (
	"context"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/lease"
	"proxima/node/wire"
)

// Work is a remote fetch that this node carries out for another. It is the tag of the frontier's task.
type Work struct {
	RemoteFetch
	// From is the node that asked for it.
	From string
	// Until is when the download must be over. Soon after, the asker stops waiting or may lose the server.
	Until time.Time

	clock *lease.Clock
	key   workKey
	timer *time.Timer   // gives queued work back, and forgets ended work
	done  chan struct{} // closed when it has ended
	// The lock of Remote guards the fields below. result does not change after done is closed.
	state  workState
	result Result
}

// MayAsk returns an error if the request must not be sent now. Call it just before the first byte: the asker holds the lease, and
// this node may have been stopped meanwhile.
func (w *Work) MayAsk() error {
	if err := w.clock.Check(lease.NewRight(w.Until)); err != nil {
		return fmt.Errorf("ask server %v for %s: %w", w.Server, w.From, err)
	}
	return nil
}

type workState uint8

const (
	queued workState = iota
	begun
	ended
)

// workKey identifies work, however often it is asked for.
type workKey struct {
	from         string
	boot, number uint64 // of the life that asked, and of its fetch
}

const (
	// maxOpen bounds the work that has not ended. Further work is refused.
	maxOpen = 2_000
	// maxWork bounds all work that is remembered, so that a page which is asked for twice is downloaded once.
	maxWork = 8 * maxOpen
	// maxHeld and maxHeldPeer bound the calls that wait here for a download, of all peers and of one. They leave room for other calls.
	// Further calls are answered at once: the page is not there yet.
	maxHeld, maxHeldPeer = 128, 16
	// maxLinks bounds the bytes of the links in results that wait for their askers. Pages beyond it must be downloaded again. A single
	// page always has room.
	maxLinks = 32 << 20
)

// Fetch answers a call for a remote fetch when the page is downloaded, or after a while without a result. The peer may repeat the
// call.
func (r *Remote) Fetch(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // nobody waits for the answer: the message may have been under way for long
	}
	if err := r.deps.Clock.Awake(); err != nil {
		return nil, err // it may have come before this node was stopped
	}
	w, answer := refuse("a later life of the node that asks is known")
	r.deps.FromLife(from, req.GetHeader().GetBoot(), func() { w, answer = r.take(from, req) })
	if answer != nil {
		return answer, nil
	}
	if r.hold(from, 1) {
		short, cancel := context.WithTimeout(ctx, r.callFor()/2)
		select {
		case <-w.done:
		case <-short.Done():
		case <-r.stopped:
		}
		cancel()
		r.hold(from, -1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state != ended {
		return &wire.FetchResponse{}, nil
	}
	resp := &wire.FetchResponse{Result: encodeResult(w.result)}
	resp.Links, resp.More = encodeLinks(w.result.Links, int(req.GetLinks()))
	if c, ok := r.deps.Coordinate(); ok {
		resp.Coordinate = c.AppendBinary(nil)
	}
	return resp, nil
}

// hold counts a call that begins to wait (n is 1) or ends (n is -1). It returns false if there is no room for it.
func (r *Remote) hold(peer string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > 0 && (r.holds >= maxHeld || r.held[peer] >= maxHeldPeer) {
		return false
	}
	r.holds += n
	if r.held[peer] += n; r.held[peer] == 0 {
		delete(r.held, peer)
	}
	return true
}

// refuse returns the answer to a message of which no work is made.
func refuse(reason string) (*Work, *wire.FetchResponse) {
	return nil, &wire.FetchResponse{Refused: shorten(reason)}
}

// take returns the work of a message, which it makes at the first call, or the answer if there is to be none.
func (r *Remote) take(from string, req *wire.FetchRequest) (w *Work, answer *wire.FetchResponse) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := workKey{from, req.GetHeader().GetBoot(), req.GetNumber()}
	if w := r.work[key]; w != nil {
		return w, nil
	}
	f, err := decodeFetch(req.GetPage())
	if err != nil {
		return refuse("malformed: " + err.Error())
	}
	if err := r.deps.Check(f.Server); err != nil {
		// A result and no refusal: the asker must note that this node will never reach the server.
		return nil, &wire.FetchResponse{Result: encodeResult(Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Forbidden,
			Reason: "forbidden address: " + err.Error()}})}
	}
	if rule := r.deps.Blocked(f.URL, f.Server); rule != "" {
		return refuse("blocked: " + rule)
	}
	within := min(time.Duration(req.GetWithinMs())*time.Millisecond, r.wait)
	w = &Work{RemoteFetch: f, From: from, Until: time.Now().Add(within), key: key, clock: r.deps.Clock, done: make(chan struct{})}
	if from == r.deps.Self { // its lease is known here
		w.Until = earlier(w.Until, r.deps.LeasedUntil(f.Server))
	}
	switch {
	case r.closed:
		return refuse("the node stops")
	case within <= 0:
		return refuse("it comes too late")
	case r.open >= maxOpen || len(r.work) >= maxWork:
		return nil, &wire.FetchResponse{Result: encodeResult(unmade("too many remote fetches"))}
	case !r.deps.Enqueue(w): // under the lock, so that it does not begin before it is in r.work
		return nil, &wire.FetchResponse{Result: encodeResult(unmade("queue full"))}
	}
	r.work[key] = w
	r.open++
	w.timer = time.AfterFunc(min(r.queueFor(), within), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.state == queued {
			r.endLocked(w, unmade("it waited too long for a fetcher"))
		}
	})
	return w, nil
}

// Start begins the work that is the tag of a task, just before its download. The download must be broken off at Work.Until. Start
// returns false if the work was given back meanwhile, if the node that asked has begun a new life, or if the tag is no Work. Then the task
// ends without a request and without Finished.
func (r *Remote) Start(tag any) (w *Work, ok bool) {
	if w, ok = tag.(*Work); !ok || w == nil {
		return nil, false
	}
	began := false
	same := r.deps.FromLife(w.From, w.key.boot, func() { began = r.start(w) })
	if !same {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.giveBackLocked("who asked has begun a new life", func(other *Work) bool { return other == w })
	}
	if !began {
		return nil, false
	}
	return w, true
}

// start begins work that is queued and still may ask.
func (r *Remote) start(w *Work) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state != queued || w.MayAsk() != nil {
		return false
	}
	w.state = begun
	w.timer.Stop()
	return true
}

// Finished takes the result of work that Start began. It ignores other tags.
func (r *Remote) Finished(tag any, res Result) {
	w, _ := tag.(*Work)
	r.mu.Lock()
	defer r.mu.Unlock()
	if w != nil && w.state == begun {
		r.endLocked(w, res)
	}
}

// UnderWay returns the pages that this node downloads, or will download, for others.
func (r *Remote) UnderWay() []lease.Remote {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []lease.Remote
	for _, w := range r.work {
		if w.state != ended {
			all = append(all, lease.Remote{Server: w.Server, Holder: w.From, Until: w.Until})
		}
	}
	return all
}

// giveBackLocked ends some of the work that has not begun.
func (r *Remote) giveBackLocked(reason string, those func(*Work) bool) {
	for _, w := range r.work {
		if w.state == queued && those(w) {
			r.endLocked(w, unmade(reason))
		}
	}
}

// unmade returns the result of work that never began.
func unmade(reason string) Result {
	return Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: reason}, Unmade: true}
}

// endLocked ends work, and keeps the result while somebody may ask for it, even if it was answered: the answer may be lost, and so may the
// calls after it.
func (r *Remote) endLocked(w *Work, res Result) {
	size := linkBytes(res.Links)
	if size > 0 && r.links > 0 && r.links+size > maxLinks {
		res = Result{Outcome: putBack(true)}
		res.Reason = "too many links wait for those who asked"
		size = 0
	}
	r.links += size
	w.state, w.result = ended, res
	r.open--
	close(w.done)
	w.timer.Stop()
	w.timer = time.AfterFunc(r.wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.work, w.key)
		r.links -= size
	})
}
