package ownership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/frontier"
	"proxima/node/wire"
)

// storesAtOnce bounds how many hosts of one message are stored at the same time.
const storesAtOnce = 64

// Store unites what a peer has of hosts with what this node has. The answers are given when it is on disk.
func (rc *reconciler) Store(ctx context.Context, _ string, req *wire.StoreRequest) (*wire.StoreResponse, error) {
	if err := rc.begun(); err != nil {
		return nil, err
	}
	res := &wire.StoreResponse{Answers: make([]*wire.StoreAnswer, len(req.GetItems()))}
	// Hosts that are stored at the same time share commits, which cost more than the few changes of a host.
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(storesAtOnce)
	for i, item := range req.GetItems() {
		g.Go(func() (err error) {
			res.Answers[i], err = rc.store(each, item)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	// Whoever only compares may remove what it has by this answer: what this node has must be safe, too.
	return res, rc.persist(ctx)
}

func (rc *reconciler) store(ctx context.Context, item *wire.StoreItem) (*wire.StoreAnswer, error) {
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
	answer, leaving, err := rc.weigh(r)
	if err != nil || answer.GetStep() == wire.Step_STEP_REFUSED {
		return answer, err
	}
	if leaving { // what is being compared must not change
		answer.Step = wire.Step_STEP_LATER
		return answer, nil
	}
	if item.GetChunk() != nil {
		_, err := rc.deps.Frontier.Import(ctx, r.Host, chunk, r.origin())
		switch {
		case errors.Is(err, frontier.ErrDiskFull):
			answer.Step = wire.Step_STEP_FULL
			return answer, nil
		case err != nil:
			return nil, fmt.Errorf("store %s: %w", r.Host, err)
		}
		if now, _, err := rc.records.get(r.Host); err != nil {
			return nil, err
		} else if now.Owner == rc.self() {
			if err := rc.replicator.own(ctx, now); err != nil {
				return nil, err
			}
			rc.found(r.Host)
		} else if !answer.Keeps {
			// It is on its way here, or here for a while only. Whoever gives it is to finish first.
			rc.queue.addLater(r.Host, time.Now().Add(rc.cfg.TakeAfter))
		}
	}
	answer.Step = wire.Step_STEP_STORED
	if item.GetDigest() == nil {
		return answer, nil
	}
	d, err := rc.deps.Frontier.DigestOf(ctx, r.Host)
	if err != nil {
		return nil, err
	}
	if d == digestFromWire(item.GetDigest()) {
		return answer, nil
	}
	answer.Step = wire.Step_STEP_DIFFERS
	if now, _, err := rc.records.get(r.Host); err != nil {
		return nil, err
	} else if item.GetChunk() == nil && now.Owner == rc.self() && !rc.replicator.stream.busy(r.Host) {
		rc.queue.add(r.Host, false) // who keeps its replica says so
	}
	return answer, nil
}

// weigh compares the record of a peer with that of this node: the newer one stays, unless this node owns the host. Then
// the home has to say who is right.
func (rc *reconciler) weigh(r Record) (answer *wire.StoreAnswer, leaving bool, err error) {
	answer = &wire.StoreAnswer{}
	_, _, err = rc.edit(r.Host, func(mine Record, ok bool) (Record, bool) {
		v := rc.views.Now()
		_, leaving = rc.proposals[r.Host]
		switch {
		case ok && mine.Newer(r):
			answer.Newer = mine.wire()
		case ok && mine.Owner == v.Self && r.Owner != v.Self && v.Home(r.Host) == v.Self && v.Majority && !v.IsAlive(r.Owner):
			// An owner of which this home did not know, and that is gone: it goes on with an epoch beyond that one's.
			if r.Newer(mine) && r.Epoch < maxEpoch {
				mine.Epoch = r.Epoch + 1
				rc.census.contested[r.Host] = time.Now().Add(rc.cfg.FenceAfter)
				answer.Newer = mine.wire()
			}
			answer.Keeps = true
			return mine, true
		case ok && mine.Owner == v.Self && r.Owner != v.Self:
			rc.rights.claimLocked(mine, false)
		case r.Owner == v.Self && (!ok || r.Newer(mine)):
			// This node has forgotten it by a power cut, or it is another node's by now.
			if v.Home(r.Host) != v.Self {
				answer.Step = wire.Step_STEP_REFUSED // the home knows whose
				break
			}
			if !v.Majority || r.Epoch >= maxEpoch || rc.census.collectingLocked(r.Host, time.Now()) {
				leaving = true
				break
			}
			if !ok {
				mine = Record{Host: r.Host, Owner: v.Self}
			}
			mine.Epoch = r.Epoch + 1
			answer.Newer, answer.Keeps = mine.wire(), mine.Owner == v.Self
			rc.queue.add(r.Host, true)
			return mine, true
		case !ok || r.Newer(mine):
			mine, ok = r, true
			answer.Keeps = v.Replica(r.Host, r.Owner) == v.Self
			return r, true
		}
		answer.Keeps = ok && (mine.Owner == v.Self || v.Replica(r.Host, mine.Owner) == v.Self)
		return mine, false
	})
	return answer, leaving, err
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
	var res *wire.CommitResponse
	_, committed, err := rc.edit(r.Host, func(mine Record, ok bool) (Record, bool) {
		_, leaving := rc.proposals[r.Host]
		switch {
		case ok && mine == r:
			res = &wire.CommitResponse{Step: wire.Step_STEP_COMMITTED} // its answer was lost
		case ok && !r.Newer(mine):
			res = &wire.CommitResponse{Step: wire.Step_STEP_REFUSED, Reason: "it has a newer record", Newer: mine.wire()}
		case !rc.views.Now().Majority:
			res = &wire.CommitResponse{Step: wire.Step_STEP_REFUSED, Reason: "it does not see a majority of the nodes"}
		case rc.draining.Load():
			res = &wire.CommitResponse{Step: wire.Step_STEP_REFUSED, Reason: "it is drained"}
		case leaving:
			res = &wire.CommitResponse{Step: wire.Step_STEP_LATER, Reason: "it is handing the host over"}
		case d != digestFromWire(req.GetDigest()):
			res = &wire.CommitResponse{Step: wire.Step_STEP_DIFFERS}
		default:
			rc.rights.claimLocked(r, true)
			rc.counts.Received++
			return r, true
		}
		return mine, false
	})
	if err != nil || !committed {
		return res, err
	}
	// From here on this node is the owner, and knows it after a crash.
	ctx = context.WithoutCancel(ctx)
	if err := rc.records.flush(); err != nil {
		return nil, err
	}
	if err := rc.deps.Frontier.SetRole(ctx, r.Host, frontier.Owned); err != nil {
		return nil, err
	}
	if err := rc.deps.Frontier.Sync(ctx); err != nil {
		return nil, err
	}
	rc.deps.Event(Event{Kind: Received, Record: r, Peer: from})
	rc.queue.add(r.Host, false)
	return &wire.CommitResponse{Step: wire.Step_STEP_COMMITTED}, nil
}
