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
// until no host is left or the context ends. It also waits for hosts whose owner is gone while a copy is here, which may be the only one: they
// are taken over first. From now on this node refuses hosts. left hears repeatedly how many hosts remain, and what kept the last one.
func (rc *reconciler) Drain(ctx context.Context, left func(hosts int64, trouble error)) error {
	rc.draining.Store(true)
	var trouble error
	for {
		var hosts int64
		if err := rc.records.visit(func(r Record) error {
			stays, err := rc.needed(ctx, r, rc.view())
			if stays {
				hosts++
			}
			return errors.Join(err, ctx.Err())
		}); err != nil {
			return err
		}
		left(hosts, trouble)
		if hosts == 0 {
			return nil
		}
		if trouble != nil {
			if err := bell.Sleep(ctx, drainAgain); err != nil {
				return err
			}
		}
		var err error
		if trouble, err = rc.each(ctx, func(r Record) error { return rc.bequeath(ctx, r) }); err != nil {
			return err
		}
	}
}

// each calls do for all records, several at a time. trouble is an error of the last page of records in which a call failed, err one that ended it.
func (rc *reconciler) each(ctx context.Context, do func(Record) error) (trouble, err error) {
	err = rc.records.pages(func(page []Record) error {
		var g errgroup.Group
		g.SetLimit(drainAtOnce)
		for _, r := range page {
			g.Go(func() error { return do(r) })
		}
		if failed := g.Wait(); failed != nil {
			trouble = failed
		}
		return ctx.Err()
	})
	return trouble, err
}

// needed reports whether a node that is drained must not leave yet, because it has a host: it owns it, or has a copy and the owner is gone.
func (rc *reconciler) needed(ctx context.Context, r Record, v view.View) (bool, error) {
	if r.Owner == v.Self || v.IsAlive(r.Owner) {
		return r.Owner == v.Self, nil
	}
	_, known, err := rc.deps.Frontier.RoleOf(ctx, r.Host)
	return known, err
}

// bequeath hands a host that needs this node to the first of its next homes that takes it. Two nodes that are drained at once must not
// wait for each other.
func (rc *reconciler) bequeath(ctx context.Context, r Record) error {
	v := rc.view()
	switch stays, err := rc.needed(ctx, r, v); {
	case err != nil || !stays:
		return err
	case r.Owner != v.Self:
		return fmt.Errorf("leave %s: its owner does not answer, and a copy is here", r.Host)
	}
	return rc.handToHeir(ctx, v, r.Host, false, "this node is drained")
}

// handToHeir hands a host to the first of its next homes that takes it.
func (rc *reconciler) handToHeir(ctx context.Context, v view.View, host string, assigned bool, reason string) error {
	to := v.Heir(host, v.Self, 0)
	for next := 1; ; next++ {
		err := rc.HandOff(ctx, host, to, assigned, reason)
		if to = v.Heir(host, v.Self, next); to == "" || !errors.Is(err, errRefused) {
			return err
		}
	}
}

// Offer hands a host to the first of its next homes that takes it, as its assigned owner. taken is false if none of them does.
func (rc *reconciler) Offer(ctx context.Context, host, reason string) (taken bool, err error) {
	v := rc.view()
	if v.Majority && v.Heir(host, v.Self, 0) == "" {
		return false, nil
	}
	if err = rc.handToHeir(ctx, v, host, true, reason); errors.Is(err, errRefused) {
		return false, nil
	}
	return err == nil, err
}

// Evacuate hands the hosts that this node owns to others as their assigned owners, while holds returns true. After a host that all others
// refuse it hands none over, and fails. It begins with Refuse(true): nodes that all evacuate would otherwise pass hosts round. If no host is left in the
// end, this node takes a single one, so that it notices when servers answer it again.
func (rc *reconciler) Evacuate(ctx context.Context, reason string, holds func() bool) error {
	rc.Refuse(true)
	var refused atomic.Pointer[error]
	left, err := rc.each(ctx, func(r Record) error {
		switch {
		case r.Owner != rc.self():
			return nil
		case refused.Load() != nil || !holds():
			return errLater
		}
		err := rc.handToHeir(ctx, rc.view(), r.Host, true, reason)
		if errors.Is(err, errRefused) {
			refused.Store(&err)
		}
		return err
	})
	switch refusal := refused.Load(); {
	case err != nil:
		return err
	case refusal != nil:
		return *refusal
	case left == nil:
		rc.takes.Store(takesOne)
	}
	return nil
}

// The values of reconciler.takes: which hosts that others hand over this node takes.
const (
	takesAll int32 = iota
	takesOne       // the next one, and none after that
	takesNone
)

// Refuse says whether this node refuses hosts that others hand over.
func (rc *reconciler) Refuse(on bool) {
	takes := takesAll
	if on {
		takes = takesNone
	}
	rc.takes.Store(takes)
}

// Move hands a host over to a member as its assigned owner. It retries for a while if one of the two is busy with the host.
func (rc *reconciler) Move(ctx context.Context, host, to string) error {
	v := rc.view()
	switch r, err := rc.records.get(host); {
	case err != nil:
		return err
	case r.Owner == "":
		return fmt.Errorf("move %s: %w, as far as it knows", host, errNotOwner)
	case r.Owner != v.Self:
		return fmt.Errorf("move %s: %w: that is %s, which can move it", host, errNotOwner, r.Owner)
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
