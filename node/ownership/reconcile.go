package ownership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/view"
)

// reconciler makes the role of each host on disk agree with its record and the members: it takes over, hands off, mends, and
// removes copies that other nodes have.
type reconciler struct {
	*book
	census     *census
	replicator *replicator
	rights     *rights
	draining   atomic.Bool  // Drain was called: this node takes no hosts
	takes      atomic.Int32 // takesAll, takesOne or takesNone

	wishes map[string]wish // by host: the hand-off that placement asks for; the lock of the book guards them
}

// wish is a hand-off that placement asks for.
type wish struct {
	to, reason string
}

func newReconciler(b *book, c *census, rep *replicator, rg *rights) *reconciler {
	return &reconciler{book: b, census: c, replicator: rep, rights: rg, wishes: make(map[string]wish)}
}

// Wish asks for a host to be handed to a better peer soon. It is dropped if that fails.
func (rc *reconciler) Wish(host, to, reason string) {
	r, err := rc.records.get(host)
	if v := rc.view(); err != nil || r.Owner != v.Self || !v.IsAlive(to) {
		return
	}
	rc.mu.Lock()
	rc.wishes[host] = wish{to, reason}
	rc.mu.Unlock()
	rc.queue.add(host, false)
}

// atOnce is how many hosts are worked on in parallel. It bounds the memory for chunks.
const atOnce = 8

// runQueue takes a step for each host of the queue. A host whose step fails comes again, after growing pauses.
func (rc *reconciler) runQueue(ctx context.Context) error {
	var steps sync.WaitGroup
	for range atOnce {
		steps.Go(func() {
			for it := rc.queue.wait(ctx); it != nil; it = rc.queue.wait(ctx) {
				rc.look(ctx, it)
			}
		})
	}
	steps.Wait()
	return nil
}

// errLater means that a step must wait for something, but nothing is wrong.
const errLater = peer.Later("later")

// look takes one step for a host of the queue.
func (rc *reconciler) look(ctx context.Context, it *item) {
	err := rc.step(ctx, it)
	if err == nil {
		rc.queue.finish(it, time.Time{})
		return
	}
	it.tries++
	// When a node comes or goes views differ for a moment, and the first tries may fail.
	if !errors.Is(err, errLater) && ctx.Err() == nil && it.tries > 2 {
		rc.deps.Warn(fmt.Errorf("host %s, try %d: %w", it.host, it.tries, err))
	}
	if errors.Is(err, errRefused) {
		rc.queue.calm(it) // the other node may refuse it for as long as it is without the web, and all is well here
	}
	pause := rc.cfg.pause(it.tries, rc.queue.isUrgent(it))
	rc.queue.finish(it, time.Now().Add(pause/2+rc.jitter(pause+1))) // random, so that two nodes in each other's way do not collide again
}

// pause is the mean pause after so many failed tries in a row. Urgent hosts, for which the end of the crawl waits, rest less.
func (c Config) pause(tries int, urgent bool) time.Duration {
	longest := c.SuspendAfter
	if urgent {
		longest = c.RenewEvery
	}
	return min(time.Duration(tries)*c.RenewEvery/4, longest)
}

// step compares what a host should be here, by its record and the members, with its role, and takes one step towards that. nil
// means that they agree.
func (rc *reconciler) step(ctx context.Context, it *item) error {
	defer rc.locks.lock(it.host)()
	r, err := rc.records.get(it.host)
	if err != nil || r.Owner == "" {
		return err
	}
	role, known, err := rc.deps.Frontier.RoleOf(ctx, it.host)
	if err != nil {
		return err
	}
	v := rc.view()
	switch {
	case r.Owner == v.Self && known && role == frontier.Leaving:
		err := rc.settle(ctx, r, v)
		if err == nil {
			rc.queue.add(r.Host, false) // it may have been queued for another reason as well
		}
		return err
	case r.Owner == v.Self:
		return rc.stepOwner(ctx, r, v)
	case known && role != frontier.Replica:
		// Another node owns it now. What is here is a replica at most, and stays until the owner has all of it.
		if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Replica); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
		return rc.give(ctx, r, v, true)
	case v.Home(r.Host) == v.Self && (!v.IsAlive(r.Owner) || rc.census.lost(r)):
		return rc.takeOver(ctx, r, known)
	case known:
		return rc.give(ctx, r, v, rc.queue.isUrgent(it))
	}
	return nil
}

// stepOwner is step for a host that is owned here, and not being handed over.
func (rc *reconciler) stepOwner(ctx context.Context, r Record, v view.View) error {
	if err := rc.replicator.own(ctx, r); err != nil { // a crash may have come before the role was set
		return err
	}
	home := v.Home(r.Host)
	rc.mu.Lock()
	w, wished := rc.wishes[r.Host]
	delete(rc.wishes, r.Host)
	rc.mu.Unlock()
	switch {
	case wished: // not retried: placement may wish again
		if err := rc.fulfil(ctx, r, w); err != nil {
			rc.deps.Warn(err)
		}
		rc.queue.add(r.Host, false) // the host may have been queued for another reason as well
		return nil
	case !r.Assigned && home != v.Self && v.IsAlive(home):
		return rc.handOff(ctx, r, home, false, "it follows its home")
	}
	return rc.replicator.mendReplica(ctx, r, v)
}

// fulfil hands a host to the node where placement wishes it, unless that node could not reach it when it last tried.
func (rc *reconciler) fulfil(ctx context.Context, r Record, w wish) error {
	state, err := rc.deps.Frontier.StateOf(ctx, r.Host)
	if err != nil || state != nil && state.TriedBy == w.to {
		return err
	}
	return rc.handOff(ctx, r, w.to, true, w.reason)
}

// takeOver makes this node, the home, the owner of a host whose owner is gone.
func (rc *reconciler) takeOver(ctx context.Context, was Record, known bool) error {
	waits := false
	reason := "its owner is gone"
	next, taken, err := rc.edit(was.Host, func(r Record) Record {
		v := rc.views.Now()
		missing := rc.census.missingLocked(was.Host)
		if missing {
			reason = "its owner has lost it"
		}
		if r != was || v.Home(r.Host) != v.Self || r.Epoch >= maxEpoch {
			return r // overtaken by events: whatever is still needed is queued again
		}
		if waits = !v.Majority || !missing && !rc.census.goneLocked(r.Owner, time.Now()); waits {
			return r
		}
		rc.counts.Taken++
		if !known {
			rc.awaited[r.Host] = time.Now()
		}
		return Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: v.Self}
	})
	if err != nil || !taken {
		if waits {
			err = fmt.Errorf("%w: its owner does not answer", errLater)
		}
		return err
	}
	if err := rc.persist(ctx); err != nil {
		return err
	}
	kind := NoCopy
	if known {
		kind = Took
		if err := rc.deps.Frontier.SetRole(ctx, next.Host, frontier.Owned); err != nil {
			return fmt.Errorf("take over: %w", err)
		}
	}
	rc.deps.Event(Event{Kind: kind, Record: next, Peer: was.Owner, Reason: reason})
	rc.queue.add(next.Host, true) // to mend it with the copy of another node
	return nil
}

// give brings what this node has of a host to its owner. If this node need not keep a replica, it then makes sure that the
// replica has all of it, too, and removes its own copy. If this node keeps the replica, it gives only if all is set: the owner
// mends replicas.
func (rc *reconciler) give(ctx context.Context, r Record, v view.View, all bool) error {
	replica := v.Replica(r.Host, r.Owner)
	home, alive := v.Home(r.Host), v.IsAlive(r.Owner)
	switch {
	case !v.Majority:
		return fmt.Errorf("%w: no majority", errLater)
	case !alive && (home == v.Self || !v.IsAlive(home)):
		return fmt.Errorf("%w: its owner does not answer", errLater) // it will be back, or the home takes the host over
	case alive && replica == v.Self && !all:
		return nil
	}
	if err := rc.replicator.secure(ctx, r.Host, 0); err != nil { // this node may have owned it until now
		return err
	}
	if !alive {
		// This tells the home of the host, in case it has lost the record.
		if _, err := rc.replicator.push(ctx, home, r, true); err != nil {
			return err
		}
		return fmt.Errorf("%w: its home waits for the owner", errLater)
	}
	a, err := rc.replicator.push(ctx, r.Owner, r, true)
	switch {
	case err == nil:
	case home == v.Self || home == r.Owner:
		return err
	case errors.Is(err, errNotTheirs):
		_, err = rc.replicator.push(ctx, home, r, true) // the home says who owns the host, or finds out
		return errors.Join(err, errLater)
	default:
		_, e := rc.replicator.compareWith(ctx, home, r) // the owner may be mute, and have lost the host
		return errors.Join(err, e)
	}
	if replica == v.Self {
		return nil
	}
	if !a.keeps {
		return fmt.Errorf("%w: %s does not own it yet, or has its replica here", errLater, r.Owner)
	}
	if replica != "" {
		if !v.IsAlive(replica) {
			return fmt.Errorf("%w: the node that keeps its replica does not answer", errLater)
		}
		if a, err = rc.replicator.push(ctx, replica, r, true); err != nil {
			return err
		}
		if !a.keeps {
			return fmt.Errorf("%w: %s does not keep its replica yet", errLater, replica)
		}
	}
	if now, err := rc.records.get(r.Host); err != nil || now != r {
		return errors.Join(err, errLater)
	}
	if err := rc.deps.Frontier.Remove(ctx, r.Host); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return rc.forget(r.Host, r.Owner)
}

// recover queues hosts whose role does not agree with their record, because an earlier life ended between two steps. Owned ones without a
// record get one: this node crawled them before it had peers.
func (rc *reconciler) recover(ctx context.Context) error {
	self := rc.self()
	for after := ""; ; {
		hosts, err := rc.deps.Frontier.List(ctx, after, pageRecords)
		if after == "" && len(hosts) > 0 {
			rc.replicator.stream.begin(time.Now())
		}
		if err != nil || len(hosts) == 0 {
			return err
		}
		for _, h := range hosts {
			after = h.Host
			r, err := rc.records.get(h.Host)
			if err != nil {
				return err
			}
			mine := r.Owner == self
			switch {
			case r.Owner == "" && h.Role == frontier.Owned:
				if _, _, err := rc.edit(h.Host, func(Record) Record { return Record{Host: h.Host, Epoch: 1, Owner: self} }); err != nil {
					return err
				}
				continue
			case r.Owner == "":
				continue
			case h.Role == frontier.Leaving || mine != (h.Role == frontier.Owned):
				rc.queue.add(h.Host, true)
			}
			if mine && h.Role == frontier.Replica { // the earlier life ended after a commit or a take-over
				rc.mu.Lock()
				rc.rights.claimLocked(r, false)
				rc.mu.Unlock()
			}
		}
		if err := rc.records.flush(); err != nil {
			return err
		}
	}
}

// stepsFirst is how long the first look at all hosts waits in a life that begins with some.
const stepsFirst = 200 * time.Millisecond

// runSweeps looks at all records after a change of members, and periodically, for hosts that must follow their home, replicas
// that must be made, and copies that nobody needs.
func (rc *reconciler) runSweeps(ctx context.Context) error {
	if rc.replicator.stream.begins() { // first each host that an earlier life left on its way takes a step
		_ = bell.Sleep(ctx, stepsFirst)
	}
	return bell.Loop(ctx, rc.replicator.sweep, rc.cfg.SweepEvery, func(all bool) error {
		if err := rc.sweepAll(ctx, all); err != nil {
			return fmt.Errorf("look at all hosts: %w", err)
		}
		return nil
	})
}

// sweepAll looks at all records. It queues hosts whose record and role may disagree. The others it compares with their replicas: at all peers if
// timed or if homes have moved, otherwise at those that are back (replicator.compare). It tells homes of hosts whose owner is gone. If timed, it
// also drops records that do not concern this node any more, or the records of all hosts would gather here as members come and go.
func (rc *reconciler) sweepAll(ctx context.Context, timed bool) error {
	rc.mu.Lock()
	v := *rc.views.Now()
	if len(v.Settled) < 2 || !v.Majority {
		rc.mu.Unlock()
		return nil
	}
	s := &sweep{v: v, timed: timed, moved: rc.replicator.compare == nil, back: rc.replicator.compare, replicas: make(comparison)}
	rc.replicator.compare = make(map[string]bool)
	rc.mu.Unlock()
	err := rc.records.visit(func(r Record) error {
		look := rc.sweepOther
		if r.Owner == v.Self {
			look = rc.sweepOwned
		}
		return cmp.Or(look(ctx, s, r), ctx.Err())
	})
	if err != nil {
		return err
	}
	for _, to := range slices.Sorted(maps.Keys(s.replicas)) {
		rc.replicator.compareNow(ctx, s.replicas, to)
	}
	switch {
	case !rc.replicator.stream.begins():
	case !s.partly:
		rc.replicator.stream.compared()
	default: // when the missing nodes are back, or others have taken their places
		rc.mu.Lock()
		rc.replicator.compare = nil
		rc.mu.Unlock()
	}
	return nil
}

// sweep is a look at all records.
type sweep struct {
	v        view.View
	timed    bool            // it comes by the clock
	moved    bool            // homes and replicas may be at other nodes since the last sweep
	back     map[string]bool // peers that are back since then
	replicas comparison
	partly   bool // some replicas of hosts owned here are at nodes that do not answer
}

// compares reports whether the replicas that are shared with a peer are compared.
func (s *sweep) compares(peer string) bool { return s.timed || s.moved || s.back[peer] }

// sweepOwned looks at a host that is owned here.
func (rc *reconciler) sweepOwned(ctx context.Context, s *sweep, r Record) error {
	if s.moved {
		rc.replicator.tell(r) // it may have a new witness
	}
	replica := s.v.Replica(r.Host, r.Owner)
	follows := !r.Assigned && s.v.Home(r.Host) != s.v.Self
	if follows {
		rc.queue.add(r.Host, true)
	}
	switch {
	case follows && !rc.replicator.stream.begins():
	case replica != "" && !s.v.IsAlive(replica):
		s.partly = true
	case replica != "" && s.compares(replica):
		return rc.replicator.compareLater(ctx, s.replicas, replica, r)
	}
	return nil
}

// sweepOther looks at a host that another node owns.
func (rc *reconciler) sweepOther(ctx context.Context, s *sweep, r Record) error {
	alive := s.v.IsAlive(r.Owner)
	ours := alive && s.v.Replica(r.Host, r.Owner) == s.v.Self // the replica is here, and in order as far as this node knows
	if ours && !s.compares(r.Owner) {
		return nil
	}
	_, known, err := rc.deps.Frontier.RoleOf(ctx, r.Host)
	switch {
	case err != nil:
		return err
	case !known && !alive && s.v.Home(r.Host) != s.v.Self:
		rc.replicator.tell(r) // the home may have come too late to hear of the host from its owner
	case !known && s.timed && !concerned(&s.v, r):
		return rc.drop(ctx, r)
	case !known:
	case ours: // the owner may have lost some of it in a power cut without knowing
		return rc.replicator.compareLater(ctx, s.replicas, r.Owner, r)
	default:
		rc.queue.add(r.Host, !alive)
	}
	return nil
}

// drop forgets a host that does not concern this node, if nothing of it is here.
func (rc *reconciler) drop(ctx context.Context, r Record) error {
	defer rc.locks.lock(r.Host)() // else data that a peer stores just now would be left without a record
	if _, known, err := rc.deps.Frontier.RoleOf(ctx, r.Host); err != nil || known {
		return err
	}
	return rc.forget(r.Host, r.Owner)
}
