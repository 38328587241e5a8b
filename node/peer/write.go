package peer

import (
	"fmt"
	"runtime"
)

// What is written at once, at most.
const (
	maxBatch      = 1000
	maxBatchBytes = 512 << 10
)

// write is links and blocks that become durable, and keys that are removed, in one step.
type write struct {
	// adds are links that are not in blocks yet, all to be counted alike.
	adds []addition
	like block
	set  []stored
	del  [][]byte
	// keys and bytes are about what it is for the shelf.
	keys, bytes int
	// done says true if its caller has to write what waits, false when it is written, or has failed.
	done chan bool
	err  error
}

// addition is encoded links for one peer, no more than a message may hold.
type addition struct {
	to    string
	links int
	body  []byte
}

// write makes links and blocks durable, and removes keys, in one step; then the blocks are in their queues. What several
// callers write at the same time is one step for the store, and their links for one peer share blocks: a commit, and a
// key, cost more than the few links of a page.
func (o *Outbox) write(w *write) error {
	w.done = make(chan bool, 1)
	o.mu.Lock()
	o.writes = append(o.writes, w)
	lead := !o.writing
	o.writing = true
	o.mu.Unlock()
	if !lead && !<-w.done {
		return w.err
	}
	runtime.Gosched() // who is about to add links comes along
	o.mu.Lock()
	n, bytes, keys := 0, 0, 0
	for _, next := range o.writes {
		keys, bytes = keys+next.keys, bytes+next.bytes
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
			put(encodeKey(kindQueued, s.peer, s.block.seq), s.value)
		}
	})
	if err != nil {
		err = fmt.Errorf("write outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range set {
		delete(o.coming, s.block.seq)
		if err == nil {
			o.push(s)
		}
	}
	for _, other := range group {
		if other != w {
			other.err = err
			other.done <- false
		}
	}
	if o.writing = len(o.writes) > 0; o.writing {
		o.writes[0].done <- true
	}
	return err
}

// gather makes blocks of all that some writes add.
func (o *Outbox) gather(group []*write) []stored {
	var alike []block
	merged := make(map[string]addition)
	var set, full []stored
	seal := func(a addition) {
		value := append(blockHead(a.links), a.body...)
		full = append(full, stored{a.to, block{links: int32(a.links), bytes: int32(len(value))}, value})
	}
	for _, w := range group {
		set = append(set, w.set...)
		if len(w.adds) > 0 {
			alike = append(alike, w.like)
		}
		for _, a := range w.adds {
			m := merged[a.to]
			if m.links > 0 && (m.links+a.links > o.cfg.OutboxMessageLinks || len(m.body)+len(a.body) > o.cfg.OutboxMessageKiB<<10) {
				seal(m)
				m = addition{}
			}
			merged[a.to] = addition{a.to, m.links + a.links, append(m.body, a.body...)}
		}
	}
	for _, m := range merged {
		seal(m)
	}
	if len(full) == 0 {
		return set
	}
	like := o.common(alike...)
	for i := range full {
		b := &full[i].block
		b.at, b.born, b.other = o.now(), like.born, like.other
	}
	return append(set, o.number(full)...)
}
