package ownership

import (
	"context"
	"errors"
	"fmt"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// errNotOwner is returned by HandOff if this node does not own the host, or is handing it over already.
var errNotOwner = errors.New("this node does not own the host")

// errRefused means that the other node does not take the host.
var errRefused = errors.New("refused")

// HandOff makes another node the owner of a host, or this node its assigned owner. It freezes the host, ships what the other
// node lacks, and asks it to commit. nil means that the record is written. After an error the host is crawled here as before,
// unless the other node may have committed: then it stays frozen until that is known.
func (rc *reconciler) HandOff(ctx context.Context, host, to string, assigned bool, reason string) error {
	defer rc.locks.lock(host)()
	r, err := rc.records.get(host)
	if err != nil {
		return err
	}
	if r.Owner != rc.self() {
		return fmt.Errorf("hand over %s: %w", host, errNotOwner)
	}
	if role, _, err := rc.deps.Frontier.RoleOf(ctx, host); err != nil || role == frontier.Leaving {
		return errors.Join(err, errNotOwner) // an earlier hand-off is open
	}
	return rc.handOff(ctx, r, to, assigned, reason)
}

// handOff is HandOff for a caller that holds the lock of the host and has checked that it is owned here.
func (rc *reconciler) handOff(ctx context.Context, r Record, to string, assigned bool, reason string) error {
	next := Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: to, Assigned: assigned}
	switch v := rc.view(); {
	case !v.Majority:
		return fmt.Errorf("hand over %s: this node does not see a majority of the nodes", r.Host)
	case !v.IsAlive(to): // or there is none, for a node that is drained
		return fmt.Errorf("hand over %s: the node that is to get it is not there", r.Host)
	case r.Epoch >= maxEpoch-2:
		return fmt.Errorf("hand over %s: it has had too many owners", r.Host)
	case to == v.Self && r.Assigned == assigned:
		return nil
	case to == v.Self:
		_, _, err := rc.edit(r.Host, func(now Record) Record {
			if now != r {
				return now
			}
			rc.rights.claimLocked(next, true)
			return next
		})
		return err
	}
	p := proposal{next: next, reason: reason}
	rc.mu.Lock()
	_, awaited := rc.awaited[r.Host]
	if !awaited {
		rc.proposals[r.Host] = p
	}
	rc.mu.Unlock()
	if awaited { // perhaps nobody has it
		return fmt.Errorf("hand over %s: %w: its replica has not come yet", r.Host, errLater)
	}
	if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Leaving); err != nil {
		return errors.Join(fmt.Errorf("freeze %s: %w", r.Host, err), rc.thaw(ctx, r.Host))
	}
	return rc.complete(ctx, r, p)
}

// complete ships a frozen host and has the other node commit. If that fails, the host is crawled here again, unless the other node may have
// committed, in this try or in one before (p.tries). Then the queue brings it to settle.
func (rc *reconciler) complete(ctx context.Context, r Record, p proposal) error {
	asked, err := rc.ship(ctx, r, p.next)
	if err == nil {
		return rc.handedOver(ctx, r, p)
	}
	rc.deps.Event(Event{Kind: Aborted, Record: p.next, Peer: p.next.Owner, Reason: err.Error()})
	err = fmt.Errorf("hand over %s: %w", r.Host, err)
	now, e := rc.records.get(r.Host)
	if e != nil || now != r || (p.tries > 0 || asked) && !errors.Is(err, errRefused) {
		rc.queue.add(r.Host, true) // the other node may own it by now
		return errors.Join(err, e)
	}
	return errors.Join(err, rc.thaw(ctx, r.Host))
}

// transferTries is how often a host is shipped if the two nodes differ at the end.
const transferTries = 3

// ship brings everything of a host to the other node and has it commit. After an error, asked tells whether the other node may
// have committed.
func (rc *reconciler) ship(ctx context.Context, r, next Record) (asked bool, err error) {
	if err := rc.replicator.flushHost(ctx, r.Host); err != nil {
		return false, fmt.Errorf("send its last changes: %w", err)
	}
	for range transferTries {
		a, err := rc.replicator.push(ctx, next.Owner, r, true)
		if err != nil {
			return asked, err
		}
		if !a.equal { // the other node has something that this one lacks
			if err := rc.replicator.pull(ctx, next.Owner, r); err != nil {
				return asked, err
			}
			continue
		}
		d, err := rc.deps.Frontier.DigestOf(ctx, r.Host)
		if err != nil {
			return asked, fmt.Errorf("digest: %w", err)
		}
		asked = true
		res, err := rc.deps.Peers.Commit(ctx, next.Owner, &wire.CommitRequest{Record: next.wire(), Digest: digestToWire(d)})
		if err != nil {
			return asked, fmt.Errorf("commit at %s: %w", next.Owner, err)
		}
		switch res.GetStep() {
		case wire.Step_STEP_COMMITTED:
			return asked, nil
		case wire.Step_STEP_DIFFERS:
			asked = false
			continue
		case wire.Step_STEP_LATER: // perhaps it still works on an earlier question
			return asked, fmt.Errorf("commit at %s: %s", next.Owner, res.GetReason())
		}
		if newer, ok := fromWire(res.GetNewer()); ok && newer.Host == r.Host {
			if err := rc.census.obey(newer); err != nil {
				return false, err
			}
		}
		return false, fmt.Errorf("%w by %s: %s", errRefused, next.Owner, res.GetReason())
	}
	return false, fmt.Errorf("%w by %s: what arrives differs from what is sent", errRefused, next.Owner)
}

// thaw ends a hand-off and crawls the host here again. It ignores the end of ctx: otherwise the host would stay frozen on disk.
func (rc *reconciler) thaw(ctx context.Context, host string) error {
	err := rc.deps.Frontier.SetRole(context.WithoutCancel(ctx), host, frontier.Owned)
	rc.mu.Lock()
	delete(rc.proposals, host)
	rc.mu.Unlock()
	rc.check.Ring()
	return err
}

// handedOver ends a hand-off that was committed. What is here becomes a replica, which the queue removes if it is not needed.
func (rc *reconciler) handedOver(ctx context.Context, r Record, p proposal) error {
	ctx = context.WithoutCancel(ctx)
	_, _, err := rc.edit(r.Host, func(now Record) Record {
		delete(rc.proposals, r.Host)
		rc.counts.HandedOff++
		if p.next.Newer(now) {
			return p.next
		}
		return now
	})
	if err != nil {
		return err
	}
	if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Replica); err != nil {
		return fmt.Errorf("release %s: %w", r.Host, err)
	}
	rc.deps.Event(Event{Kind: HandedOff, Record: p.next, Peer: p.next.Owner, Reason: p.reason})
	rc.queue.add(r.Host, false)
	return nil
}

// maxCommits is how often an unanswered commit is repeated before this node takes the host back.
const maxCommits = 3

// settle ends a hand-off that the other node may have committed. It asks again. If that fails, this node takes the host back with
// an epoch above the proposed one, if the home agrees; the other node then obeys the higher epoch.
func (rc *reconciler) settle(ctx context.Context, r Record, v view.View) error {
	rc.mu.Lock()
	p, known := rc.proposals[r.Host]
	if p.tries++; known {
		rc.proposals[r.Host] = p
	}
	rc.mu.Unlock()
	if known && v.IsAlive(p.next.Owner) && p.tries <= maxCommits {
		return rc.complete(ctx, r, p)
	}
	switch {
	case !v.Majority || len(v.Settled) == 0:
		return fmt.Errorf("%w: it is open whether its hand-off was committed", errLater)
	case r.Epoch >= maxEpoch-2:
		return errors.New("it has had too many owners")
	}
	back := Record{Host: r.Host, Epoch: r.Epoch + 2, Owner: v.Self, Assigned: r.Assigned}
	if home := v.Home(r.Host); home != v.Self {
		all, err := rc.rights.claim(ctx, home, &wire.ClaimRequest{Records: []*wire.Record{back.wire()}})
		if err != nil {
			return fmt.Errorf("ask %s who owns it: %w", home, err)
		}
		if now, err := rc.records.get(r.Host); err != nil || now != r { // the home had a newer record
			if err != nil || now.Owner != v.Self {
				return err
			}
			return rc.thaw(ctx, r.Host)
		}
		if !all {
			return fmt.Errorf("%w: %s does not know yet who owns it", errLater, home)
		}
	}
	_, changed, err := rc.edit(r.Host, func(now Record) Record {
		if now != r {
			return now
		}
		rc.renew.Ring() // to confirm the new epoch, if the home called the host contested
		return back
	})
	if err != nil || !changed {
		return errors.Join(err, fmt.Errorf("%w: its record has changed meanwhile", errLater))
	}
	if err := rc.persist(ctx); err != nil {
		return err
	}
	return rc.thaw(ctx, r.Host)
}
