package placement

import (
	"context"
	"fmt"
	"time"

	"proxima/frontier"
	"proxima/node/lease"
	"proxima/node/wire"
)

// Work is a remote fetch that this node carries out. It is the tag of the frontier's task.
type Work struct {
	RemoteFetch
	// From is the node that asked.
	From string
	// Until is when the download must be over: the asker stops waiting soon after, or may lose the server.
	Until time.Time

	clock *lease.Clock
	right lease.Right // until Until, by both clocks
	key   workKey
	timer *time.Timer // gives it back, or, when it has ended, forgets it
	done  chan struct{}
	// state is guarded by the lock of Remote, result final when done is closed.
	state  workState
	result Result
}

// MayAsk says why the request of this work must not be written now. It is to be asked just before the first byte: the lease is
// that of who asked, and this node may have been stopped since.
func (w *Work) MayAsk() error {
	if err := w.clock.Check(w.right); err != nil {
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

// workKey tells one page from another, however often it is asked for.
type workKey struct {
	from   string
	number uint64
}

const (
	// maxOpen bounds the pages for peers that are here and not downloaded yet; further ones are refused.
	maxOpen = 2_000
	// maxWork bounds those that are remembered, so that what is asked for twice is downloaded once.
	maxWork = 8 * maxOpen
	// maxHeld and maxHeldPeer bound the calls that wait here for a download, of all peers and of one: calls of other kinds
	// need their places. Who asks beyond that hears at once that the page is not there yet.
	maxHeld, maxHeldPeer = 128, 16
	// maxLinks bounds the bytes of the links that wait here for those who asked for their pages. Pages beyond it are downloaded
	// again; one page has room however many links it has.
	maxLinks = 32 << 20
)

// Fetch carries out a remote fetch of a peer, and answers when the page is downloaded, or after a while that it is not yet: the
// handler of the call of that name. The same may come twice.
func (r *Remote) Fetch(ctx context.Context, from string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	refused := "a later life of the node that asks is known"
	var w *Work
	r.deps.FromLife(from, req.GetHeader().GetBoot(), func() { w, refused = r.take(from, req) })
	if refused != "" {
		return &wire.FetchResponse{Refused: cut(refused)}, nil
	}
	if r.hold(from, 1) {
		short, cancel := context.WithTimeout(ctx, r.cfg.call()/2)
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
	w.timer.Reset(2 * r.cfg.call()) // an answer that is lost is asked for again by then
	resp := &wire.FetchResponse{Result: encodeResult(w.result)}
	resp.Links, resp.More = encodeLinks(w.result.Links, int(req.GetLinks()))
	if c, ok := r.deps.Coordinate(); ok {
		resp.Coordinate = c.AppendBinary(nil)
	}
	return resp, nil
}

// hold counts a call of a peer that waits, or waits no more; false if there is no room for it.
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

// take finds or makes the work of a message, or says why there is none.
func (r *Remote) take(from string, req *wire.FetchRequest) (w *Work, refused string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := workKey{from, req.GetNumber()}
	if w := r.work[key]; w != nil {
		return w, ""
	}
	f, err := decodeFetch(req.GetPage())
	if err != nil {
		return nil, "malformed: " + err.Error()
	}
	if err := r.deps.Check(f.Server); err != nil {
		return nil, "forbidden address: " + err.Error()
	}
	if rule := r.deps.Blocked(f.URL, f.Server); rule != "" {
		return nil, "blocked: " + rule
	}
	within := min(time.Duration(req.GetWithinMs())*time.Millisecond, r.cfg.Wait)
	w = &Work{RemoteFetch: f, From: from, Until: time.Now().Add(within), key: key, clock: r.deps.Clock, done: make(chan struct{})}
	if from == r.deps.Self { // its lease is known here
		w.Until = earlier(w.Until, r.deps.Lent(f.Server))
	}
	w.right = lease.NewRight(w.Until)
	switch {
	case r.closed:
		return nil, "the node stops"
	case within <= 0:
		return nil, "it comes too late"
	case r.open >= maxOpen || len(r.work) >= maxWork:
		return nil, "too many remote fetches"
	case !r.deps.Enqueue(w): // under the lock, so that nobody begins what is not noted yet
		return nil, "queue full"
	}
	r.work[key] = w
	r.open++
	w.timer = time.AfterFunc(min(r.cfg.queue(), within), func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.state == queued {
			r.endLocked(w, unmade("it waited too long for a fetcher"))
		}
	})
	return w, ""
}

// Start says whether work may still be carried out; it is called with the tag of a task just before its download, which
// must be broken off at Work.Until. Where it was given back meanwhile, or the tag is none of this room, it returns false,
// and the task ends without a request and without Finished.
func (r *Remote) Start(tag any) (*Work, bool) {
	w, _ := tag.(*Work)
	r.mu.Lock()
	defer r.mu.Unlock()
	if w == nil || w.state != queued || w.MayAsk() != nil {
		return nil, false
	}
	w.state = begun
	w.timer.Stop()
	return w, true
}

// Finished takes the result of work that Start had let go: who asked gets it, with this node's coordinate. Other tags are ignored.
func (r *Remote) Finished(tag any, res Result) {
	w, _ := tag.(*Work)
	r.mu.Lock()
	defer r.mu.Unlock()
	if w != nil && w.state == begun {
		r.endLocked(w, res)
	}
}

// UnderWay are the pages that this node downloads, or is to download, for others.
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

// giveBackLocked ends the work that has not begun and is one of those.
func (r *Remote) giveBackLocked(reason string, those func(*Work) bool) {
	for _, w := range r.work {
		if w.state == queued && those(w) {
			r.endLocked(w, unmade(reason))
		}
	}
}

func unmade(reason string) Result {
	return Result{Unmade: true, Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: reason}
}

// endLocked keeps the result of work for as long as somebody may wait for it.
func (r *Remote) endLocked(w *Work, res Result) {
	size := linkBytes(res.Links)
	if size > 0 && r.links > 0 && r.links+size > maxLinks {
		res = Result{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: true, Reason: "too many links wait for those who asked"}
		size = 0
	}
	r.links += size
	w.state, w.result = ended, res
	r.open--
	close(w.done)
	w.timer.Stop()
	w.timer = time.AfterFunc(r.cfg.Wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.work, w.key)
		r.links -= size
	})
}
