package ownership

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"proxima/node/bell"
)

// queue holds the hosts that the reconciler must look at, each once. A host that is added while it is busy is looked at again
// afterwards.
type queue struct {
	wake bell.Bell // an item may be due earlier

	// mu guards the fields below.
	mu    sync.Mutex
	items map[string]*item
	due   dueHeap
	hurry int // urgent items: after a change of members all hosts may be here, too many to look through
}

// item is a host in the queue.
type item struct {
	host  string
	after time.Time
	tries int
	// urgent: the crawl must not end before it is done.
	urgent bool
	busy   bool // it is being looked at
	anew   bool // it was added while busy
	at     int  // place in the heap, -1 at first; meaningless while busy
}

func newQueue() *queue {
	return &queue{wake: bell.New(), items: make(map[string]*item)}
}

// add has a host looked at now.
func (q *queue) add(host string, urgent bool) { q.put(host, urgent, time.Time{}) }

// addLater has a host looked at at a time, unless it is queued already.
func (q *queue) addLater(host string, at time.Time) { q.put(host, false, at) }

func (q *queue) put(host string, urgent bool, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[host]
	switch {
	case it == nil:
		it = &item{host: host, at: -1, after: at}
		q.items[host] = it
	case !at.IsZero():
		return
	}
	if urgent && !it.urgent {
		it.urgent = true
		q.hurry++
	}
	switch {
	case it.busy:
		it.anew = true
		return
	case it.at < 0:
		heap.Push(&q.due, it)
	case it.tries == 0 || urgent: // otherwise it rests after a failure
		it.after = time.Time{}
		heap.Fix(&q.due, it.at)
	}
	q.wake.Ring()
}

// presses reports whether a busy host is urgent. It may have become so while busy.
func (q *queue) presses(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return it.urgent
}

// wait takes a host as soon as one is due. It returns nil when the context ends.
func (q *queue) wait(ctx context.Context) *item {
	for ctx.Err() == nil {
		it, in := q.next(time.Now())
		if it != nil {
			return it
		}
		select {
		case <-ctx.Done():
		case <-q.wake:
		case <-time.After(in):
		}
	}
	return nil
}

// next takes a host that is due. If there is none, it returns in how long it should be called again.
func (q *queue) next(now time.Time) (it *item, in time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.due) == 0 {
		return nil, time.Hour
	}
	if in := q.due[0].after.Sub(now); in > 0 {
		return nil, in
	}
	it = heap.Pop(&q.due).(*item)
	it.busy, it.anew = true, false
	q.wake.Ring() // others may be due, too
	return it, 0
}

// finish ends the look at a host. It comes again at that time if it is not zero, or at once if it was added meanwhile.
func (q *queue) finish(it *item, again time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it.busy = false
	if again.IsZero() && !it.anew {
		delete(q.items, it.host)
		if it.urgent {
			q.hurry--
		}
		return
	}
	if it.after = again; again.IsZero() {
		it.tries = 0
	}
	heap.Push(&q.due, it) // who finishes it waits next, and sees when it is due
}

// urgent reports whether the crawl must not end yet.
func (q *queue) urgent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hurry > 0
}

// dueHeap orders items by the time they are due.
type dueHeap []*item

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].after.Before(h[j].after) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}
func (h *dueHeap) Push(x any) {
	it := x.(*item)
	it.at = len(*h)
	*h = append(*h, it)
}
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	it := (*h)[last]
	*h = (*h)[:last]
	return it
}
