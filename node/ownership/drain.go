package ownership

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/node/bell"
	"proxima/node/view"
)

const (
	// drainAtOnce is how many hosts are handed over in parallel.
	drainAtOnce = 8
	// drainAgain is the pause before hosts that could not go are tried again.
	drainAgain = time.Second
	// moveWait is how long Move keeps trying while a node is busy with the host.
	moveWait = 10 * time.Second
)

// Drain hands over every host that this node owns: to its home, or if that is this node or drained, too, to the next home. It tries again
// until no host is left or the context ends. From now on this node refuses hosts. left hears repeatedly how many hosts remain, and what
// kept the last one.
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
						if err := rc.bequeath(ctx, r.Host, v); err != nil {
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
			if err := bell.Sleep(ctx, drainAgain); err != nil {
				return err
			}
		}
	}
}

// bequeath hands a host of a node that is drained to the first of its next homes that takes it. Two nodes that are drained at once must not
// wait for each other.
func (rc *reconciler) bequeath(ctx context.Context, host string, v view.View) error {
	to := v.Heir(host, v.Self, 0)
	for next := 1; ; next++ {
		err := rc.HandOff(ctx, host, to, false, "this node is drained")
		if to = v.Heir(host, v.Self, next); to == "" || !errors.Is(err, errRefused) {
			return err
		}
	}
}

// Move hands a host over to a member as its assigned owner. It retries for a while if one of the two is busy with the host.
func (rc *reconciler) Move(ctx context.Context, host, to string) error {
	v := rc.view()
	switch r, err := rc.records.get(host); {
	case err != nil:
		return err
	case r.Owner == "":
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
		if bell.Sleep(ctx, drainAgain) != nil {
			return err
		}
	}
}
