package peer

import (
	"context"
	"fmt"
	"math"
	"time"

	"proxima/node/wire"
)

// While a peer is frozen, or nobody knows who owns a host, unanswered links lie on one disk only. So that no page has to
// wait for that, such links are copied to the outbox of another node, their custodian, which sends them too. Whichever copy
// arrives second is answered as a duplicate. A copied link counts as settled.

// copied is the birth of blocks that another outbox has too. It is later than any time, so Settled passes over them.
const copied = time.Duration(math.MaxInt64)

// Keep keeps links for another node, as Add does for this one. If that node goes away they are copied to a third.
func (o *Outbox) Keep(ctx context.Context, from string, links map[string][]*wire.Link) error {
	return o.add(ctx, links, block{born: copied, other: from})
}

// common returns the birth of the oldest of some blocks, and the other outbox that has their links too. Unless it is the same for
// all of them, they count as not copied.
func (o *Outbox) common(blocks ...block) (born time.Duration, other string) {
	born, other = blocks[0].born, blocks[0].other
	for _, b := range blocks {
		if born = min(born, b.born); b.other != other {
			other = ""
		}
	}
	if other == "" {
		born = min(born, o.now())
	}
	return born, other
}

// copyIn returns how long until something of a queue, or something added from now on, may have to be copied. It is called
// with mu held.
func (o *Outbox) copyIn(q *queue, inFlight []block) time.Duration {
	oldest := o.now()
	for b := range q.blocks(inFlight) {
		if b.born == copied {
			continue
		}
		added := max(b.at, q.copyAt)
		if added < o.urged {
			return 0
		}
		oldest = min(oldest, added)
	}
	return max(oldest+o.cfg.CopyAfter-o.now(), 0)
}

// copyOut sends a custodian what has waited long enough in a queue, and returns when to look again. Its error comes from the
// shelf.
func (o *Outbox) copyOut(ctx context.Context, q *queue, inFlight []block) (wait time.Duration, err error) {
	if o.deps.Custodian == nil {
		return math.MaxInt64, nil
	}
	o.leave(q, inFlight)
	o.mu.Lock()
	if wait := o.copyIn(q, inFlight); wait > 0 {
		o.mu.Unlock()
		return wait, nil
	}
	var todo []block
	for b := range q.blocks(inFlight) {
		if b.born != copied {
			todo = append(todo, *b)
		}
	}
	o.mu.Unlock()
	if err := o.sendCopies(ctx, q, todo, inFlight); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	q.copyAt = max(o.now(), o.urged) // what was urged has been tried, whether or not it succeeded
	return o.copyIn(q, inFlight), nil
}

// leave forgets nodes that are gone: what their outboxes had too must be copied again.
func (o *Outbox) leave(q *queue, inFlight []block) {
	gone := map[string]bool{}
	o.mu.Lock()
	for b := range q.blocks(inFlight) {
		if b.other != "" {
			gone[b.other] = false
		}
	}
	o.mu.Unlock()
	if q.custodian != "" {
		gone[q.custodian] = false
	}
	for id := range gone {
		gone[id] = o.deps.Gone(id)
	}
	if gone[q.custodian] {
		q.custodian = ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for b := range q.blocks(inFlight) {
		if gone[b.other] {
			o.setBorn(b, o.now(), "")
		}
	}
}

// setBorn changes the birth of a block, and which other outbox has its links. It is called with mu held.
func (o *Outbox) setBorn(b *block, born time.Duration, other string) {
	o.dropBorn(b.born)
	b.born, b.other = born, other
	o.born[born]++
}

// sendCopies sends blocks to the custodian of a queue, and marks those that it took. Its error comes from the shelf.
func (o *Outbox) sendCopies(ctx context.Context, q *queue, todo, inFlight []block) error {
	if q.custodian == "" {
		q.custodian = o.deps.Custodian(q.peer)
	}
	for len(todo) > 0 && q.custodian != "" {
		taken := make(map[uint64]bool)
		req, size := &wire.DeliverRequest{Keep: true}, 0
		for len(todo) > 0 {
			b := todo[0]
			if n := len(req.Links); n > 0 && !o.cfg.fits(n+int(b.links), size+int(b.bytes)) {
				break
			}
			todo = todo[1:]
			value, err := o.deps.Shelf.Get(encodeKey(kindQueued, q.peer, b.seq))
			if err != nil {
				return fmt.Errorf("%w: read outbox: %w", errShelf, err)
			}
			links, err := decodeBlock(value)
			if err != nil {
				continue // it is set aside when it is sent
			}
			req.Links, size, taken[b.seq] = append(req.Links, links...), size+int(b.bytes), true
		}
		res, err := o.deps.Deliver(ctx, q.custodian, req)
		if err != nil || len(res.GetAnswers()) != len(req.Links) {
			q.custodian = o.deps.Custodian(q.peer, q.custodian)
			return nil
		}
		o.mu.Lock()
		for b := range q.blocks(inFlight) {
			if taken[b.seq] {
				o.setBorn(b, copied, q.custodian)
			}
		}
		o.mu.Unlock()
	}
	return nil
}
