package ownership

import (
	"context"
	"errors"
	"slices"
	"time"

	"proxima/node/bell"
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
		go func() {
			_ = bell.Sleep(w.ctx, delay)
			peer := w.reach(l.at, i)
			if peer == nil || w.hit(&w.loss) {
				return
			}
			peer.gate()
			if peer.isDead() {
				return
			}
			ctx, cancel := context.WithTimeout(w.ctx, patience)
			defer cancel()
			res, err := handle(ctx, peer)
			_ = bell.Sleep(w.ctx, 5*time.Millisecond+w.upTo(100*time.Millisecond))
			if !peer.isDead() && !w.hit(&w.loss) && w.reach(i, l.at) == l {
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
	if b := w.nodes[to]; b.stop != nil && !b.now.dead && !w.cut[[2]int{from, to}] {
		return b.now
	}
	return nil
}

// call carries a message of ownership to another node.
func call[Q, R any](l *life, to string, req *Q, handle func(*Ownership, context.Context, string, *Q) (*R, error)) (*R, error) {
	return send(l.w.ctx, l, to, func(ctx context.Context, peer *life) (*R, error) { return handle(peer.owner, ctx, l.id, req) })
}

func (l *life) Renew(_ context.Context, to string, q *wire.RenewRequest) (*wire.RenewResponse, error) {
	return call(l, to, q, (*Ownership).Renew)
}

func (l *life) Claim(_ context.Context, to string, q *wire.ClaimRequest) (*wire.ClaimResponse, error) {
	return call(l, to, q, (*Ownership).Claim)
}

func (l *life) Store(_ context.Context, to string, q *wire.StoreRequest) (*wire.StoreResponse, error) {
	return call(l, to, q, (*Ownership).Store)
}

func (l *life) Load(_ context.Context, to string, q *wire.LoadRequest) (*wire.LoadResponse, error) {
	return call(l, to, q, (*Ownership).Load)
}

func (l *life) Commit(_ context.Context, to string, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	return call(l, to, q, (*Ownership).Commit)
}

// Lease and Rights implement lease.Peers.

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
