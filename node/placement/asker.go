package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/ncoord"
	"proxima/node/wire"
)

// ask is one remote fetch that waits for its answer.
type ask struct {
	id     uint64
	to     string
	fetch  RemoteFetch
	begun  time.Time
	cancel context.CancelCauseFunc
	answer chan Result // room for the one answer
}

// Do lets a peer (or this node itself) carry out a remote fetch and returns what became of it. Besides that of the context
// its errors are ErrUnanswered, ErrGone, ErrClosed and RefusedError; of the result counts Lingers then.
func (r *Remote) Do(ctx context.Context, to string, f RemoteFetch) (res Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k := &ask{to: to, fetch: f, begun: time.Now(), cancel: cancel, answer: make(chan Result, 1)}
	if err := r.enter(k); err != nil {
		return Result{}, fmt.Errorf("ask %s for %s: %w", to, f.URL, err)
	}
	ctx, stop := context.WithDeadlineCause(ctx, k.begun.Add(r.cfg.Wait), ErrUnanswered)
	defer stop()
	if err = r.tell(ctx, k); err == nil {
		select {
		case res = <-k.answer:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	r.mu.Lock()
	delete(r.asks, k.id)
	r.mu.Unlock()
	if err == nil {
		return res, nil
	}
	select {
	case res = <-k.answer: // it came between the two
		return res, nil
	default:
	}
	var refused *RefusedError
	if !errors.As(err, &refused) { // it may have been taken
		res.Lingers = max(0, time.Until(k.begun.Add(r.cfg.Wait-r.cfg.margin())))
	}
	return res, fmt.Errorf("ask %s for %s: %w", to, f.URL, err)
}

// enter gives an ask its number, if it may be made.
func (r *Remote) enter(k *ask) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrClosed
	case r.alive != nil && !r.alive[k.to]:
		return ErrGone
	}
	r.next++
	k.id = r.next
	r.asks[k.id] = k
	return nil
}

// notLent is why a remote fetch is not even sent.
const notLent = "the lease of its server is about to end"

// tell sends an ask until the peer acknowledges it. Without an error the wait for the answer goes on: the peer has it, or may.
func (r *Remote) tell(ctx context.Context, k *ask) error {
	last := k.begun.Add(r.cfg.askFor())
	for try := 1; ; try++ {
		// For how long the download may go on, should the message take as long as it may.
		within := time.Until(r.deps.Lent(k.fetch.Server))
		if k.to != r.deps.Self {
			within -= r.cfg.callTimeout()
		}
		switch {
		case within < time.Millisecond && try == 1:
			return &RefusedError{Peer: r.deps.Self, Reason: notLent}
		case within < time.Millisecond, !time.Now().Before(last):
			return nil // from now on the peer might take it too late; it may have it already
		}
		err := r.send(ctx, k, within, last)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) {
			return err
		}
		rest := time.NewTimer(pause(try))
		select {
		case <-rest.C:
		case res := <-k.answer: // the acknowledgement was lost, the answer was not
			k.answer <- res
			rest.Stop()
			return nil
		case <-ctx.Done():
			rest.Stop()
			return context.Cause(ctx)
		}
	}
}

// send makes one try.
func (r *Remote) send(ctx context.Context, k *ask, within time.Duration, last time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.callTimeout(), time.Until(last)))
	defer cancel()
	res, err := r.deps.Peers.Ask(ctx, k.to, &wire.AskRequest{Errands: []*wire.Errand{encodeFetch(k.id, k.fetch, within)}})
	if err != nil {
		return err
	}
	for i, id := range res.GetRefused() {
		if id != k.id {
			continue
		}
		reason := "no reason given"
		if i < len(res.GetReasons()) {
			reason = cut(res.GetReasons()[i])
		}
		return &RefusedError{Peer: k.to, Reason: reason}
	}
	return nil
}

// Answer takes the results of remote fetches from the peer that made them: the handler of the call of that name. Results that
// nobody asked this peer for, or that make no sense, change nothing.
func (r *Remote) Answer(_ context.Context, from string, req *wire.AnswerRequest) (*wire.AnswerResponse, error) {
	if len(req.GetResults()) > maxMessage {
		return nil, fmt.Errorf("take answers: %d are more than %d", len(req.GetResults()), maxMessage)
	}
	coord, unplaced := ncoord.DecodeCoordinate(req.GetCoordinate())
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range req.GetResults() {
		res, err := decodeResult(m)
		k := r.asks[m.GetId()]
		if err != nil || k == nil || k.to != from {
			continue
		}
		if unplaced == nil {
			res.Coord, res.Placed = coord, true
		}
		delete(r.asks, k.id)
		k.answer <- res
	}
	return &wire.AnswerResponse{}, nil
}

// close ends all waits: no answer can come any more.
func (r *Remote) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, k := range r.asks {
		k.cancel(ErrClosed)
	}
}
