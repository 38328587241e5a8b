package peer

import (
	"fmt"
	"runtime"
	"time"

	"proxima/node/wire"
)

// Bounds of one batch for the shelf.
const (
	maxBatch      = 1000 // keys
	maxBatchBytes = 512 << 10
)

// write is a change of the shelf that one caller waits for: links to add and keys to remove, in one step.
type write struct {
	adds  []stored // values are bodies of blocks, each no more than fits into a message
	del   [][]byte
	bytes int // of adds
	// done says that it is written, or has failed with err. The turn guards both.
	done bool
	err  error
}

// stored is a block that goes to the shelf, and then into the queue of its peer.
type stored struct {
	peer string
	block
}

// pack adds links for a peer to a write, in blocks like the given one.
func (o *Outbox) pack(w *write, to string, links []*wire.Link, like block) error {
	for len(links) > 0 {
		n := fit(links, o.cfg.OutboxMessageLinks, o.cfg.messageBytes())
		body, err := encodeLinks(links[:n])
		if err != nil {
			return fmt.Errorf("add to outbox of %s: %w", to, err)
		}
		like.links, like.value = int32(n), body
		w.adds = append(w.adds, stored{to, like})
		w.bytes += len(body)
		links = links[n:]
	}
	return nil
}

// write makes a change durable, then queues its blocks. Changes that several callers make at the same time become one
// batch, and their links for one peer share blocks: a commit and a key cost more than the few links of a page.
func (o *Outbox) write(w *write) error {
	o.mu.Lock()
	o.writes = append(o.writes, w)
	o.mu.Unlock()
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if !w.done {
		runtime.Gosched() // let callers that are about to write join this batch
	}
	for !w.done { // or another caller has written it
		o.writeBatch()
	}
	return w.err
}

// writeBatch makes one batch of the changes that wait, the first ones if they are too many. It is called with the turn.
func (o *Outbox) writeBatch() {
	o.mu.Lock()
	n, bytes, keys := 0, 0, 0
	for _, next := range o.writes {
		keys, bytes = keys+len(next.adds)+len(next.del), bytes+next.bytes
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
		for _, s := range set {
			put(encodeKey(kindQueued, s.peer, s.seq), s.value)
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
		for _, s := range set {
			o.push(s)
		}
	}
}

// gather makes numbered blocks of what some writes add. Links for one peer that wait equally long share a block; bad blocks
// stay alone.
func (o *Outbox) gather(group []*write) (set []stored) {
	type kind struct {
		to    string
		due   time.Duration
		tries int32
	}
	open := map[kind]stored{}
	seal := func(a stored) {
		a.value = encodeBlock(int(a.links), a.value)
		a.bytes, a.at = int32(len(a.value)), o.now()
		set = append(set, a)
	}
	for _, w := range group {
		for _, a := range w.adds {
			if a.bad > 0 {
				seal(a)
				continue
			}
			k := kind{a.peer, a.due, a.tries}
			if b, ok := open[k]; ok && o.cfg.fits(int(b.links+a.links), len(b.value)+len(a.value)) {
				b.born, b.other = o.common(b.block, a.block)
				b.links, b.value = b.links+a.links, append(b.value, a.value...)
				a = b
			} else if ok {
				seal(b)
			}
			open[k] = a
		}
	}
	for _, a := range open {
		seal(a)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range set {
		o.seq++
		set[i].seq = o.seq
	}
	return set
}
