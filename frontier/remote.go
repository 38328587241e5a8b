package frontier

import (
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// RemoteFetch is a page that another node asked this one to download. It is in memory only. The other node holds the lease of the server and
// takes care of politeness. Therefore the fetch needs no lease and no host on the workbench here.
type RemoteFetch struct {
	URL    identity.URL
	Server netip.Addr // the address to ask
	Origin Origin     // Estimate or Assigned: the queue in which it is drawn
	// Depth, Hops and Attempt are those of the URL.
	Depth, Hops, Attempt uint8
	// Tag comes back as Task.Tag.
	Tag any
}

// remoteFetches are the remote fetches that wait or are under way. For each server one at a time is ready or out, and the others wait
// behind it in the order in which they came. Like the workbench it has no locks and no clocks.
type remoteFetches struct {
	limit, count int // count is the number of those that wait or are out
	out          int
	waiting      [origins]int // the number of those that are not out, by origin
	ready        [origins]fifo[*waitingFetch]
	// behind are the remote fetches that wait for another one to the same server. A server has an entry while one is ready or out.
	behind    map[netip.Addr]*fifo[*waitingFetch]
	fetchNext bool // if both a remote fetch and a server are ready, the fetch comes next
}

// waitingFetch is a remote fetch that waits since a time.
type waitingFetch struct {
	RemoteFetch
	since time.Time
}

// enqueue adds a remote fetch. It returns false if there are too many.
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
	q.behind[e.Server] = &fifo[*waitingFetch]{}
	q.ready[e.Origin].push(w)
	return true
}

// take hands out a remote fetch of an origin, or returns nil.
func (q *remoteFetches) take(o Origin, now time.Time) *Task {
	if len(q.ready[o]) == 0 {
		return nil
	}
	e := q.ready[o].pop()
	q.out++
	q.waiting[o]--
	return &Task{URL: e.URL, Host: e.URL.Host, Server: e.Server, Origin: o, Depth: e.Depth, Hops: e.Hops, Attempt: e.Attempt,
		Waited: now.Sub(e.since), Tag: e.Tag, remote: true}
}

// end ends a remote fetch. The next one to its server becomes ready.
func (q *remoteFetches) end(addr netip.Addr) {
	q.out--
	q.count--
	behind := q.behind[addr]
	if len(*behind) == 0 {
		delete(q.behind, addr)
		return
	}
	e := behind.pop()
	q.ready[e.Origin].push(e)
}

// Enqueue adds a remote fetch. It returns false if Config.RemoteFetches of them are already here. Take hands it out like a URL of its
// queue. Task.Waited is the time since Enqueue, and Task.IsRemoteFetch is true. Finish writes only its receipt, because the page and its
// links belong to the other node.
func (f *Frontier) Enqueue(e RemoteFetch) (ok bool) {
	f.update(func(now time.Time) { ok = f.bench.remote.enqueue(e, now) })
	return ok
}

// IsRemoteFetch says whether a task is a RemoteFetch.
func (t *Task) IsRemoteFetch() bool { return t.remote }
