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

	id       uint64
	clock    *lease.Clock
	right    lease.Right // until Until, by both clocks
	received time.Time
	overdue  *time.Timer // gives it back
	// state is guarded by the lock of Remote.
	state workState
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

type workKey struct {
	from string
	id   uint64
}

type endedWork struct {
	key workKey
	at  time.Time
}

// Ask takes remote fetches of a peer: the handler of the call of that name. It acknowledges at once, and names those that
// are not taken, with reasons. The same may come twice.
func (r *Remote) Ask(_ context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	res := new(wire.AskResponse)
	for i, m := range req.GetErrands() {
		reason := "too many in one message"
		if i < maxMessage {
			if f, err := decodeFetch(m); err != nil {
				reason = "malformed: " + err.Error()
			} else {
				reason = r.take(from, m.GetId(), f, within(m))
			}
		}
		if reason != "" {
			res.Refused = append(res.Refused, m.GetId())
			res.Reasons = append(res.Reasons, cut(reason))
		}
	}
	return res, nil
}

// take makes work of a remote fetch whose download must be over within a time, 0 for as long as they may take, or says why not.
func (r *Remote) take(from string, id uint64, f RemoteFetch, within time.Duration) (reason string) {
	key := workKey{from, id}
	if err := r.deps.Check(f.Server); err != nil {
		return "forbidden address: " + err.Error()
	}
	if rule := r.deps.Blocked(f.URL, f.Server); rule != "" {
		return "blocked: " + rule
	}
	now := time.Now()
	w := &Work{RemoteFetch: f, From: from, id: id, received: now, Until: now.Add(r.cfg.Wait - r.cfg.askFor() - r.cfg.margin())}
	if within > 0 {
		w.Until = earlier(w.Until, now.Add(within))
	}
	if from == r.deps.Self { // nothing is lost on the way
		w.Until = earlier(w.Until, r.deps.Lent(f.Server))
	}
	w.clock, w.right = r.deps.Clock, lease.NewRight(w.Until)
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.work[key]
	_, over := r.recent[key]
	switch {
	case known || over:
		return ""
	case r.closed:
		return "the node stops"
	case len(r.work) >= r.cfg.Jobs:
		return "too many remote fetches"
	case !r.deps.Enqueue(w): // under the lock, so that nobody begins what is not noted yet
		return "queue full"
	}
	r.work[key] = w
	w.overdue = time.AfterFunc(r.cfg.Queue, func() { r.giveBack(w, "it waited too long for a fetcher") })
	return ""
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Start says whether work may still be carried out; it is called with the tag of a task just before its download, which
// must be broken off at Work.Until. Where it was given back meanwhile, or the tag is none of this room, it returns false,
// and the task ends without a request and without Finished.
func (r *Remote) Start(tag any) (*Work, bool) {
	w, ok := tag.(*Work)
	if !ok || w == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state != queued || r.work[workKey{w.From, w.id}] != w || time.Since(w.received) >= r.cfg.Queue || w.MayAsk() != nil {
		return nil, false
	}
	w.state = begun
	w.overdue.Stop()
	return w, true
}

// Finished takes the result of work that Start had let go, and brings it to who asked. Unknown tags are ignored. The
// result's coordinate is filled in here.
func (r *Remote) Finished(tag any, res Result) {
	if w, ok := tag.(*Work); ok && w != nil {
		r.finish(w, begun, res)
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

// giveBack ends work that has not begun.
func (r *Remote) giveBack(w *Work, reason string) {
	r.finish(w, queued, Result{Unmade: true, Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: reason})
}

// finish ends work in a state, and lets its answer go.
func (r *Remote) finish(w *Work, in workState, res Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.state != in || r.work[workKey{w.From, w.id}] != w || r.life.Err() != nil {
		return
	}
	w.state = ended
	r.answers.Go(func() { r.answer(w, res) })
}

// answer brings a result to who asked, for as long as that may be waiting; once only when the node stops.
func (r *Remote) answer(w *Work, res Result) {
	req := &wire.AnswerRequest{Results: []*wire.ErrandResult{encodeResult(w.id, res)}}
	if c, ok := r.deps.Coordinate(); ok {
		req.Coordinate = c.AppendBinary(nil)
	}
	last := time.Now().Add(r.cfg.Wait)
	for try := 1; r.life.Err() == nil && time.Now().Before(last); try++ {
		ctx, cancel := context.WithTimeout(r.life, r.cfg.callTimeout())
		_, err := r.deps.Peers.Answer(ctx, w.From, req)
		cancel()
		r.mu.Lock()
		over := err == nil || r.closed
		r.mu.Unlock()
		if over {
			break
		}
		rest := time.NewTimer(pause(try))
		select {
		case <-rest.C:
		case <-r.life.Done():
			rest.Stop()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(w)
}

// forgetLocked ends work for good, but for the memory that it was. It needs mu.
func (r *Remote) forgetLocked(w *Work) {
	key := workKey{w.From, w.id}
	w.state = ended
	w.overdue.Stop()
	delete(r.work, key)
	now := time.Now()
	// An ask is repeated for a while after it was first sent, and no message is under way for longer than a call.
	old := 2 * (r.cfg.askFor() + r.cfg.callTimeout())
	for len(r.recentOrder) > 0 && (now.Sub(r.recentOrder[0].at) > old || len(r.recentOrder) >= 8*r.cfg.Jobs) {
		delete(r.recent, r.recentOrder[0].key)
		r.recentOrder = r.recentOrder[1:]
	}
	r.recent[key] = struct{}{}
	r.recentOrder = append(r.recentOrder, endedWork{key, now})
}

// giveUp gives back everything that has not begun.
func (r *Remote) giveUp() {
	r.mu.Lock()
	var back []*Work
	for _, w := range r.work {
		if w.state == queued {
			back = append(back, w)
		}
	}
	r.mu.Unlock()
	for _, w := range back {
		r.giveBack(w, "the node stops")
	}
}
