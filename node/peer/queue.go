package peer

import (
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"time"

	"proxima/node/bell"
)

// block is what memory holds of a block of links on disk. Times count from the start of the outbox.
type block struct {
	seq   uint64
	at    time.Duration // when it was added; zero if in an earlier life
	born  time.Duration // when its links were first added to any block; negative if in an earlier life, or copied
	other string        // the node whose outbox has these links too, if they are copied
	due   time.Duration // not to be sent before
	links int32
	bytes int32
	value []byte // what is on disk, if it is kept in memory
	// tries counts answers that did not settle its links.
	tries int32
	// bad counts answers that it is unreadable, and peer failures that it may have caused. A bad block is sent alone.
	bad uint8
}

// queue is what waits for one peer. The lock of the outbox guards it.
type queue struct {
	peer    string
	running bool          // a goroutine sends it
	wake    bell.Bell     // wakes that goroutine
	copy    bell.Bell     // wakes it to copy links, even while it waits for an answer
	links   int           // in memory, including those in flight
	top     uint64        // the last block read into memory
	born    time.Duration // of all spilled blocks
	spilled int           // blocks after top, which are on disk only
	beyond  int           // links in those

	ready      []block // oldest first
	readyLinks int
	readyBytes int
	delayed    delayed // blocks with a due time

	custodian string        // keeps copies of what is not answered soon
	copyAt    time.Duration // when it last got some

	failures int // in a row
	retry    time.Duration
}

func newQueue(peer string) *queue {
	return &queue{peer: peer, wake: bell.New(), copy: bell.New()}
}

// push adds a block that is not counted yet.
func (q *queue) push(b block) {
	q.links += int(b.links)
	q.top = max(q.top, b.seq)
	q.put(b)
}

// put adds a block that is counted already.
func (q *queue) put(b block) {
	if b.due > 0 || b.bad > 0 {
		heap.Push(&q.delayed, b)
		return
	}
	q.ready = append(q.ready, b)
	q.readyLinks += int(b.links)
	q.readyBytes += int(b.bytes)
}

// putBack returns blocks that could not be sent to the front.
func (q *queue) putBack(blocks []block) {
	later := q.ready
	q.ready = nil
	for _, b := range blocks {
		q.put(b)
	}
	q.ready = append(q.ready, later...)
}

// hurry makes delayed blocks due.
func (q *queue) hurry() {
	for i := range q.delayed {
		q.delayed[i].due = min(q.delayed[i].due, 1)
	}
	heap.Init(&q.delayed)
}

func (q *queue) empty() bool { return len(q.ready) == 0 && len(q.delayed) == 0 && q.spilled == 0 }

// blocks iterates over all blocks in memory and those in flight.
func (q *queue) blocks(inFlight []block) iter.Seq[*block] {
	return func(yield func(*block) bool) {
		for _, list := range [][]block{q.ready, q.delayed, inFlight} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// take removes and returns the blocks of the next message, or says how long to wait for one. With atOnce, it waits neither
// for more links nor for the peer, because the peer is gone.
func (q *queue) take(now time.Duration, cfg Config, atOnce bool) (blocks []block, wait time.Duration) {
	if q.retry > now && !atOnce {
		return nil, q.retry - now
	}
	links, bytes := 0, 0
	add := func(b block) bool {
		if len(blocks) > 0 && !cfg.fits(links+int(b.links), bytes+int(b.bytes)) {
			return false
		}
		blocks, links, bytes = append(blocks, b), links+int(b.links), bytes+int(b.bytes)
		return true
	}
	for len(q.delayed) > 0 && q.delayed[0].due <= now {
		next := q.delayed[0]
		if next.bad > 0 && (len(blocks) > 0 || q.failures > 0 && len(q.ready) > 0) {
			break // it is sent alone, in turn with the others
		}
		if !add(next) {
			break
		}
		heap.Pop(&q.delayed)
		if next.bad > 0 {
			return blocks, 0
		}
	}
	if len(q.ready) > 0 {
		age := now - q.ready[0].at
		turn := len(q.delayed) > 0 && q.delayed[0].due <= now // a bad block let the others go first
		enough := len(blocks) > 0 || turn || !cfg.fits(q.readyLinks+1, q.readyBytes+1) || age >= cfg.OutboxWait
		if !enough && !atOnce {
			wait = cfg.OutboxWait - age
			if len(q.delayed) > 0 {
				wait = min(wait, q.delayed[0].due-now)
			}
			return nil, wait
		}
	}
	for len(q.ready) > 0 && add(q.ready[0]) {
		q.readyLinks -= int(q.ready[0].links)
		q.readyBytes -= int(q.ready[0].bytes)
		q.ready = q.ready[1:]
	}
	if len(q.ready) == 0 {
		q.ready = nil // release the array
	}
	if len(blocks) == 0 && len(q.delayed) > 0 {
		return nil, q.delayed[0].due - now
	}
	return blocks, 0
}

// delayed is a heap of blocks by due time.
type delayed []block

func (d delayed) Len() int           { return len(d) }
func (d delayed) Less(i, j int) bool { return d[i].due < d[j].due }
func (d delayed) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *delayed) Push(x any)        { *d = append(*d, x.(block)) }
func (d *delayed) Pop() any {
	last := len(*d) - 1
	b := (*d)[last]
	*d = (*d)[:last]
	return b
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// refill reads blocks that are on disk only, once few are left in memory.
func (o *Outbox) refill(q *queue) error {
	o.mu.Lock()
	top, last, room := q.top, o.written, o.cfg.OutboxLinks-q.links
	few := q.spilled > 0 && q.links <= o.cfg.OutboxLinks/2
	o.mu.Unlock()
	if !few {
		return nil
	}
	var found []block
	prefix := encodeKey(kindQueued, q.peer, 0)
	err := o.deps.Shelf.Scan(prefix[:len(prefix)-8], func(key, value []byte) error {
		k, err := decodeKey(key)
		switch {
		case err != nil || k.seq <= top:
			return err
		case k.seq > last:
			return errEnough // its writer is about to queue it
		}
		n, _, _ := splitBlock(value) //nolint:errcheck // an unreadable block is set aside when it is sent
		found = append(found, block{seq: k.seq, links: int32(n), bytes: int32(len(value))})
		if room -= max(n, 1); room <= 0 {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return fmt.Errorf("read outbox: %w", err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range found {
		b.born = q.born
		q.spilled--
		q.beyond -= int(b.links)
		q.push(b)
	}
	return nil
}
