package errand

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"proxima/ncoord"
	"proxima/node/wire"
)

// asker is the side that sends errands and waits for their answers.
type asker struct {
	cfg   Config
	deps  Deps
	mail  *courier[*ask]
	local *worker // carries out errands to this node itself

	// mu guards what follows.
	mu     sync.Mutex
	alive  map[string]bool // nil: everybody is
	closed bool
	next   uint64
	asks   map[uint64]*ask
	// late are errands that nobody waits for any more, for whose answers there is still a use.
	late      map[uint64]*ask
	lateOrder []*ask
	count     AskCounts
}

// ask is one errand on its way.
type ask struct {
	id     uint64
	to     string
	errand Errand
	begun  time.Time
	sent   bool       // the peer may have it
	answer chan reply // room for the one reply
}

type reply struct {
	result Result
	err    error
}

func newAsker(cfg Config, deps Deps) *asker {
	a := &asker{cfg: cfg, deps: deps, asks: make(map[uint64]*ask), late: make(map[uint64]*ask)}
	// Ids of two lives of a node must not meet: an answer names no life.
	a.next = rand.Uint64()
	a.mail = newCourier(cfg.Message, func(k *ask) int { return weight(k.errand) }, a.send)
	return a
}

// do is Errands.Do.
func (a *asker) do(ctx context.Context, to string, e Errand) (Result, error) {
	k := &ask{to: to, errand: e, begun: time.Now(), answer: make(chan reply, 1)}
	if err := a.enter(k); err != nil {
		return Result{}, fmt.Errorf("ask %s for %s: %w", to, e.URL, err)
	}
	if to == a.deps.Self {
		reason := notLent
		if within, ok := a.within(e, 0); ok {
			reason = a.local.take(to, k.id, e, within)
		}
		if reason != "" {
			a.end(k.id, to, reply{err: &RefusedError{Peer: to, Reason: reason}})
		}
	} else {
		a.mail.add(to, k, a.cfg.Gather, 0, time.Time{})
	}
	timer := time.NewTimer(a.cfg.Wait)
	defer timer.Stop()
	var err error
	select {
	case r := <-k.answer:
		return a.replied(k, r)
	case <-timer.C:
		err = ErrUnanswered
	case <-ctx.Done():
		err = ctx.Err()
	}
	if !a.abandon(k) { // the answer came between the two
		return a.replied(k, <-k.answer)
	}
	return a.replied(k, reply{err: err})
}

func (a *asker) replied(k *ask, r reply) (Result, error) {
	if r.err == nil {
		return r.result, nil
	}
	res := Result{}
	var refused *RefusedError
	if !errors.As(r.err, &refused) { // it may have been taken
		res.Lingers = max(0, time.Until(k.begun.Add(a.cfg.Wait-a.cfg.Margin)))
	}
	return res, fmt.Errorf("ask %s for %s: %w", k.to, k.errand.URL, r.err)
}

// notLent is why an errand is not even sent.
const notLent = "the lease of its server is about to end"

// within says for how long the download of an errand may go on, 0 for as long as errands may, if it gets under way within a
// time from now; false: not at all.
func (a *asker) within(e Errand, underWay time.Duration) (within time.Duration, ok bool) {
	if a.deps.Lent == nil {
		return 0, true
	}
	within = time.Until(a.deps.Lent(e.Server)) - underWay
	return within, within >= time.Millisecond
}

// enter gives an ask its number, if it may be made.
func (a *asker) enter(k *ask) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return ErrClosed
	case a.gone(k.to):
		a.count.Gone++
		return ErrGone
	case len(a.asks) >= a.cfg.Waiting:
		a.count.Full++
		return ErrFull
	}
	a.next++
	k.id = a.next
	a.asks[k.id] = k
	a.count.Asked++
	return nil
}

// gone needs mu held.
func (a *asker) gone(id string) bool { return a.alive != nil && id != a.deps.Self && !a.alive[id] }

// end replies to who waits for an errand, and reports whether somebody does. Only the peer that was asked may.
func (a *asker) end(id uint64, from string, r reply) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	k := a.asks[id]
	if k == nil || k.to != from {
		return false
	}
	delete(a.asks, id)
	k.answer <- r
	switch {
	case r.err != nil:
		a.count.Refused++
	case r.result.Unmade:
		a.count.Unmade++
	default:
		a.count.Answered++
	}
	return true
}

// abandon ends the wait for an errand, and reports false if its reply has come.
func (a *asker) abandon(k *ask) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asks[k.id] != k {
		return false
	}
	delete(a.asks, k.id)
	a.count.Unanswered++
	a.keepLate(k)
	return true
}

// lateFor is how long the answer to an abandoned errand is still of use.
const lateFor = 10 * time.Minute

// keepLate remembers an errand for its late answer. It needs mu held.
func (a *asker) keepLate(k *ask) {
	now := time.Now()
	for len(a.lateOrder) > 0 && (len(a.lateOrder) >= a.cfg.Waiting || now.Sub(a.lateOrder[0].begun) > lateFor) {
		delete(a.late, a.lateOrder[0].id)
		a.lateOrder = a.lateOrder[1:]
	}
	a.late[k.id] = k
	a.lateOrder = append(a.lateOrder, k)
}

// send carries errands to a peer; those that nobody waits for any more stay behind.
func (a *asker) send(ctx context.Context, to string, asks []*ask) (again []*ask) {
	now := time.Now()
	req := new(wire.AskRequest)
	until := now.Add(a.cfg.CallTimeout)
	kept := asks[:0]
	var unlent []*ask
	a.mu.Lock()
	for _, k := range asks {
		last := k.begun.Add(a.cfg.AskFor)
		within, ok := a.within(k.errand, a.cfg.CallTimeout)
		switch {
		case a.asks[k.id] != k: // answered or abandoned
			continue
		case !last.After(now), !ok && k.sent:
			// From now on the peer might take it too late. It may have it already: the wait goes on.
			a.count.Unsent++
			continue
		case !ok:
			unlent = append(unlent, k)
			continue
		case last.Before(until):
			until = last
		}
		req.Errands = append(req.Errands, encodeErrand(k.id, k.errand, within))
		kept, k.sent = append(kept, k), true
	}
	a.mu.Unlock()
	for _, k := range unlent {
		a.end(k.id, to, reply{err: &RefusedError{Peer: a.deps.Self, Reason: notLent}})
	}
	if len(kept) == 0 {
		return nil
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	res, err := a.deps.Peers.Ask(ctx, to, req)
	if err != nil {
		return kept
	}
	for i, id := range res.GetRefused() {
		reason := "no reason given"
		if i < len(res.GetReasons()) {
			reason = cut(res.GetReasons()[i])
		}
		a.end(id, to, reply{err: &RefusedError{Peer: to, Reason: reason}})
	}
	return nil
}

// take is Errands.Answer.
func (a *asker) take(from string, req *wire.AnswerRequest) (*wire.AnswerResponse, error) {
	if len(req.GetResults()) > maxMessage {
		return nil, fmt.Errorf("take answers: %d are more than %d", len(req.GetResults()), maxMessage)
	}
	coord, coordErr := ncoord.DecodeCoordinate(req.GetCoordinate())
	for _, m := range req.GetResults() {
		r, err := decodeResult(m)
		if err != nil {
			a.strange()
			continue
		}
		if coordErr == nil {
			r.Coord, r.Placed = coord, true
		}
		a.answered(from, m.GetId(), r)
	}
	if len(req.GetCoordinate()) > 0 && coordErr != nil {
		a.strange()
	}
	return &wire.AnswerResponse{}, nil
}

// answered gives a result to who waits for it, or to Late.
func (a *asker) answered(from string, id uint64, r Result) {
	if a.end(id, from, reply{result: r}) {
		return
	}
	a.mu.Lock()
	k := a.late[id]
	if k == nil || k.to != from {
		a.count.Unknown++
		a.mu.Unlock()
		return
	}
	delete(a.late, id)
	a.count.Late++
	a.mu.Unlock()
	if a.deps.Late != nil && !r.Unmade {
		a.deps.Late(from, k.errand, r)
	}
}

func (a *asker) strange() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.count.Strange++
}

// setAlive ends the wait for peers that are not alive.
func (a *asker) setAlive(alive map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alive = alive
	for id, k := range a.asks {
		if a.gone(k.to) {
			delete(a.asks, id)
			a.count.Gone++
			a.keepLate(k)
			k.answer <- reply{err: ErrGone}
		}
	}
}

// close ends all waits: no answer can come any more.
func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, k := range a.asks {
		delete(a.asks, id)
		k.answer <- reply{err: ErrClosed}
	}
}

func (a *asker) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asks) > 0
}

func (a *asker) status() AskCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.count
	c.Waiting, c.LateKept = len(a.asks), len(a.late)
	return c
}
