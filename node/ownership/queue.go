package ownership

import (
	"context"
	"sync"
	"time"

	"proxima/node/bell"
)

// queue holds the hosts that the reconciler must look at, each once. A host that is added while it is busy is looked at again
// afterwards.
//
//	add ──► ready ──take──► busy ──finish──► gone
//	          ▲               │ its step failed
//	          └──── rests ◄───┘
//	addLater ─────────▲
type queue struct {
	wake bell.Bell // a host is ready

	// mu guards the fields below.
	mu    sync.Mutex
	items map[string]*item
	ready []*item // in this order
	hurry int     // how many items are urgent: after a change of members all hosts may be here, too many to count each time
}

// item is a host in the queue. It is ready, busy, or rests.
type item struct {
	host  string
	after time.Time // until when it rests; zero if it does not
	tries int
	// urgent: the crawl must not end before it is done.
	urgent bool
	busy   bool // it is being looked at
	anew   bool // it was added while busy
}

func newQueue() *queue {
	return &queue{wake: bell.New(), items: make(map[string]*item)}
}

// add has the reconciler look at a host now. One that rests after a failure goes on resting, unless it is urgent.
func (q *queue) add(host string, urgent bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[host]
	if it == nil {
		it = &item{host: host}
		q.items[host] = it
		q.readyLocked(it)
	}
	if urgent && !it.urgent {
		it.urgent = true
		q.hurry++
	}
	switch {
	case it.busy:
		it.anew = true
	case !it.after.IsZero() && (it.tries == 0 || urgent):
		q.readyLocked(it)
	}
}

// addLater has the reconciler look at a host at a later time, unless it is queued already.
func (q *queue) addLater(host string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.items[host] == nil {
		q.items[host] = &item{host: host}
		q.restLocked(q.items[host], at)
	}
}

// readyLocked ends the rest of a host, if it rests, and puts it behind those that are ready.
func (q *queue) readyLocked(it *item) {
	it.after = time.Time{}
	q.ready = append(q.ready, it)
	q.wake.Ring()
}

// restLocked lets a host rest until a time.
func (q *queue) restLocked(it *item, until time.Time) {
	it.after = until
	time.AfterFunc(time.Until(until), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !it.after.IsZero() && !it.after.After(time.Now()) { // otherwise this rest has ended early
			q.readyLocked(it)
		}
	})
}

// isUrgent reports whether a busy host is urgent. It may have become so while busy.
func (q *queue) isUrgent(it *item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return it.urgent
}

// calm makes a busy host urgent no more, unless it was added meanwhile: the crawl may end without it.
func (q *queue) calm(it *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it.urgent && !it.anew {
		it.urgent = false
		q.hurry--
	}
}

// wait takes a host as soon as one is ready. It returns nil when the context ends.
func (q *queue) wait(ctx context.Context) *item {
	for ctx.Err() == nil {
		if it := q.take(); it != nil {
			return it
		}
		select {
		case <-ctx.Done():
		case <-q.wake:
		}
	}
	return nil
}

// take takes the next host, nil if none is ready.
func (q *queue) take() *item {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return nil
	}
	it := q.ready[0]
	q.ready = q.ready[1:]
	it.busy, it.anew = true, false
	q.wake.Ring() // others may be ready, too
	return it
}

// finish ends the look at a host. The host comes again at the time again, unless that is zero; otherwise at once, if it was added meanwhile.
func (q *queue) finish(it *item, again time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it.busy = false
	switch {
	case !again.IsZero():
		q.restLocked(it, again)
	case it.anew:
		it.tries = 0
		q.readyLocked(it)
	default:
		delete(q.items, it.host)
		if it.urgent {
			q.hurry--
		}
	}
}

// anyUrgent reports whether the crawl must not end yet.
func (q *queue) anyUrgent() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.hurry > 0
}
