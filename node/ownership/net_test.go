package ownership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/wire"
)

var errNoAnswer = errors.New("no answer")

// send carries a call to a node. Now and then the request is late, lost or arrives twice, or the answer is lost.
func send[R any](ctx context.Context, l *life, to string, handle func(ctx context.Context, peer *life) (*R, error)) (*R, error) {
	w := l.w
	l.gate()
	i := slices.IndexFunc(w.all(), func(b *actor) bool { return b.id == to })
	if i < 0 || l.isDead() {
		return nil, errNoAnswer
	}
	if i == l.at {
		return handle(ctx, l)
	}
	type answer struct {
		res *R
		err error
	}
	answers := make(chan answer, 2)
	for range 1 + max(0, 1-w.draw(50)) { // now and then it arrives twice
		delay := 5*time.Millisecond + w.upTo(100*time.Millisecond)
		if w.hit(&w.late) {
			delay = w.upTo(30 * time.Second)
		}
		delay += w.lagOf(l.at, i)
		go func() {
			_ = bell.Sleep(w.ctx, delay)
			peer := w.reach(l.at, i)
			deaf, mute := w.troubles(i, fmt.Sprintf("%T", new(R)))
			if peer == nil || w.hit(&w.loss) || deaf {
				return
			}
			peer.gate()
			if peer.isDead() {
				return
			}
			ctx, cancel := context.WithTimeout(w.ctx, patience)
			defer cancel()
			res, err := handle(ctx, peer)
			_ = bell.Sleep(w.ctx, 5*time.Millisecond+w.upTo(100*time.Millisecond)+w.lagOf(i, l.at))
			if !peer.isDead() && !w.hit(&w.loss) && !mute && w.reach(i, l.at) == l {
				answers <- answer{res, err}
			}
		}()
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case a := <-answers:
		l.gate()
		return a.res, a.err
	case <-ctx.Done():
		l.gate()
		return nil, errNoAnswer
	}
}

// patience is how long a call waits for its answer.
const patience = 10 * time.Second

// reach returns the life that a message arrives at, nil if it does not arrive.
func (w *world) reach(from, to int) *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.nodes[to]; b.stop != nil && !b.now.dead && !w.cut[[2]int{from, to}] && !b.mute && !w.nodes[from].mute {
		return b.now
	}
	return nil
}

// lagOf returns how much longer a message takes from one node to another.
func (w *world) lagOf(from, to int) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lags[[2]int{from, to}] {
		return 0
	}
	return w.lag[0] + time.Duration(w.rng.IntN(int(w.lag[1]-w.lag[0])))
}

// troubles reports whether a node carries out no calls with such an answer, and whether it carries them out and does not answer.
func (w *world) troubles(at int, answer string) (deaf, mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	kinds := w.picky[at]
	if kinds == nil {
		return false, false
	}
	if _, drawn := kinds[answer]; !drawn {
		kinds[answer] = w.rng.IntN(6)
	}
	return kinds[answer] == 1, kinds[answer] == 2
}

// calls carries the calls of ownership.
func (l *life) calls() peer.Calls {
	return peer.Calls{Renew: call(l, (*Ownership).Renew), Claim: call(l, (*Ownership).Claim), Store: call(l, (*Ownership).Store),
		Load: call(l, (*Ownership).Load), Commit: call(l, (*Ownership).Commit)}
}

func call[Q, R any](l *life, handle func(*Ownership, context.Context, string, *Q) (*R, error)) peer.Call[Q, R] {
	return func(_ context.Context, to string, req *Q) (*R, error) {
		return send(l.w.ctx, l, to, func(ctx context.Context, callee *life) (*R, error) { return handle(callee.owner, ctx, l.id, req) })
	}
}

// Lease and Rights carry the calls of leases.

func (l *life) Lease(ctx context.Context, to string, q *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	q = &wire.LeaseRequest{Header: l.header(), Items: q.GetItems()}
	return send(ctx, l, to, func(ctx context.Context, peer *life) (*wire.LeaseResponse, error) {
		return peer.grantor.Lease(ctx, l.id, q)
	})
}

func (l *life) Rights(ctx context.Context, to string, q *wire.RightsRequest) (*wire.RightsResponse, error) {
	q = &wire.RightsRequest{Header: l.header(), View: q.GetView(), Members: q.GetMembers(), Lives: q.GetLives()}
	return send(ctx, l, to, func(ctx context.Context, peer *life) (*wire.RightsResponse, error) {
		return peer.holder.Rights(ctx, l.id, q)
	})
}

func (l *life) header() *wire.Header {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.messages++
	return &wire.Header{Version: 1, Sender: l.id, Boot: l.boot, Id: l.messages}
}
