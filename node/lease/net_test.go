package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

var errLost = errors.New("lost")

// Lease carries a call, and checks that a grantor gets one call at a time.
func (n *fakeNode) Lease(ctx context.Context, to string, req *wire.LeaseRequest) (*wire.LeaseResponse, error) {
	if _, busy := n.calls.LoadOrStore(to, true); busy {
		n.w.t.Errorf("%s calls %s twice at a time", n.id, to)
	}
	defer n.calls.Delete(to)
	req = proto.Clone(req).(*wire.LeaseRequest)
	req.Header = n.header()
	return send(ctx, n, to, func(ctx context.Context, callee *fakeNode) (*wire.LeaseResponse, error) {
		res, err := callee.grantor.Lease(ctx, n.id, req)
		if err == nil {
			n.w.seen(n.id, to, req, res)
		}
		return res, err
	})
}

// Rights carries a call.
func (n *fakeNode) Rights(ctx context.Context, to string, req *wire.RightsRequest) (*wire.RightsResponse, error) {
	req = proto.Clone(req).(*wire.RightsRequest)
	req.Header = n.header()
	return send(ctx, n, to, func(ctx context.Context, callee *fakeNode) (*wire.RightsResponse, error) {
		return callee.holder.Rights(ctx, n.id, req)
	})
}

// remotes returns the pages that the node downloads for others, as set by a test.
func (n *fakeNode) remotes() []Remote {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.remote)
}

func (n *fakeNode) header() *wire.Header {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.msgs++
	return &wire.Header{Version: 1, Sender: n.id, Boot: n.boot, Id: n.msgs}
}

// send carries a call to a node.
func send[T any](ctx context.Context, n *fakeNode, to string, handle func(context.Context, *fakeNode) (T, error)) (none T, _ error) {
	w := n.w
	if n.isDead() {
		return none, errLost
	}
	if to == n.id {
		return handle(ctx, n)
	}
	times := 1
	if w.misfortune(w.repeat) {
		times = 2
	}
	answer := make(chan T, times)
	for range times {
		d := w.oneWay()
		if w.misfortune(w.late) {
			d = time.Duration(w.random() * float64(30*time.Second))
		}
		if w.misfortune(w.loss) {
			continue
		}
		w.wg.Go(func() {
			time.Sleep(d)
			callee := w.reach(n.id, to)
			if callee == nil {
				return
			}
			callee.thawed()
			resp, err := handle(context.Background(), callee)
			if err != nil || w.misfortune(w.loss) {
				return
			}
			time.Sleep(w.oneWay())
			answer <- resp
		})
	}
	select {
	case resp := <-answer:
		n.thawed()
		if n.isDead() || w.reach(to, n.id) == nil {
			return none, errLost
		}
		return resp, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// reach returns the node that a message arrives at, nil if it does not arrive.
func (w *world) reach(from, to string) *fakeNode {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[[2]string{from, to}] || w.cut[[2]string{to, from}] {
		return nil
	}
	return w.nodes[to]
}
