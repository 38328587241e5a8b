package peer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"proxima/node/wire"
)

// badLimit is how often a message may be refused as unreadable before it is set aside, and how often a peer may break down
// over messages before they are taken for the cause.
const badLimit = 3

// serve sends the links of one queue until it is empty or ctx ends.
func (o *Outbox) serve(ctx context.Context, q *queue) error {
	lim := limits{o.cfg.OutboxMessageLinks, o.cfg.OutboxMessageKiB << 10, o.cfg.OutboxWait}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		gone := o.deps.Gone != nil && o.deps.Gone(q.peer)
		if err := o.refill(q); err != nil {
			return err
		}
		o.mu.Lock()
		blocks, wait := q.take(o.now(), lim, gone)
		if len(blocks) == 0 && q.empty() {
			q.running = false
			delete(o.queues, q.peer)
			o.mu.Unlock()
			return nil
		}
		o.mu.Unlock()
		if len(blocks) == 0 {
			due := o.now() + wait
			copyIn, err := o.copyOut(ctx, q, nil)
			if err != nil {
				return err
			}
			timer.Reset(min(due-o.now(), copyIn))
			select {
			case <-timer.C:
			case <-q.wake:
			case <-ctx.Done():
			}
			continue
		}
		if err := o.deliver(ctx, q, blocks, gone); err != nil {
			return err
		}
	}
	return nil
}

// message is blocks read from disk.
type message struct {
	blocks []block
	links  []*wire.Link
}

// deliver sends blocks in one message, or, if their peer is gone, finds others for them. What is not answered is in the
// queue again when it returns. Its error is that of the shelf.
func (o *Outbox) deliver(ctx context.Context, q *queue, blocks []block, gone bool) error {
	m, err := o.read(q, blocks)
	if err != nil || len(m.links) == 0 {
		return err
	}
	if gone {
		return o.settle(q, m, nil)
	}
	res, err := o.ask(ctx, q, m)
	if errors.Is(err, errShelf) {
		return err
	}
	if err == nil && len(res.GetAnswers()) != len(m.links) {
		err = fmt.Errorf("%w: %d answers to %d links", errAnswers, len(res.GetAnswers()), len(m.links))
	}
	switch {
	case err == nil:
		o.mu.Lock()
		o.stats.Messages++
		q.failures = 0
		o.mu.Unlock()
		return o.settle(q, m, res.Answers)
	case ctx.Err() != nil:
		o.mu.Lock()
		defer o.mu.Unlock()
		q.putBack(m.blocks)
		return nil
	}
	o.mu.Lock()
	o.stats.Failed++
	q.failures++
	if !errors.Is(err, ErrMalformed) {
		// The trouble is the peer's or the network's: all its links wait.
		q.retry = o.now() + o.backoff(q.failures)
		if !errors.Is(err, errFault) || q.failures < badLimit && m.blocks[0].bad == 0 {
			defer o.mu.Unlock()
			q.putBack(m.blocks)
			return nil
		}
		// It may be that of one link, over which the peer breaks down each time: it must not hold up all others.
	}
	o.mu.Unlock()
	return o.narrow(q, m, err)
}

// ask sends a message to its peer. While the answer is long in coming, what waits for it is copied.
func (o *Outbox) ask(ctx context.Context, q *queue, m message) (res *wire.DeliverResponse, err error) {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		res, err = o.deps.Deliver(ctx, q.peer, &wire.DeliverRequest{Links: m.links})
	}()
	for {
		wait, failed := o.copyOut(ctx, q, m.blocks)
		if failed != nil {
			<-answered
			return nil, failed
		}
		select {
		case <-answered:
			return res, err
		case <-time.After(wait):
		}
	}
}

// read takes the links of blocks from disk. A block that cannot be read is set aside; the others go on.
func (o *Outbox) read(q *queue, blocks []block) (message, error) {
	m := message{blocks: make([]block, 0, len(blocks))}
	for _, b := range blocks {
		value, err := o.value(q, &b)
		if err != nil {
			return m, err
		}
		links, err := decodeBlock(value)
		if err != nil {
			if err := o.setAside(q, b, value, err); err != nil {
				return m, err
			}
			continue
		}
		m.blocks = append(m.blocks, b)
		m.links = append(m.links, links...)
	}
	return m, nil
}

// value is what a block has on disk. It is no longer kept: a block that has to wait is read again.
func (o *Outbox) value(q *queue, b *block) ([]byte, error) {
	if value := b.value; value != nil {
		b.value = nil
		o.mu.Lock()
		defer o.mu.Unlock()
		o.kept -= len(value)
		return value, nil
	}
	value, err := o.deps.Shelf.Get(encodeKey(kindQueued, q.peer, b.seq))
	if err != nil {
		return nil, fmt.Errorf("read outbox: %w", err)
	}
	return value, nil
}

// narrow treats a message that its receiver cannot understand, or breaks down over. Its blocks are sent one by one from now
// on; one that fails too often is halved until the link that is the cause is alone. What cannot be understood is set aside
// then; a fault of the peer may be mended, and the link waits for that behind all others.
func (o *Outbox) narrow(q *queue, m message, cause error) error {
	malformed := errors.Is(cause, ErrMalformed)
	if b := m.blocks[0]; len(m.blocks) == 1 && b.bad+1 >= badLimit && (malformed || len(m.links) > 1) {
		key := encodeKey(kindQueued, q.peer, b.seq)
		if len(m.links) == 1 {
			value, err := o.deps.Shelf.Get(key)
			if err != nil {
				return fmt.Errorf("read outbox: %w", err)
			}
			return o.setAside(q, b, value, cause)
		}
		half := len(m.links) / 2
		w := &write{del: [][]byte{key}, keys: 1}
		like := o.common(m.blocks...)
		like.bad, like.due = badLimit-1, o.now()
		for _, part := range [][]*wire.Link{m.links[:half], m.links[half:]} {
			if err := o.pack(w, q.peer, part, like); err != nil {
				return err
			}
		}
		if err := o.write(w); err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.answered(q, len(m.links), m.blocks)
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range m.blocks {
		b.bad = min(b.bad+1, badLimit)
		saturate(&b.tries)
		b.due = max(o.now(), q.retry) + o.backoff(int(b.tries))
		q.put(b)
	}
	return nil
}

// setAside moves a block to where it is not sent from.
func (o *Outbox) setAside(q *queue, b block, value []byte, cause error) error {
	err := o.deps.Shelf.Batch(func(put func(key, value []byte), remove func(key []byte)) {
		remove(encodeKey(kindQueued, q.peer, b.seq))
		put(encodeKey(kindAside, q.peer, b.seq), value)
	})
	if err != nil {
		return fmt.Errorf("write outbox: %w", err)
	}
	o.mu.Lock()
	o.stats.SetAside += uint64(b.links)
	o.answered(q, int(b.links), []block{b})
	o.mu.Unlock()
	if o.deps.Aside != nil {
		o.deps.Aside(q.peer, int(b.links), cause)
	}
	return nil
}

// fate is what becomes of the links of a message.
type fate struct {
	stay    []*wire.Link
	move    map[string][]*wire.Link
	refused []refusedLink
	stats   OutboxStats
}

type refusedLink struct {
	link   *wire.Link
	reason string
}

// settle does what the answers say, in one step; no answers at all say that the peer is gone.
func (o *Outbox) settle(q *queue, m message, answers []*wire.Delivered) error {
	f := o.judge(q, m.links, answers)
	if len(f.stay) == len(m.links) {
		o.stay(q, m, f)
		return nil
	}
	tries := triesOf(m.blocks)
	w := &write{keys: len(m.blocks)}
	for _, b := range m.blocks {
		w.del = append(w.del, encodeKey(kindQueued, q.peer, b.seq))
	}
	like := o.common(m.blocks...)
	like.tries, like.due = tries, o.now()+o.backoff(int(tries))
	if err := o.pack(w, q.peer, f.stay, like); err != nil {
		return err
	}
	if like.due = 0; tries > 1 { // a link that is sent to and fro waits longer each time
		like.due = o.now() + o.backoff(int(tries)-1)
	}
	for to, links := range f.move {
		if err := o.pack(w, to, links, like); err != nil {
			return err
		}
	}
	if err := o.write(w); err != nil {
		return err
	}
	o.mu.Lock()
	o.answered(q, len(m.links), m.blocks)
	o.stats.add(f.stats)
	o.mu.Unlock()
	if o.deps.Refused != nil {
		for _, r := range f.refused {
			o.deps.Refused(q.peer, r.link, r.reason)
		}
	}
	return nil
}

// stay puts the blocks of a message back whose links all have to wait. Nothing has to be written.
func (o *Outbox) stay(q *queue, m message, f fate) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stats.add(f.stats)
	tries := triesOf(m.blocks)
	due := o.now() + o.backoff(int(tries))
	for _, b := range m.blocks {
		b.tries, b.due, b.bad = tries, due, 0
		q.put(b)
	}
}

// judge reads the answers.
func (o *Outbox) judge(q *queue, links []*wire.Link, answers []*wire.Delivered) fate {
	f := fate{move: map[string][]*wire.Link{}}
	if answers == nil {
		for _, l := range links {
			if !o.route(q, l, &f) {
				continue
			}
			f.stats.Rerouted++
		}
		return f
	}
	// Records come first: Route knows all of them when it is asked.
	type claim struct {
		host  string
		epoch uint64
		owner string
	}
	told := map[claim]bool{}
	for _, a := range answers {
		if r := a.GetRecord(); r != nil && o.deps.Moved != nil {
			if c := (claim{r.Host, r.Epoch, r.Owner}); !told[c] {
				told[c] = true
				o.deps.Moved(r)
			}
		}
	}
	for i, a := range answers {
		switch link := links[i]; a.GetVerdict() {
		case wire.Verdict_VERDICT_ACCEPTED:
			f.stats.Accepted++
		case wire.Verdict_VERDICT_DUPLICATE:
			f.stats.Duplicate++
		case wire.Verdict_VERDICT_REFUSED:
			f.stats.Refused++
			f.refused = append(f.refused, refusedLink{link, plain(a.GetReason())})
		case wire.Verdict_VERDICT_MOVED:
			f.stats.Moved++
			o.route(q, link, &f)
		default: // later, or a verdict of a later version
			f.stats.Later++
			f.stay = append(f.stay, link)
		}
	}
	return f
}

// route finds the next node for a link, and says whether there is one.
func (o *Outbox) route(q *queue, l *wire.Link, f *fate) bool {
	to := o.deps.Route(l)
	if to == q.peer || checkID(to) != nil {
		f.stay = append(f.stay, l)
		return false
	}
	f.move[to] = append(f.move[to], l)
	return true
}

func (s *OutboxStats) add(o OutboxStats) {
	s.Accepted += o.Accepted
	s.Duplicate += o.Duplicate
	s.Refused += o.Refused
	s.Moved += o.Moved
	s.Later += o.Later
	s.Rerouted += o.Rerouted
}

// triesOf is how often links of some blocks have been answered so that they are not done with, this time too.
func triesOf(blocks []block) (tries uint16) {
	for _, b := range blocks {
		tries = max(tries, b.tries)
	}
	saturate(&tries)
	return tries
}

// saturate counts up to the largest number.
func saturate(n *uint16) {
	if *n < math.MaxUint16 {
		*n++
	}
}
