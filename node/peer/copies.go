package peer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"proxima/node/wire"
)

// While a peer is frozen, or nobody knows who owns a host, unanswered links lie on one disk only. So that no page has to
// wait for that, such links are copied to the outbox of another node, their custodian, which sends them too. Whichever copy
// arrives second is answered as a duplicate. A copied link counts as settled.

// copied is the birth of blocks that another outbox has too. It is later than any time, so Settled passes over them.
const copied = time.Duration(math.MaxInt64)

// Keep keeps links for another node, as Add does for this one. If that node goes away they are copied to a third. What is kept already is
// left out: each time one of two nodes is away for a moment, the other one copies, and the copies would multiply as long as the receiver
// takes nothing.
func (o *Outbox) Keep(ctx context.Context, from string, links map[string][]*wire.Link) error {
	o.keeping <- struct{}{}
	defer func() { <-o.keeping }()
	fresh := make(map[string][]*wire.Link)
	o.mu.Lock()
	for to, all := range links {
		if all = slices.DeleteFunc(slices.Clone(all), o.held.has); len(all) > 0 {
			fresh[to] = all
			o.held.add(all) // now: they may be answered before add returns
		}
	}
	o.mu.Unlock()
	err := o.add(ctx, fresh, block{born: copied, other: from})
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, all := range fresh {
			o.held.answered(all, outcomes{})
		}
	}
	return err
}

// held are the hashes of links that lie here for other nodes, or since an earlier life. A hash that is missing costs a copy.
type held map[uint64]struct{}

// maxHeld bounds the memory of held, some 20 bytes for each.
const maxHeld = 1 << 20

func (h held) add(links []*wire.Link) {
	for _, l := range links {
		if len(h) < maxHeld {
			h[hashOf(l)] = struct{}{}
		}
	}
}

func (h held) has(l *wire.Link) bool {
	_, ok := h[hashOf(l)]
	return ok
}

// answered forgets links, except those that stay here or move to another queue.
func (h held) answered(links []*wire.Link, f outcomes) {
	if len(h) == 0 {
		return // the usual case
	}
	rest := make(map[*wire.Link]bool)
	for _, l := range f.stay {
		rest[l] = true
	}
	for _, moved := range f.move {
		for _, l := range moved {
			rest[l] = true
		}
	}
	for _, l := range links {
		if !rest[l] {
			delete(h, hashOf(l))
		}
	}
}

// hashOf returns a hash of all that is said of a link.
func hashOf(l *wire.Link) uint64 {
	b := fmt.Appendf(nil, "%d %d %t ", l.GetDepth(), l.GetHops(), l.GetSitemap())
	return xxhash.Sum64(append(b, l.GetUrl()...))
}

// common returns the birth of the oldest of some blocks, and the other outbox that has their links too. Unless it is the same for
// all of them, they count as not copied.
func (o *Outbox) common(blocks ...*block) (born time.Duration, other string) {
	o.mu.Lock()
	defer o.mu.Unlock()
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

// copyOut sends a custodian what waits in a queue for long, until ctx ends. Its error comes from the shelf.
func (o *Outbox) copyOut(ctx context.Context, q *queue) error {
	custodian := ""
	for tried := time.Duration(0); ctx.Err() == nil; {
		custodian = o.staying(q, custodian)
		var todo []*block
		o.mu.Lock()
		wait := o.copyIn(q, tried)
		if wait <= 0 {
			todo = slices.DeleteFunc(slices.Clone(q.blocks), func(b *block) bool { return b.born == copied })
			tried = max(o.now(), o.urged) // what was urged counts as tried, whether or not it succeeds
		}
		o.mu.Unlock()
		var err error
		if custodian, err = o.sendCopies(ctx, q, custodian, todo); err != nil {
			return err
		}
		select {
		case <-time.After(wait):
		case <-q.copy:
		case <-ctx.Done():
		}
	}
	return nil
}

// copyIn returns how long until something of a queue, or something added from now on, may have to be copied, if the last time was
// tried. It is called with mu held.
func (o *Outbox) copyIn(q *queue, tried time.Duration) time.Duration {
	oldest := o.now()
	for _, b := range q.blocks {
		if b.born == copied {
			continue
		}
		added := max(b.at, tried)
		if added < o.urged {
			return 0
		}
		oldest = min(oldest, added)
	}
	return oldest + o.cfg.CopyAfter - o.now()
}

// staying returns the custodian of a queue, "" if it is gone. What the outboxes of nodes had too that are gone must be copied again.
func (o *Outbox) staying(q *queue, custodian string) string {
	gone := map[string]bool{custodian: false}
	o.mu.Lock()
	for _, b := range q.blocks {
		gone[b.other] = false
	}
	o.mu.Unlock()
	for id := range gone {
		gone[id] = id != "" && o.deps.Gone(id)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range q.blocks {
		if gone[b.other] {
			b.born, b.other = o.now(), ""
		}
	}
	if gone[custodian] {
		return ""
	}
	return custodian
}

// sendCopies sends blocks to the custodian of a queue, and marks those that it took. It returns the next custodian. Its error
// comes from the shelf.
func (o *Outbox) sendCopies(ctx context.Context, q *queue, custodian string, todo []*block) (next string, err error) {
	if custodian == "" && len(todo) > 0 {
		custodian = o.deps.Custodian(q.peer)
	}
	for len(todo) > 0 && custodian != "" {
		var taken []*block
		req, size := &wire.DeliverRequest{Keep: true}, 0
		for len(todo) > 0 {
			b := todo[0]
			if n := len(req.Links); n > 0 && !o.cfg.fits(n+b.links, size+b.bytes) {
				break
			}
			todo = todo[1:]
			value, err := o.get(b)
			if err != nil {
				return "", err
			}
			links, err := decodeBlock(value)
			if err != nil {
				continue // it was answered meanwhile, or is set aside when it is sent
			}
			req.Links, size, taken = append(req.Links, links...), size+b.bytes, append(taken, b)
		}
		if len(taken) == 0 {
			break
		}
		res, err := o.deps.Deliver(ctx, custodian, req)
		if err != nil || len(res.GetAnswers()) != len(req.Links) {
			return o.deps.Custodian(q.peer, custodian), nil
		}
		o.mu.Lock()
		for _, b := range taken {
			b.born, b.other = copied, custodian
		}
		o.mu.Unlock()
	}
	return custodian, nil
}
