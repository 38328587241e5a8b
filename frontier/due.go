package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"proxima/frontier/revisit"
)

// Pages that are visited again wait on disk, those of a host in the order in which they are due, and the hosts in the
// order of their first. Nothing of them is in memory but the windows of the hosts on the workbench: a host comes in when
// its first page is due and fetchers want one, and its record says when the next is due only once it has none left that is.

// dueWindow is how many of them are held in memory for a host: they take more than new URLs do.
const dueWindow = 16

// recrawl is what the frontier knows of pages to visit again, apart from the disk. It is used under the frontier's lock.
type recrawl struct {
	Recrawl
	began  time.Time
	sample *revisit.Sample
	plan   *revisit.Plan
	tokens float64 // pages that may be visited now
	filled time.Time
	wanted bool      // a fetcher wanted one, and no host had any
	cursor []byte    // where among the hosts the look for due ones goes on
	ahead  []dueHost // found by it and not in yet, by name
	last   bool      // it came to the end with them
	found  bool      // one came in since it began at the front
	done   bool      // it came to the end; until the next tick there are none
	over   bool      // none came in from the front to the end
}

func newRecrawl(r Recrawl, now time.Time) recrawl {
	return recrawl{Recrawl: r, began: now, filled: now, sample: revisit.NewSample(), done: !r.On(), over: !r.On()}
}

// by is until when pages are due.
func (r *recrawl) by(now time.Time) stamp {
	if r.Once() {
		return stampOf(r.began)
	}
	return stampOf(now)
}

// mayVisit says that the budget has a visit left, and when it will have where it has not.
func (r *recrawl) mayVisit(now time.Time) (bool, time.Time) {
	if r.Budget == 0 || r.Once() {
		return true, time.Time{}
	}
	rate := float64(r.Budget) / (24 * time.Hour).Seconds()
	if d := now.Sub(r.filled); d > 0 {
		// What is not used within an hour is lost: a node that was off makes no rush of it.
		r.tokens = min(r.tokens+rate*d.Seconds(), max(1, rate*3600))
		r.filled = now
	}
	if r.tokens >= 1 {
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((1-r.tokens)/rate*float64(time.Second)) + time.Millisecond)
}

func (r *recrawl) spend() {
	if r.Budget > 0 {
		r.tokens--
	}
}

// again begins the look for hosts with due pages at the front.
func (r *recrawl) again() {
	if r.On() {
		r.cursor, r.last, r.found, r.done, r.over = nil, false, false, false, false
	}
}

// nextDueHosts brings hosts in whose pages are due, where fetchers want any.
func (a *activation) nextDueHosts() ([]*host, error) {
	a.mu.Lock()
	r := &a.bench.recrawl
	now := time.Now()
	may, _ := r.mayVisit(now)
	wanted := !r.done && may && a.full == "" && !a.outage.keepsTasks(now) &&
		(a.waiters.len() > 0 || r.wanted && len(a.bench.hosts) < a.cfg.FrontHosts/2)
	room := min(activateAtOnce, a.cfg.FrontHosts-len(a.bench.hosts))
	r.wanted = false
	a.mu.Unlock()
	if !wanted || room <= 0 {
		return nil, nil
	}
	if err := a.lookAhead(now); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var hosts []*host
	for len(r.ahead) > 0 && len(hosts) < room {
		d := r.ahead[0]
		if r.ahead = r.ahead[1:]; a.bench.hosts[d.name] == nil && a.frozen[d.name] == nil {
			h := a.bench.enter(d.name)
			h.next = d.at
			hosts = append(hosts, h)
		}
	}
	r.found = r.found || len(hosts) > 0
	end := r.last && len(r.ahead) == 0
	switch {
	case end && r.found:
		r.cursor, r.found = nil, false // those that came in may stand there again
	case end:
		r.done, r.over = true, true
		signal(a.quiet)
	}
	if len(hosts) == 0 && !r.done {
		signal(a.hungry)
	}
	return hosts, nil
}

// dueAhead is how many hosts with due pages are looked for at once. They come in by name, not by time, so that what is read and written
// together lies together on disk: a compaction then touches a part of it.
const dueAhead = 16384

// lookAhead finds the next hosts whose pages are due, if none are left.
func (a *activation) lookAhead(now time.Time) error {
	a.mu.Lock()
	r := &a.bench.recrawl
	cursor, by, some := r.cursor, r.by(now), len(r.ahead) > 0
	a.mu.Unlock()
	if some {
		return nil
	}
	due, last, end, err := a.store.dueHosts(cursor, by, dueAhead, a.kept)
	if err != nil {
		return err
	}
	if end { // and those of whose pages a clock that ran ahead has said that they are due in years
		ahead, _, _, err := a.store.dueHosts(nextKey(r.limit(now), ""), 1<<32-1, dueAhead, a.kept)
		if err != nil {
			return err
		}
		due = append(due, ahead...)
	}
	slices.SortFunc(due, func(a, b dueHost) int { return strings.Compare(a.name, b.name) })
	a.mu.Lock()
	defer a.mu.Unlock()
	r.ahead, r.cursor, r.last = due, last, end
	return nil
}

// readDue fills a host's window of pages that are due.
func (a *activation) readDue(h *host) error {
	a.mu.Lock()
	on, after, by := a.bench.recrawl.On(), h.lastDue, a.bench.recrawl.by(time.Now())
	want := min(dueWindow, a.cfg.WindowURLs) - h.window[Revisit].len()
	given := h.givenUp
	a.mu.Unlock()
	if !on || want <= 0 || given {
		return nil
	}
	pages, next, err := a.store.duePages(h.name, after, by, want)
	if err != nil {
		return err
	}
	items := make([]pending, len(pages))
	for i := range pages {
		p, err := decodePage(pages[i].value, int64(pages[i].due))
		if err != nil {
			return fmt.Errorf("read pages of %s: %w", h.name, err)
		}
		items[i] = pending{ref: &revisitRef, page: &pages[i], entry: entry{path: p.Path, hash: pages[i].hash, depth: p.Depth}}
		if p.Sitemap {
			items[i].flags |= flagSitemap
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.givenUp { // meanwhile
		return nil
	}
	for _, p := range items {
		h.window[Revisit].push(p)
		h.lastDue = &duePage{due: p.page.due, hash: p.hash}
	}
	h.nextDue = next
	return nil
}

// revisitRef stands for the block of pages that are visited again: they have none, and nothing drops them.
var revisitRef = blockRef{seq: 1<<64 - 1, origin: Revisit}

// noneDue puts a host that came in for its pages where it belongs, if none of them is due.
func (a *activation) noneDue(h *host) error {
	a.mu.Lock()
	at, some := h.next, h.lastDue != nil
	a.mu.Unlock()
	if at == 0 || some {
		return nil
	}
	err := a.ledger.change(context.Background(), true, func(b *batch) error { return a.ledger.decideNext(b, h.name, at) })
	if err != nil {
		return fmt.Errorf("look when pages of %s are due: %w", h.name, err)
	}
	return nil
}

// visitLocked is what the end of a task makes of its page; nil where it is not to be remembered. It needs mu held.
func (f *Frontier) visitLocked(task *Task, out Outcome, now time.Time) *visited {
	r := &f.bench.recrawl
	p, v := task.pending, out.Visit
	if !r.On() || p.page == nil && (v == nil || v.Found >= Gone) || task.Kind == Robots {
		return nil
	}
	old := &PageRecord{Path: p.path, Sitemap: p.flags&flagSitemap != 0, Depth: p.depth}
	if p.page != nil {
		if old = task.Page; v != nil && v.Found == Altered && v.Digest == 0 {
			v = nil // who looked at it did not know what it was before
		}
	}
	hash := p.hash
	n := old.after(v, r.Recrawl, r.plan, now)
	res := &visited{hash: hash, page: n}
	if p.page != nil {
		res.old = old
	}
	if n == nil {
		r.sample.Drop(hash)
	} else {
		if r.Continuous() {
			n.Due = task.host.site.nextVisit(n.Due, now)
		}
		r.sample.Put(hash, n.History)
		if h := task.host; h.nextDue == 0 || stampOf(n.Due) < h.nextDue {
			h.nextDue = stampOf(n.Due)
		}
	}
	return res
}

// planEvery is how often the plan of visits is looked at.
const planEvery = 10 * time.Minute

// runPlan makes the plan of visits anew now and then, from what was learnt since.
func (f *Frontier) runPlan(stop <-chan struct{}) error {
	r := &f.bench.recrawl
	if !r.Continuous() {
		return nil
	}
	tick := time.NewTicker(planEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		if err := f.replan(); err != nil {
			return err
		}
	}
}

// replan makes the plan from the sample as it is, and writes the sample down.
func (f *Frontier) replan() error {
	f.mu.Lock()
	r := &f.bench.recrawl
	value, err := r.sample.AppendBinary(nil)
	f.mu.Unlock()
	sample := revisit.NewSample()
	if err = errors.Join(err, sample.UnmarshalBinary(value)); err != nil {
		return err
	}
	plan := r.Recrawl.plan().NewPlan(sample, int(f.ledger.count.totals().Pages))
	f.mu.Lock()
	r.plan = plan
	f.mu.Unlock()
	if f.store.gate.shut.Load() != nil {
		return nil // the disk is full: it is written the next time
	}
	if err := f.store.write(func(txn *badger.Txn) error { return txn.Set(sampleKey(), value) }); err != nil {
		return fmt.Errorf("write sample of pages: %w", err)
	}
	return nil
}
