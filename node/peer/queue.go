package peer

import (
	"container/heap"
	"iter"
	"time"
)

// block is some links on disk: what is in memory of them. Times are counted from the start of the outbox.
type block struct {
	seq   uint64
	at    time.Duration // when it was added; zero for an earlier life
	born  time.Duration // when its links were added first, in any block; below zero for an earlier life, copied where another outbox has them, too
	other string        // whose outbox has its links, too, where they are copied
	due   time.Duration // not sent before
	links int32
	bytes int32
	value []byte // what is on disk, if it was kept
	// tries counts the answers "later", moves and refusals.
	tries uint16
	// bad counts the refusals as unreadable, and the faults of the peer that it may be the cause of. A bad block is sent alone.
	bad uint8
}

// queue is what waits for one peer. All of it is guarded by the lock of the outbox.
type queue struct {
	peer    string
	running bool          // a goroutine sends it
	wake    chan struct{} // tells that goroutine of changes
	links   int           // with those in flight
	top     uint64        // the last block that was taken into memory
	born    time.Duration // of all spilled
	spilled int           // blocks after that, which are on disk only
	beyond  int           // the links in those

	ready      []block // in order
	readyLinks int
	readyBytes int
	delayed    delayed // those with a due time

	custodian string        // keeps copies of what is not answered soon
	copyAt    time.Duration // when it was asked last

	failures int // in a row
	retry    time.Duration
}

func newQueue(peer string) *queue { return &queue{peer: peer, wake: make(chan struct{}, 1)} }

// push takes a block in, which was not counted yet.
func (q *queue) push(b block) {
	q.links += int(b.links)
	q.top = max(q.top, b.seq)
	q.put(b)
}

// put takes a block in that is counted.
func (q *queue) put(b block) {
	if b.due > 0 || b.bad > 0 {
		heap.Push(&q.delayed, b)
		return
	}
	q.ready = append(q.ready, b)
	q.readyLinks += int(b.links)
	q.readyBytes += int(b.bytes)
}

// putBack puts blocks that could not be sent before all others.
func (q *queue) putBack(blocks []block) {
	var first []block
	for _, b := range blocks {
		if b.due > 0 || b.bad > 0 {
			heap.Push(&q.delayed, b)
			continue
		}
		first = append(first, b)
		q.readyLinks += int(b.links)
		q.readyBytes += int(b.bytes)
	}
	q.ready = append(first, q.ready...)
}

// hurry makes delayed blocks due.
func (q *queue) hurry() {
	for i := range q.delayed {
		q.delayed[i].due = min(q.delayed[i].due, 1)
	}
	heap.Init(&q.delayed)
}

func (q *queue) empty() bool { return len(q.ready) == 0 && len(q.delayed) == 0 && q.spilled == 0 }

// blocks are all blocks in memory, with those that are on their way to the peer.
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

// limits bound a message.
type limits struct {
	links, bytes int
	wait         time.Duration
}

// take removes the blocks of the next message, or says how long there is none. At once is for peers that are gone: there
// is neither company nor the peer to wait for.
func (q *queue) take(now time.Duration, lim limits, atOnce bool) (blocks []block, wait time.Duration) {
	if q.retry > now && !atOnce {
		return nil, q.retry - now
	}
	links, bytes := 0, 0
	fits := func(b block) bool {
		return len(blocks) == 0 || links+int(b.links) <= lim.links && bytes+int(b.bytes) <= lim.bytes
	}
	add := func(b block) {
		blocks = append(blocks, b)
		links += int(b.links)
		bytes += int(b.bytes)
	}
	for len(q.delayed) > 0 && q.delayed[0].due <= now && fits(q.delayed[0]) {
		if q.delayed[0].bad > 0 && (len(blocks) > 0 || q.failures > 0 && len(q.ready) > 0) {
			break // alone, and by turns with the others
		}
		b := heap.Pop(&q.delayed).(block)
		add(b)
		if b.bad > 0 {
			return blocks, 0
		}
	}
	if len(q.ready) > 0 {
		age := now - q.ready[0].at
		turn := len(q.delayed) > 0 && q.delayed[0].due <= now // they were let go first
		enough := len(blocks) > 0 || turn || q.readyLinks >= lim.links || q.readyBytes >= lim.bytes || age >= lim.wait
		if !enough && !atOnce {
			wait = lim.wait - age
			if len(q.delayed) > 0 {
				wait = min(wait, q.delayed[0].due-now)
			}
			return nil, wait
		}
	}
	n := 0
	for n < len(q.ready) && fits(q.ready[n]) {
		add(q.ready[n])
		q.readyLinks -= int(q.ready[n].links)
		q.readyBytes -= int(q.ready[n].bytes)
		n++
	}
	if q.ready = q.ready[n:]; len(q.ready) == 0 {
		q.ready = nil // what append leaves behind would stay
	}
	if len(blocks) == 0 && len(q.delayed) > 0 {
		return nil, q.delayed[0].due - now
	}
	return blocks, 0
}

// delayed is a heap of blocks by their due times.
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
