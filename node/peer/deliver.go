package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"proxima/frontier/identity"
	"proxima/node/wire"
)

// badLimit is how often a message may be refused as unreadable before it is set aside, and how often a peer may fail over
// messages before they are taken to be the cause.
const badLimit = 3

// serve sends the links of one queue until it is empty or ctx ends.
func (o *Outbox) serve(ctx context.Context, q *queue) error {
	for ctx.Err() == nil {
		gone := o.deps.Gone(q.peer)
		if err := o.refill(q); err != nil {
			return err
		}
		o.mu.Lock()
		blocks, wait := q.take(o.now(), o.cfg, gone)
		if len(q.blocks) == 0 && q.beyond == 0 {
			q.running = false
			delete(o.queues, q.peer)
			o.mu.Unlock()
			return nil
		}
		o.mu.Unlock()
		if len(blocks) > 0 {
			if err := o.deliver(ctx, q, blocks, gone); err != nil {
				return err
			}
			continue
		}
		select {
		case <-time.After(wait):
		case <-q.wake:
		case <-ctx.Done():
		}
	}
	return nil
}

// message is blocks read from disk.
type message struct {
	blocks []*block
	links  []*wire.Link
}

// deliver sends blocks in one message or, if their peer is gone, routes them anew. Links without a final answer stay in the
// queue. Its error comes from the shelf.
func (o *Outbox) deliver(ctx context.Context, q *queue, blocks []*block, gone bool) error {
	m, err := o.read(q, blocks)
	if err != nil || len(m.links) == 0 {
		return err
	}
	if gone {
		return o.settle(q, m, o.judge(q, m.links, nil))
	}
	res, err := o.deps.Deliver(ctx, q.peer, &wire.DeliverRequest{Links: m.links})
	if err == nil && len(res.GetAnswers()) != len(m.links) {
		err = fmt.Errorf("%w: it did not answer every link: %d answers to %d links", errFault, len(res.GetAnswers()), len(m.links))
	}
	switch {
	case err == nil:
		o.mu.Lock()
		q.failures = 0
		o.mu.Unlock()
		return o.settle(q, m, o.judge(q, m.links, res.Answers))
	case ctx.Err() != nil:
		return nil
	}
	o.mu.Lock()
	q.failures++
	unreadable := errors.Is(err, ErrMalformed)
	if !unreadable { // the fault is the peer's or the network's, so all its links wait
		q.retry = o.now() + o.backoff(q.failures, o.cfg.OutboxBackoff)
	}
	// Perhaps one link makes the peer fail each time. It must not hold up all others.
	suspect := errors.Is(err, errFault) && (q.failures >= badLimit || m.blocks[0].bad > 0)
	silent := q.failures >= badLimit
	o.mu.Unlock()
	if unreadable || suspect {
		return o.narrow(q, m, err)
	}
	if silent {
		o.doubt(q.peer, m.links)
	}
	// Links that belong to another node by now go there: the peer may not answer for long.
	if f := o.judge(q, m.links, nil); len(f.stay) < len(m.links) {
		return o.settle(q, m, f)
	}
	return nil
}

// doubt forgets that a peer which does not answer owns the hosts of some links: it may not own them any more, so their homes are asked next.
func (o *Outbox) doubt(peer string, links []*wire.Link) {
	doubted := map[string]bool{}
	for _, l := range links {
		if u, err := identity.Parse(l.GetUrl()); err == nil && !doubted[u.Host] {
			doubted[u.Host] = true
			o.deps.Moved(&wire.Record{Host: u.Host, Home: peer})
		}
	}
}

// read reads the links of blocks. It sets unreadable blocks aside and goes on with the others.
func (o *Outbox) read(q *queue, blocks []*block) (message, error) {
	var m message
	for _, b := range blocks {
		o.mu.Lock()
		value := b.value
		o.kept -= len(value)
		b.value = nil // if the block has to wait, it is read from disk the next time
		o.mu.Unlock()
		if value == nil {
			var err error
			if value, err = o.get(b); err != nil {
				return m, err
			}
		}
		links, err := decodeBlock(value)
		if err != nil {
			if err := o.setAside(q, b, err); err != nil {
				return m, err
			}
			continue
		}
		m.blocks = append(m.blocks, b)
		m.links = append(m.links, links...)
	}
	return m, nil
}

// narrow looks for the link in a message that its receiver cannot read, or fails over. From now on the blocks are sent one
// by one, and a block that fails too often is halved, until that link is alone. If it is unreadable it is set aside. If
// the peer fails over it, which may be mended some day, it waits behind all others.
func (o *Outbox) narrow(q *queue, m message, cause error) error {
	unreadable := errors.Is(cause, ErrMalformed)
	if b := m.blocks[0]; len(m.blocks) == 1 && b.bad+1 >= badLimit && (unreadable || len(m.links) > 1) {
		if len(m.links) == 1 {
			return o.setAside(q, b, cause)
		}
		w, half := &write{}, len(m.links)/2
		like := block{bad: badLimit - 1, due: o.now()}
		like.born, like.other = o.common(b)
		for _, part := range [][]*wire.Link{m.links[:half], m.links[half:]} {
			if err := o.pack(w, q.peer, part, like); err != nil {
				return err
			}
		}
		return o.replace(w, q, m)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range m.blocks {
		b.bad++
		b.tries++
		b.due = max(o.now(), q.retry) + o.backoff(b.tries, o.cfg.OutboxBackoff)
	}
	return nil
}

// replace carries out a write in place of the blocks of a message.
func (o *Outbox) replace(w *write, q *queue, m message) error {
	for _, b := range m.blocks {
		w.del = append(w.del, b.key())
	}
	if err := o.write(w); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	q.leave(m.blocks...)
	return nil
}

// setAside moves a block to where nothing is sent from.
func (o *Outbox) setAside(q *queue, b *block, cause error) error {
	value, err := o.get(b)
	if err != nil {
		return err
	}
	err = o.deps.Shelf.Batch(func(put func(key, value []byte), remove func(key []byte)) {
		remove(b.key())
		put(encodeKey(kindAside, q.peer, b.seq), value)
	})
	if err != nil {
		return fmt.Errorf("write outbox: %w", err)
	}
	o.mu.Lock()
	o.stats.SetAside += uint64(b.links)
	q.leave(b)
	o.mu.Unlock()
	o.deps.Aside(q.peer, b.links, cause)
	return nil
}

// settle does in one step what was decided about the links of a message.
func (o *Outbox) settle(q *queue, m message, f outcomes) error {
	tries := 0
	for _, b := range m.blocks {
		tries = max(tries, b.tries+1)
	}
	due := o.now() + o.backoff(tries, laterBackoff)
	if len(f.stay) == len(m.links) { // nothing changes on disk
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, b := range m.blocks {
			b.tries, b.due, b.bad = tries, due, 0
		}
		return nil
	}
	w, like := &write{}, block{tries: tries, due: due}
	like.born, like.other = o.common(m.blocks...)
	if err := o.pack(w, q.peer, f.stay, like); err != nil {
		return err
	}
	if like.due = 0; tries > 1 { // a link sent to and fro waits longer each time
		like.due = o.now() + o.backoff(tries-1, laterBackoff)
	}
	for to, links := range f.move {
		if err := o.pack(w, to, links, like); err != nil {
			return err
		}
	}
	if err := o.replace(w, q, m); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.held.answered(m.links, f)
	o.stats.Accepted += f.stats.Accepted
	o.stats.Duplicate += f.stats.Duplicate
	o.stats.Refused += f.stats.Refused
	return nil
}

// outcomes are what becomes of the links of a message.
type outcomes struct {
	stay  []*wire.Link
	move  map[string][]*wire.Link
	stats OutboxStats
}

// judge decides what becomes of links by their answers, and tells of those refused. Without any answers, all have moved.
func (o *Outbox) judge(q *queue, links []*wire.Link, answers []*wire.Delivered) outcomes {
	moved := map[string]*wire.Record{}
	for _, a := range answers {
		if r := a.GetRecord(); r != nil {
			moved[r.Host] = r
		}
	}
	for _, r := range moved {
		o.deps.Moved(r)
	}
	f := outcomes{move: map[string][]*wire.Link{}}
	for i, link := range links {
		answer := &wire.Delivered{Verdict: wire.Verdict_VERDICT_MOVED}
		if answers != nil {
			answer = answers[i]
		}
		switch answer.GetVerdict() {
		case wire.Verdict_VERDICT_ACCEPTED:
			f.stats.Accepted++
		case wire.Verdict_VERDICT_DUPLICATE:
			f.stats.Duplicate++
		case wire.Verdict_VERDICT_REFUSED:
			f.stats.Refused++
			o.deps.Refused(q.peer, link, plain(answer.GetReason()))
		case wire.Verdict_VERDICT_MOVED:
			if to := o.deps.Route(link); to != q.peer && checkID(to) == nil {
				f.move[to] = append(f.move[to], link)
			} else {
				f.stay = append(f.stay, link)
			}
		default: // later, or a verdict that this version does not know
			f.stay = append(f.stay, link)
		}
	}
	return f
}
