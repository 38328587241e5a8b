package ownership

import (
	"context"
	"errors"
	"fmt"

	"proxima/frontier"
	"proxima/node/view"
	"proxima/node/wire"
)

// ErrNotOwner is returned by HandOff where this node does not own the host, or is handing it over already.
var ErrNotOwner = errors.New("this node does not own the host")

// errRefused says that the other node will not have the host.
var errRefused = errors.New("refused")

// HandOff makes another node the owner of a host, or this node its assigned owner. The host is frozen, what differs is
// shipped, and the other node commits it. nil means that the record is written. After an error the host is crawled here as
// before, or, where the other node may have committed it, it stays frozen until that is known.
func (rc *reconciler) HandOff(ctx context.Context, host, to string, assigned bool, reason string) error {
	defer rc.locks.lock(host)()
	r, ok, err := rc.records.get(host)
	if err != nil {
		return err
	}
	rc.mu.Lock()
	_, leaving := rc.proposals[host]
	rc.mu.Unlock()
	if !ok || r.Owner != rc.self() || leaving {
		return fmt.Errorf("hand over %s: %w", host, ErrNotOwner)
	}
	if role, _, err := rc.deps.Frontier.RoleOf(ctx, host); err != nil || role == frontier.Leaving {
		return errors.Join(err, ErrNotOwner) // an earlier hand-off is not settled
	}
	return rc.handOff(ctx, r, to, assigned, reason)
}

// handOff is HandOff of a host that is owned here. Its lock is held.
func (rc *reconciler) handOff(ctx context.Context, r Record, to string, assigned bool, reason string) error {
	next := Record{Host: r.Host, Epoch: r.Epoch + 1, Owner: to, Assigned: assigned}
	switch v := rc.view(); {
	case !v.Majority:
		return fmt.Errorf("hand over %s: this node does not see a majority of the nodes", r.Host)
	case r.Epoch >= maxEpoch-2:
		return fmt.Errorf("hand over %s: it has had too many owners", r.Host)
	case to == v.Self && r.Assigned == assigned:
		return nil
	case to == v.Self:
		_, _, err := rc.edit(r.Host, func(now Record, ok bool) (Record, bool) {
			if !ok || now != r {
				return now, false
			}
			rc.rights.claimLocked(next, true)
			return next, true
		})
		return err
	}
	rc.mu.Lock()
	_, awaited := rc.awaited[r.Host]
	if !awaited {
		rc.proposals[r.Host] = proposal{next, reason}
	}
	rc.mu.Unlock()
	if awaited { // it must be known first whether anybody has it
		return fmt.Errorf("hand over %s: %w: its replica has not come yet", r.Host, errLater)
	}
	if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Leaving); err != nil {
		return errors.Join(fmt.Errorf("freeze %s: %w", r.Host, err), rc.thaw(ctx, r.Host))
	}
	return rc.complete(ctx, r, proposal{next, reason})
}

// complete ships a frozen host and has it committed.
func (rc *reconciler) complete(ctx context.Context, r Record, p proposal) error {
	asked, err := rc.ship(ctx, r, p.next)
	if err == nil {
		return rc.handedOver(ctx, r, p)
	}
	rc.deps.Event(Event{Kind: Aborted, Record: p.next, Peer: p.next.Owner, Reason: err.Error()})
	err = fmt.Errorf("hand over %s: %w", r.Host, err)
	now, _, e := rc.records.get(r.Host)
	if e != nil || now != r || asked && !errors.Is(err, errRefused) {
		rc.queue.add(r.Host, true) // it may be another node's by now
		return errors.Join(err, e)
	}
	return errors.Join(err, rc.thaw(ctx, r.Host))
}

// transferTries is how often a host is brought to the other node anew when the two differ at the end.
const transferTries = 3

// ship makes the other node have all of a host, and own it. asked says that the commit was sent: from then on an error
// leaves it open whether the other node has it.
func (rc *reconciler) ship(ctx context.Context, r, next Record) (asked bool, err error) {
	if err := rc.replicator.flushHost(ctx, r); err != nil && ctx.Err() != nil {
		return false, err // else it is shipped as a whole
	}
	for range transferTries {
		a, err := rc.replicator.push(ctx, next.Owner, r, true)
		if err != nil {
			return asked, err
		}
		if !a.equal { // the other node has something that is not here
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
			asked = false // it said no
			continue
		}
		asked = false
		if newer, ok := fromWire(res.GetNewer()); ok && newer.Host == r.Host {
			if err := rc.obey(newer); err != nil {
				return asked, err
			}
		}
		return asked, fmt.Errorf("%w by %s: %s", errRefused, next.Owner, res.GetReason())
	}
	return asked, fmt.Errorf("%w by %s: what arrives differs from what is sent", errRefused, next.Owner)
}

// thaw lets a host go on here. It is done even if the node is being stopped: on disk it would stay frozen.
func (rc *reconciler) thaw(ctx context.Context, host string) error {
	err := rc.deps.Frontier.SetRole(context.WithoutCancel(ctx), host, frontier.Owned)
	rc.mu.Lock()
	delete(rc.proposals, host)
	rc.mu.Unlock()
	signal(rc.check)
	return err
}

// handedOver notes that a host has its next owner. What is here is a replica now; it goes at once where the next owner and
// the node that keeps the replica have the same.
func (rc *reconciler) handedOver(ctx context.Context, r Record, p proposal) error {
	ctx = context.WithoutCancel(ctx)
	_, _, err := rc.edit(r.Host, func(now Record, ok bool) (Record, bool) {
		delete(rc.proposals, r.Host)
		rc.counts.HandedOff++
		return p.next, !ok || p.next.Newer(now)
	})
	if err != nil {
		return err
	}
	if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Replica); err != nil {
		return fmt.Errorf("release %s: %w", r.Host, err)
	}
	rc.deps.Event(Event{Kind: HandedOff, Record: p.next, Peer: p.next.Owner, Reason: p.reason})
	rc.queue.add(r.Host, false)
	v := rc.view()
	replica := v.Replica(r.Host, p.next.Owner)
	if now, _, err := rc.records.get(r.Host); err != nil || now != p.next || replica == v.Self || !v.IsAlive(replica) {
		return err
	}
	d, err := rc.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return err
	}
	a, err := rc.replicator.storeOne(ctx, replica, &wire.StoreItem{Record: p.next.wire(), Digest: digestToWire(d)})
	if err != nil || !a.equal || !a.keeps {
		return nil // the queue sees to it
	}
	return rc.deps.Frontier.Remove(ctx, r.Host)
}

// maxCommits is how often a commit that was not answered is sent again before this node takes the host back.
const maxCommits = 3

// settle ends a hand-off of which it is open whether the other node has committed it. It asks again; where that leads
// nowhere this node takes the host back, with an epoch beyond what was proposed, if the home agrees. Whoever owns it by the
// epoch before obeys then.
func (rc *reconciler) settle(ctx context.Context, r Record, v view.View) error {
	rc.mu.Lock()
	p, known := rc.proposals[r.Host]
	tries := rc.settling[r.Host]
	rc.settling[r.Host]++
	rc.mu.Unlock()
	if known && v.IsAlive(p.next.Owner) && tries < maxCommits {
		return rc.complete(ctx, r, p)
	}
	switch {
	case !v.Majority || len(v.Settled) == 0:
		return fmt.Errorf("%w: it is open whether its hand-off was committed", errLater)
	case r.Epoch >= maxEpoch-2:
		return errors.New("it has had too many owners")
	}
	back := Record{Host: r.Host, Epoch: r.Epoch + 2, Owner: v.Self, Assigned: r.Assigned}
	contested := false
	if home := v.Home(r.Host); home != v.Self {
		res, err := rc.deps.Peers.Claim(ctx, home, &wire.ClaimRequest{Records: []*wire.Record{back.wire()}})
		if err != nil {
			return fmt.Errorf("ask %s who owns it: %w", home, err)
		}
		if len(res.GetLater()) > 0 {
			return fmt.Errorf("%w: %s does not know yet who owns it", errLater, home)
		}
		for _, w := range res.GetNewer() {
			newer, ok := fromWire(w)
			if !ok || newer.Host != r.Host {
				continue
			}
			if err := rc.obey(newer); err != nil || newer.Owner != v.Self {
				return err
			}
			return rc.thaw(ctx, r.Host) // this node is the owner, by a record that it did not have
		}
		contested = len(res.GetContested()) > 0
	}
	_, changed, err := rc.edit(r.Host, func(now Record, ok bool) (Record, bool) {
		if !ok || now != r {
			return now, false
		}
		delete(rc.settling, r.Host)
		if contested { // the other node had been confirmed, and may not know yet
			rc.rights.claimLocked(back, false)
		}
		return back, true
	})
	if err != nil || !changed {
		return errors.Join(err, fmt.Errorf("%w: its record has changed meanwhile", errLater))
	}
	if err := rc.persist(ctx); err != nil {
		return err
	}
	return rc.thaw(ctx, r.Host)
}
