package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/view"
)

const (
	// drainAtOnce is how many hosts are handed over at the same time.
	drainAtOnce = 8
	// drainAgain is how long a node waits before it tries those that could not go.
	drainAgain = time.Second
	// moveWait is for how long a move is tried again that has to wait for something.
	moveWait = 10 * time.Second
)

// Drain hands over every host that this node owns: to its home, or where that is this node, to the node that will be. Hosts that cannot go now are
// tried again. From now on no other node can make this one an owner. It ends when no host is left, or with the context; left is told, again and
// again, how many there are and what holds the last of them up.
func (rc *reconciler) Drain(ctx context.Context, left func(hosts int64, trouble error)) error {
	rc.draining.Store(true)
	for {
		var hosts atomic.Int64
		var trouble atomic.Pointer[error]
		if err := rc.records.visit(func(r Record) error {
			if r.Owner == rc.self() {
				hosts.Add(1)
			}
			return ctx.Err()
		}); err != nil {
			return err
		}
		left(hosts.Load(), nil)
		if hosts.Load() == 0 {
			return nil
		}
		err := rc.records.pages(func(page []Record) error {
			var g errgroup.Group
			g.SetLimit(drainAtOnce)
			for _, r := range page {
				if v := rc.view(); r.Owner == v.Self {
					g.Go(func() error {
						if err := rc.HandOff(ctx, r.Host, heir(v, r.Host), false, "this node is drained"); err != nil {
							trouble.Store(&err)
							return nil
						}
						hosts.Add(-1)
						return nil
					})
				}
			}
			_ = g.Wait()
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		if last := trouble.Load(); last != nil {
			left(hosts.Load(), *last)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(drainAgain):
			}
		}
	}
}

// heir is who gets a host of this node when it is drained; "" where nobody is there.
func heir(v view.View, host string) string {
	if home := v.Home(host); home != v.Self {
		return home
	}
	return v.Replica(host, v.Self)
}

// Move hands a host over to a member as its assigned owner. Where one of the two is busy with the host it tries again for a while.
func (rc *reconciler) Move(ctx context.Context, host, to string) error {
	v := rc.view()
	switch r, ok, err := rc.records.get(host); {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("move %s: %w, as far as it knows", host, ErrNotOwner)
	case r.Owner != v.Self:
		return fmt.Errorf("move %s: %w: that is %s, which can move it", host, ErrNotOwner, r.Owner)
	case to == v.Self:
		return fmt.Errorf("move %s: it is there", host)
	case !v.IsAlive(to):
		return fmt.Errorf("move %s: %s is no member that answers", host, to)
	}
	for until := time.Now().Add(moveWait); ; {
		err := rc.HandOff(ctx, host, to, true, "moved by the operator")
		if !errors.Is(err, errLater) || !time.Now().Before(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(drainAgain):
		}
	}
}
