package peer

import (
	"cmp"
	"fmt"
	"runtime"

	"proxima/node/wire"
)

// Bounds of one batch for the shelf.
const (
	maxBatch      = 1000 // keys
	maxBatchBytes = 512 << 10
)

// write is a change of the shelf that one caller waits for: links to add and keys to remove, in one step.
type write struct {
	adds []*block // values are bodies of blocks, each no more than fits into a message
	del  [][]byte
	// done says that it is written, or has failed with err. The turn guards both.
	done bool
	err  error
}

// pack adds links for a peer to a write, in blocks like the given one.
func (o *Outbox) pack(w *write, to string, links []*wire.Link, like block) error {
	for len(links) > 0 {
		n := fit(links, o.cfg.OutboxMessageLinks, o.cfg.OutboxMessageBytes)
		body, err := encodeLinks(links[:n])
		if err != nil {
			return fmt.Errorf("add to outbox of %s: %w", to, err)
		}
		b := like
		b.peer, b.links, b.value = to, n, body
		w.adds = append(w.adds, &b)
		links = links[n:]
	}
	return nil
}

// write makes changes durable, then queues their blocks. Changes that several callers make at the same time become one
// batch, and their links for one peer share blocks: a commit and a key cost more than the few links of a page.
func (o *Outbox) write(writes ...*write) (err error) {
	o.mu.Lock()
	o.writes = append(o.writes, writes...)
	o.mu.Unlock()
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	for _, w := range writes {
		if !w.done {
			runtime.Gosched() // let callers that are about to write join this batch
		}
		for !w.done { // or another caller has written it
			o.writeBatch()
		}
		err = cmp.Or(err, w.err)
	}
	return err
}

// writeBatch makes one batch of the changes that wait, the first ones if they are too many. It is called with the turn.
func (o *Outbox) writeBatch() {
	o.mu.Lock()
	n, bytes, keys := 0, 0, 0
	for _, next := range o.writes {
		keys += len(next.adds) + len(next.del)
		for _, b := range next.adds {
			bytes += len(b.value)
		}
		if n > 0 && (keys > maxBatch || bytes > maxBatchBytes) {
			break
		}
		n++
	}
	group := o.writes[:n:n]
	o.writes = o.writes[n:]
	o.mu.Unlock()

	set := o.gather(group)
	err := o.deps.Shelf.Batch(func(put func(key, value []byte), remove func(key []byte)) {
		for _, w := range group {
			for _, key := range w.del {
				remove(key)
			}
		}
		for _, b := range set {
			put(b.key(), b.value)
		}
	})
	if err != nil {
		err = fmt.Errorf("write outbox: %w", err)
	}
	for _, w := range group {
		w.done, w.err = true, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written = o.seq
	if err == nil {
		for _, b := range set {
			o.push(b)
		}
	}
}

// gather makes numbered blocks of what some writes add. New links for one peer share blocks.
func (o *Outbox) gather(group []*write) (set []*block) {
	open := map[string]*block{}
	for _, w := range group {
		for _, a := range w.adds {
			b, fresh := open[a.peer], a.tries == 0 && a.bad == 0
			if fresh && b != nil && o.cfg.fits(b.links+a.links, len(b.value)+len(a.value)) {
				b.born, b.other = o.common(b, a)
				b.links, b.value = b.links+a.links, append(b.value, a.value...)
				continue
			}
			if set = append(set, a); fresh {
				open[a.peer] = a
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range set {
		o.seq++
		b.value = encodeBlock(b.links, b.value)
		b.seq, b.bytes, b.at = o.seq, len(b.value), o.now()
	}
	return set
}
