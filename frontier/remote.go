package frontier

import (
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// RemoteFetch is a page that another node asked this one to download. It is kept in memory only. Its politeness is the other
// node's business, who holds the lease of the server: it needs no lease and no place on the workbench here.
type RemoteFetch struct {
	URL    identity.URL
	Server netip.Addr // the address to ask
	Origin Origin     // Estimate or Assigned: whose share of the draws it takes
	// Depth, Hops and Attempt are those of the URL.
	Depth, Hops, Attempt uint8
	// Tag comes back as Task.Tag.
	Tag any
}

// remoteFetches are the remote fetches that wait and those under way: one at a time for each server, the others behind it in the
// order in which they came. It belongs to the workbench: no locks, no clocks.
type remoteFetches struct {
	limit, count int // count: those that wait and those that are out
	out          int
	waiting      [origins]int // by origin, those that are not out
	ready        [origins]fifo[*waitingFetch]
	// behind are the remote fetches that wait for one to the same server; the server is there while one is ready or out.
	behind map[netip.Addr]*fifo[*waitingFetch]
	turn   bool // between a remote fetch and a server, the next draw is the fetch's
}

type waitingFetch struct {
	RemoteFetch
	since time.Time
}

func (q *remoteFetches) enqueue(e RemoteFetch, now time.Time) bool {
	if q.count >= q.limit || e.Origin >= origins {
		return false
	}
	q.count++
	q.waiting[e.Origin]++
	w := &waitingFetch{RemoteFetch: e, since: now}
	if behind := q.behind[e.Server]; behind != nil {
		behind.push(w)
		return true
	}
	if q.behind == nil {
		q.behind = make(map[netip.Addr]*fifo[*waitingFetch])
	}
	q.behind[e.Server] = &fifo[*waitingFetch]{}
	q.ready[e.Origin].push(w)
	return true
}

// take hands out a remote fetch of an origin, if one is ready.
func (q *remoteFetches) take(o Origin, now time.Time) *Task {
	if q.ready[o].len() == 0 {
		return nil
	}
	e := q.ready[o].pop()
	q.out++
	q.waiting[o]--
	return &Task{URL: e.URL, Host: e.URL.Host, Server: e.Server, Origin: o, Depth: e.Depth, Hops: e.Hops, Attempt: e.Attempt,
		Waited: now.Sub(e.since), Tag: e.Tag, remote: true}
}

// end ends a remote fetch; the next to its server becomes ready.
func (q *remoteFetches) end(addr netip.Addr) {
	q.out--
	q.count--
	behind := q.behind[addr]
	if behind.len() == 0 {
		delete(q.behind, addr)
		return
	}
	e := behind.pop()
	q.ready[e.Origin].push(e)
}

// Enqueue takes a remote fetch; false says that Config.RemoteFetches are here already. Take draws it by the rule of the three queues;
// Task.Waited is then the time since Enqueue, and IsRemoteFetch and Tag tell it from the tasks of this node's own hosts. Finish
// writes nothing but its receipt: the page and its links are of who asked.
func (f *Frontier) Enqueue(e RemoteFetch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	ok := f.bench.remote.enqueue(e, now)
	f.dispatch(now)
	return ok
}

// IsRemoteFetch says that a task is a RemoteFetch.
func (t *Task) IsRemoteFetch() bool { return t.remote }
