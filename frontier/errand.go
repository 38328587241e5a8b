package frontier

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"proxima/frontier/identity"
)

// Errand is a page that another node asked this one to download. It is kept in memory only. Its politeness is the other
// node's business, who holds the lease of the server: it needs no lease, no fence and no place on the workbench here.
type Errand struct {
	URL    identity.URL
	Server netip.Addr // the address to ask
	Origin Origin     // Estimate or Assigned: whose share of the draws it takes
	// Depth, Hops and Attempt are those of the URL.
	Depth, Hops, Attempt uint8
	// Tag comes back as Task.Tag.
	Tag any
}

// errands are the errands that wait and those under way: one at a time for each server, the others behind it in the
// order in which they came. It belongs to the workbench: no locks, no clocks.
type errands struct {
	limit, count int // count: those that wait and those that are out
	out          int
	ready        [origins]fifo[*waitingErrand]
	// behind are the errands that wait for one to the same server; the server is there while one is ready or out.
	behind map[netip.Addr]*fifo[*waitingErrand]
	turn   bool // of a draw between an errand and a server it is the errand's
}

type waitingErrand struct {
	Errand
	since time.Time
}

func (q *errands) enqueue(e Errand, now time.Time) bool {
	if q.count >= q.limit || e.Origin >= origins {
		return false
	}
	q.count++
	w := &waitingErrand{Errand: e, since: now}
	if behind := q.behind[e.Server]; behind != nil {
		behind.push(w)
		return true
	}
	if q.behind == nil {
		q.behind = make(map[netip.Addr]*fifo[*waitingErrand])
	}
	q.behind[e.Server] = &fifo[*waitingErrand]{}
	q.ready[e.Origin].push(w)
	return true
}

// take hands out an errand of an origin, if one is ready.
func (q *errands) take(o Origin, now time.Time) *Task {
	if q.ready[o].len() == 0 {
		return nil
	}
	e := q.ready[o].pop()
	q.out++
	return &Task{URL: e.URL, Host: e.URL.Host, Server: e.Server, Origin: o, Depth: e.Depth, Hops: e.Hops, Attempt: e.Attempt,
		Waited: now.Sub(e.since), Tag: e.Tag, errand: true}
}

// end ends an errand; the next to its server becomes ready.
func (q *errands) end(addr netip.Addr) {
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

// Enqueue takes an errand; false says that Config.Errands are here already. Take draws it by the rule of the three queues;
// Task.Waited is then the time since Enqueue, and IsErrand and Tag tell it from the tasks of this node's own hosts. Finish
// writes nothing but its links.
func (f *Frontier) Enqueue(e Errand) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	ok := f.bench.errands.enqueue(e, now)
	f.dispatch(now)
	return ok
}

// IsErrand says that a task is an Errand.
func (t *Task) IsErrand() bool { return t.errand }

// finishErrand ends the task of an errand.
func (f *Frontier) finishErrand(ctx context.Context, task *Task, out Outcome) (res Finished, err error) {
	f.mu.Lock()
	f.ending++
	defer f.written()
	f.bench.errands.end(task.Server)
	f.dispatch(time.Now())
	f.mu.Unlock()
	f.ledger.count.known(out.Known)
	res.Ending = out.Ending
	if err := f.finish(ctx, out, &request{}, &res); err != nil {
		return res, fmt.Errorf("end errand %s: %w", task.URL, err)
	}
	return res, nil
}
