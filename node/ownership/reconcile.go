package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/view"
)

// atOnce bounds how many hosts are looked at at the same time, and so the memory for chunks.
const atOnce = 8

// runQueue looks at the hosts of the queue. A host whose step fails comes again, later and later.
func (o *Ownership) runQueue(ctx context.Context) error {
	var g errgroup.Group
	defer g.Wait() //nolint:errcheck // steps return none
	free := make(chan struct{}, atOnce)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		it, wait := o.queue.next(time.Now())
		if it == nil {
			<-free
			if wait < 0 {
				wait = time.Hour
			}
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return nil
			case <-o.queue.wake:
			case <-timer.C:
			}
			continue
		}
		g.Go(func() error {
			defer func() { <-free }()
			o.look(ctx, it)
			return nil
		})
	}
}

// errLater says that a step has to wait for something that is under way and not wrong.
var errLater = errors.New("later")

// look takes one step for a host of the queue.
func (o *Ownership) look(ctx context.Context, it *item) {
	err := o.step(ctx, it)
	if err == nil {
		o.queue.finish(it, time.Time{})
		return
	}
	it.tries++
	// Views differ for a moment whenever a node comes or goes, and a first try or two then fail.
	if !errors.Is(err, errLater) && ctx.Err() == nil && it.tries > 2 {
		o.warn(fmt.Errorf("host %s, try %d: %w", it.host, it.tries, err))
	}
	pause := o.cfg.pause(it.tries, o.queue.presses(it))
	o.queue.finish(it, time.Now().Add(pause/2+o.jitter(pause+1))) // two nodes that were in each other's way do not come back together
}

// pause is about how long a host rests after so many tries in a row that failed. For one that is urgent the end of the crawl
// waits.
func (c Config) pause(tries int, urgent bool) time.Duration {
	longest := c.FenceAfter
	if urgent {
		longest = c.RenewEvery
	}
	return min(time.Duration(tries)*c.RenewEvery/4, longest)
}

// step compares what a host should be here, by its record and the members, with what it is, and brings the two closer.
// nil says that they agree.
func (o *Ownership) step(ctx context.Context, it *item) error {
	defer o.locks.lock(it.host)()
	r, ok, err := o.records.get(it.host)
	if err != nil || !ok {
		return err
	}
	role, known, err := o.deps.Frontier.RoleOf(ctx, it.host)
	if err != nil {
		return err
	}
	v := o.view()
	switch {
	case r.Owner == v.Self:
		return o.stepOwner(ctx, r, v, role, known)
	case known && role != frontier.Replica:
		// Another node owns it now: what is here is a replica, and more than that until its owner has it.
		if err := o.deps.Frontier.SetRole(ctx, r.Host, frontier.Replica); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		return o.give(ctx, r, v, true)
	case v.Home(r.Host) == v.Self && !v.IsAlive(r.Owner), v.Home(r.Host) == v.Self && o.isMissing(r.Host):
		return o.takeOver(ctx, r, known)
	case known:
		return o.give(ctx, r, v, o.queue.presses(it))
	}
	return nil
}

// stepOwner is step for a host that is owned here.
func (o *Ownership) stepOwner(ctx context.Context, r Record, v view.View, role frontier.Role, known bool) error {
	if known && role == frontier.Leaving {
		return o.settle(ctx, r, v)
	}
	if known && role != frontier.Owned {
		if err := o.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned); err != nil { // a crash came in between
			return err
		}
	}
	home := v.Home(r.Host)
	o.mu.Lock()
	w, wished := o.wishes[r.Host]
	delete(o.wishes, r.Host)
	o.mu.Unlock()
	switch {
	case wished: // it is no duty: who wished may wish again
		if err := o.handOff(ctx, r, w.to, true, w.reason); err != nil {
			o.warn(err)
		}
		o.queue.add(r.Host, false) // for what else it was to be looked at
		return nil
	case !r.Assigned && home != v.Self && v.IsAlive(home):
		return o.handOff(ctx, r, home, false, "it follows its home")
	}
	return o.mendReplica(ctx, r, v)
}

// isMissing says that a host's owner lives and has lost it.
func (o *Ownership) isMissing(host string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.census.missing[host] >= 2
}

// takeOver makes this node, the home, the owner of a host whose owner is gone.
func (o *Ownership) takeOver(ctx context.Context, was Record, known bool) error {
	waits := false
	reason := "its owner is gone"
	next, taken, err := o.edit(was.Host, func(r Record, ok bool) (Record, bool) {
		v := o.views.Now()
		missing := o.census.missing[was.Host] >= 2
		if missing {
			reason = "its owner has lost it"
		}
		if !ok || r != was || v.Home(r.Host) != v.Self || r.Epoch >= maxEpoch {
			return r, false // things have changed: what is still needed comes again
		}
		if waits = !v.Majority || !missing && !o.goneLocked(r.Owner, time.Now()); waits {
			return r, false
		}
		o.counts.Taken++
		if !known {
			o.awaited[r.Host] = time.Now()
		}
		return Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: v.Self}, true
	})
	if err != nil || !taken {
		if waits {
			err = fmt.Errorf("%w: its owner does not answer", errLater)
		}
		return err
	}
	if err := o.persist(ctx); err != nil {
		return err
	}
	kind := NoCopy
	if known {
		kind = Took
		if err := o.deps.Frontier.SetRole(ctx, next.Host, frontier.Owned); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
	o.deps.Event(Event{Kind: kind, Record: next, Peer: was.Owner, Reason: reason})
	signal(o.check)
	o.queue.add(next.Host, true) // whoever has a replica is to be asked for it
	return nil
}

// persist makes records survive the death of the machine: others are told of them afterwards.
func (o *Ownership) persist(ctx context.Context) error {
	if err := o.records.flush(); err != nil {
		return err
	}
	return o.deps.Frontier.Sync(ctx)
}

// give brings what this node has of a host to its owner, and removes it here if this node is not to keep it. The owner
// looks after the replica; in any other case this node goes on until another has said that it stored everything.
func (o *Ownership) give(ctx context.Context, r Record, v view.View, all bool) error {
	replica := v.Replica(r.Host, r.Owner)
	home := v.Home(r.Host)
	switch {
	case !v.Majority:
		return fmt.Errorf("%w: no majority", errLater)
	case !v.IsAlive(r.Owner):
		if home == v.Self || home == "" || !v.IsAlive(home) {
			return fmt.Errorf("%w: its owner does not answer", errLater) // it comes back, or its home takes the host
		}
		// A home that knows nothing of the host hears of it by this.
		if _, err := o.push(ctx, home, r, true); err != nil {
			return err
		}
		return fmt.Errorf("%w: its home waits for the owner", errLater)
	case replica == v.Self && !all:
		return nil
	}
	a, err := o.push(ctx, r.Owner, r, true)
	if errors.Is(err, errNotTheirs) && home != v.Self && home != r.Owner {
		_, err = o.push(ctx, home, r, true) // it says who owns the host, or finds out
		return errors.Join(err, errLater)
	}
	if err != nil {
		return err
	}
	if replica == v.Self {
		return nil
	}
	if !a.keeps {
		return fmt.Errorf("%w: %s does not own it yet", errLater, r.Owner)
	}
	if replica != "" {
		if !v.IsAlive(replica) {
			return fmt.Errorf("%w: the node that keeps its replica does not answer", errLater)
		}
		if a, err = o.push(ctx, replica, r, true); err != nil {
			return err
		}
		if !a.keeps {
			return fmt.Errorf("%w: %s does not keep its replica yet", errLater, replica)
		}
	}
	if now, _, err := o.records.get(r.Host); err != nil || now != r {
		return errors.Join(err, errLater)
	}
	if err := o.deps.Frontier.Remove(ctx, r.Host); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return o.forget(r)
}

// recover brings the records and the roles of the hosts together, and asks for a look at those that an
// earlier life has left on their way.
func (o *Ownership) recover(ctx context.Context) error {
	self := o.self()
	return o.records.visit(func(r Record) error {
		role, known, err := o.deps.Frontier.RoleOf(ctx, r.Host)
		if err != nil || !known {
			return err
		}
		switch mine := r.Owner == self; {
		case mine && role == frontier.Replica: // it had arrived whole, or was taken over
			if err := o.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned); err != nil {
				return err
			}
			o.mu.Lock()
			o.claimLocked(r, false)
			o.mu.Unlock()
		case role == frontier.Leaving, role == frontier.Owned && !mine:
			o.queue.add(r.Host, true)
		}
		return nil
	})
}

// runSweeps looks at all records after the members have changed, and now and then: hosts that must follow their home,
// replicas that must be made, copies that nobody needs any more.
func (o *Ownership) runSweeps(ctx context.Context) error {
	return again(ctx, o.sweep, o.cfg.SweepEvery, func(all bool) error {
		if err := o.sweepAll(ctx, all); err != nil {
			return fmt.Errorf("look at all hosts: %w", err)
		}
		return nil
	})
}

// sweepAll puts hosts into the queue whose record and role may not agree, and compares the others with their replicas at
// the nodes with which that is due, or with all.
func (o *Ownership) sweepAll(ctx context.Context, all bool) error {
	o.mu.Lock()
	v := *o.views.Now()
	if len(v.Settled) < 2 || !v.Majority {
		o.mu.Unlock()
		return nil
	}
	compare := o.compare
	all = all || compare == nil
	o.compare = make(map[string]bool)
	o.mu.Unlock()
	replicas := make(comparison)
	err := o.records.visit(func(r Record) error {
		home, replica := v.Home(r.Host), v.Replica(r.Host, r.Owner)
		if compare == nil && r.Owner == v.Self {
			o.mu.Lock()
			o.unwitnessed[r.Host] = r.Epoch // its witness may be another one now
			o.mu.Unlock()
		}
		switch {
		case r.Owner == v.Self && !r.Assigned && home != v.Self:
			o.queue.add(r.Host, true)
		case r.Owner == v.Self && replica != "" && v.IsAlive(replica) && (all || compare[replica]):
			return o.compareLater(ctx, replicas, replica, r)
		case r.Owner != v.Self && replica == v.Self && v.IsAlive(r.Owner) && (all || compare[r.Owner]):
			// The owner may have lost what this node has, by a power cut, and not know of it.
			if _, known, err := o.deps.Frontier.RoleOf(ctx, r.Host); err != nil || !known {
				return err
			}
			return o.compareLater(ctx, replicas, r.Owner, r)
		case r.Owner != v.Self && (!v.IsAlive(r.Owner) || replica != v.Self):
			if _, known, err := o.deps.Frontier.RoleOf(ctx, r.Host); err != nil || !known {
				return err
			}
			o.queue.add(r.Host, !v.IsAlive(r.Owner))
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	for to := range replicas {
		o.compareNow(ctx, replicas, to)
	}
	return nil
}
