package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/node/wire"
)

// storesAtOnce is how many hosts of one message are stored in parallel.
const storesAtOnce = 64

// Store unites what a peer has of hosts with what this node has. It returns when that is on disk.
func (rc *reconciler) Store(ctx context.Context, from string, req *wire.StoreRequest) (*wire.StoreResponse, error) {
	if err := rc.begun(); err != nil {
		return nil, err
	}
	res := &wire.StoreResponse{Answers: make([]*wire.StoreAnswer, len(req.GetItems()))}
	// Hosts stored in parallel share commits, which cost more than the few changes of a host.
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(storesAtOnce)
	for i, item := range req.GetItems() {
		g.Go(func() (err error) {
			res.Answers[i], err = rc.store(each, from, item)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// A peer that only compared may remove its copy after this answer, so what was here already must be safe, too.
	return res, rc.persist(ctx)
}

// store is Store for one host.
func (rc *reconciler) store(ctx context.Context, from string, item *wire.StoreItem) (*wire.StoreAnswer, error) {
	r, ok := fromWire(item.GetRecord())
	chunk, err := chunkFromWire(item.GetChunk())
	if err != nil || !ok {
		return &wire.StoreAnswer{Step: wire.Step_STEP_REFUSED}, nil
	}
	unlock := rc.locks.wait(ctx, r.Host)
	if unlock == nil {
		return &wire.StoreAnswer{Step: wire.Step_STEP_LATER}, nil
	}
	defer unlock()
	answer, err := rc.weigh(from, r)
	if err != nil || answer.GetStep() != wire.Step_STEP_UNSPECIFIED {
		return answer, err
	}
	if item.GetChunk() != nil {
		err := rc.replicator.unite(ctx, r, chunk)
		switch {
		case errors.Is(err, frontier.ErrDiskFull):
			answer.Step = wire.Step_STEP_FULL
			return answer, nil
		case err != nil:
			return nil, fmt.Errorf("store %s: %w", r.Host, err)
		}
	}
	mine, err := rc.records.get(r.Host)
	if err != nil {
		return nil, err
	}
	owned := mine.Owner == rc.self()
	switch {
	case item.GetChunk() == nil:
	case owned:
		if err := rc.replicator.own(ctx, mine); err != nil {
			return nil, err
		}
	case !answer.Keeps:
		// The copy is not meant to stay, unless a hand-off to here is under way. Let that finish first.
		rc.queue.addLater(r.Host, time.Now().Add(rc.cfg.TakeAfter))
	}
	equal, err := rc.equals(ctx, r.Host, item.GetDigest())
	switch {
	case err != nil:
		return nil, err
	case !equal:
		if answer.Step = wire.Step_STEP_DIFFERS; item.GetChunk() == nil && owned && !rc.replicator.stream.busy(r.Host) {
			rc.queue.add(r.Host, false) // its replica differs
		}
		return answer, nil
	case item.GetDigest() != nil && owned && r.Owner != mine.Owner:
		rc.found(r.Host) // the former owner's copy
	}
	answer.Step = wire.Step_STEP_STORED
	return answer, nil
}

// equals reports whether a host has the digest that a peer has of it, or the peer told none.
func (rc *reconciler) equals(ctx context.Context, host string, theirs *wire.Digest) (bool, error) {
	if theirs == nil {
		return true, nil
	}
	d, err := rc.deps.Frontier.DigestOf(ctx, host)
	return err == nil && proto.Equal(digestToWire(d), theirs), err
}

// weigh compares a peer's record with this node's, and adopts it if it is newer. If this node owns the host by its own record, the
// home must say who is right. The answer has a step if nothing can be stored now.
func (rc *reconciler) weigh(from string, r Record) (answer *wire.StoreAnswer, err error) {
	answer = &wire.StoreAnswer{}
	_, _, err = rc.edit(r.Host, func(mine Record) Record {
		v := rc.views.Now()
		if _, leaving := rc.proposals[r.Host]; leaving {
			answer.Step = wire.Step_STEP_LATER
		}
		next, outbid := rc.census.outbidLocked(mine, r)
		switch {
		case outbid:
			mine = next
			answer.Newer = mine.wire()
		case mine.Newer(r):
			answer.Newer = mine.wire()
		case mine.Owner == v.Self && r.Owner != v.Self:
			rc.rights.claimLocked(mine, false)
		case r.Owner == v.Self && r.Newer(mine):
			// This node has lost the record in a power cut, or the host has another owner by now.
			if v.Home(r.Host) != v.Self {
				answer.Step = wire.Step_STEP_REFUSED // the home knows
				break
			}
			if !v.Majority || r.Epoch >= maxEpoch || rc.census.collectingLocked(r.Host, time.Now()) {
				answer.Step = wire.Step_STEP_LATER
				break
			}
			if mine.Owner == "" {
				mine = Record{Host: r.Host, Owner: v.Self}
			}
			mine.Epoch = r.Epoch + 1
			answer.Newer, answer.Keeps = mine.wire(), mine.Owner == v.Self
			rc.queue.add(r.Host, true)
			return mine
		case r.Newer(mine):
			if r.Epoch == mine.Epoch {
				answer.Newer = mine.wire() // the home may not know of this owner
			}
			mine = r
		}
		replica := v.Replica(r.Host, mine.Owner)
		// The peer may not see yet that it is to keep the replica, and must not remove it.
		answer.Keeps = mine.Owner == v.Self && replica != from || mine.Owner != "" && replica == v.Self
		return mine
	})
	return answer, err
}

// Commit makes this node the owner of a host, if it has exactly what the former owner has.
func (rc *reconciler) Commit(ctx context.Context, from string, req *wire.CommitRequest) (*wire.CommitResponse, error) {
	if err := rc.begun(); err != nil {
		return nil, err
	}
	r, ok := fromWire(req.GetRecord())
	if !ok || r.Owner != rc.self() {
		return &wire.CommitResponse{Step: wire.Step_STEP_REFUSED, Reason: "malformed"}, nil
	}
	unlock := rc.locks.wait(ctx, r.Host)
	if unlock == nil {
		return &wire.CommitResponse{Step: wire.Step_STEP_LATER, Reason: "it is busy with the host"}, nil
	}
	defer unlock()
	d, err := rc.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return nil, err
	}
	res := &wire.CommitResponse{}
	_, _, err = rc.edit(r.Host, func(mine Record) Record {
		_, leaving := rc.proposals[r.Host]
		switch {
		case mine == r:
			res.Step = wire.Step_STEP_COMMITTED // the first answer was lost, or an error of the disk
		case !r.Newer(mine):
			res.Step, res.Reason, res.Newer = wire.Step_STEP_REFUSED, "it has a newer record", mine.wire()
		case !rc.views.Now().Majority:
			res.Step, res.Reason = wire.Step_STEP_REFUSED, "it does not see a majority of the nodes"
		case rc.draining.Load():
			res.Step, res.Reason = wire.Step_STEP_REFUSED, "it is drained"
		case rc.takes.Load() == takesNone:
			res.Step, res.Reason = wire.Step_STEP_REFUSED, "it hands its own hosts to others"
		case leaving:
			res.Step, res.Reason = wire.Step_STEP_LATER, "it is handing the host over"
		case !proto.Equal(digestToWire(d), req.GetDigest()):
			res.Step = wire.Step_STEP_DIFFERS
		default:
			res.Step = wire.Step_STEP_COMMITTED
			rc.takes.CompareAndSwap(takesOne, takesNone)
			rc.rights.claimLocked(r, true)
			rc.counts.Received++
			return r
		}
		return mine
	})
	if err != nil || res.Step != wire.Step_STEP_COMMITTED {
		return res, err
	}
	if err := rc.receive(context.WithoutCancel(ctx), from, r); err != nil {
		rc.queue.addLater(r.Host, time.Now().Add(rc.cfg.RenewEvery)) // the former owner asks no more once it has the record from another node
		return nil, err
	}
	return res, nil
}

// receive makes this node crawl a host whose record it has committed. On return that survives a crash.
func (rc *reconciler) receive(ctx context.Context, from string, r Record) error {
	if err := rc.records.flush(); err != nil { // first: recover finds the role by the record
		return err
	}
	role, known, err := rc.deps.Frontier.RoleOf(ctx, r.Host)
	if err != nil {
		return err
	}
	received := !known || role == frontier.Replica // otherwise an earlier answer was lost
	if received {
		if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned); err != nil {
			return err
		}
	}
	if err := rc.deps.Frontier.Sync(ctx); err != nil {
		return err
	}
	if received {
		rc.deps.Event(Event{Kind: Received, Record: r, Peer: from})
		rc.queue.add(r.Host, false)
	}
	return nil
}
