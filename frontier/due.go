package frontier

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"proxima/frontier/revisit"
)

// Pages that are visited again wait on disk. The pages of a host are in the order in which they are due, and the hosts are in the order of
// their first page. Only the windows of hosts on the workbench are in memory. A host comes in when its first page is due and fetchers want
// one. When none of its pages is due any more, its place among the hosts is corrected (noneDue).

// dueWindow is how many due pages of a host are held in memory. They take more memory than new URLs.
const dueWindow = 16

// recrawl is what the frontier keeps in memory about revisits, apart from the windows. The frontier's lock guards it.
type recrawl struct {
	Recrawl
	began  time.Time
	sample *revisit.Sample
	plan   *revisit.Plan
	tokens float64 // pages that may be visited now, if there is a budget
	filled time.Time
	wanted bool // a fetcher wanted a due page, but no host on the workbench had one
	here   int  // hosts on the workbench that came in for due pages

	// The search for hosts with due pages:
	cursor []byte    // the key after which it goes on
	ahead  []dueHost // hosts that it found and that have not come in yet, by name
	last   bool      // no more hosts follow those in ahead
	found  bool      // a host came in since the search began
	slept  bool      // and one that must wait for long was sent back to disk
	done   bool      // it reached the end; the next tick begins again
	over   bool      // a whole search brought no host in
}

func newRecrawl(r Recrawl, now time.Time) recrawl {
	return recrawl{Recrawl: r, began: now, filled: now, sample: new(revisit.Sample), done: !r.On(), over: !r.On()}
}

// by is the time by which a page must be due to be visited now.
func (r *recrawl) by(now time.Time) stamp {
	if r.Once() {
		return stampOf(r.began)
	}
	return stampOf(now)
}

// mayVisit says whether the budget allows a visit now, and if not, when it will.
func (r *recrawl) mayVisit(now time.Time) (bool, time.Time) {
	if r.Budget == 0 || r.Once() {
		return true, time.Time{}
	}
	rate := float64(r.Budget) / (24 * time.Hour).Seconds()
	if d := now.Sub(r.filled); d > 0 {
		// Visits that were not used within an hour are lost, because a node that was off must not rush.
		r.tokens = min(r.tokens+rate*d.Seconds(), max(1, rate*3600))
		r.filled = now
	}
	if r.tokens >= 1 {
		return true, time.Time{}
	}
	return false, now.Add(time.Duration((1-r.tokens)/rate*float64(time.Second)) + time.Millisecond)
}

// searchAnew begins the search for hosts with due pages anew.
func (r *recrawl) searchAnew() {
	if r.On() {
		r.cursor, r.last, r.found, r.slept, r.done, r.over = nil, false, false, false, false, false
	}
}

// nextDueHosts brings in hosts whose pages are due, if fetchers want any.
func (a *activation) nextDueHosts() ([]*host, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &a.bench.recrawl
	now := time.Now()
	may, _ := r.mayVisit(now)
	wanted := !r.done && may && !a.full && !a.outage.keepsTasks(now) &&
		(len(a.waiters) > 0 || r.wanted && r.here < a.cfg.FrontHosts/2)
	room := min(activateAtOnce, a.cfg.FrontHosts-len(a.bench.hosts))
	r.wanted = false
	if !wanted || room <= 0 {
		return nil, nil
	}
	if len(r.ahead) == 0 {
		cursor, by := r.cursor, r.by(now)
		a.mu.Unlock()
		due, last, end, err := a.lookAhead(cursor, by, now)
		a.mu.Lock()
		if err != nil {
			return nil, err
		}
		r.ahead, r.cursor, r.last = due, last, end
	}
	var hosts []*host
	for len(r.ahead) > 0 && len(hosts) < room {
		d := r.ahead[0]
		if r.ahead = r.ahead[1:]; a.bench.hosts[d.name] == nil && a.frozen[d.name] == nil {
			h := a.bench.enter(d.name)
			h.next = d.at
			r.here++
			hosts = append(hosts, h)
		}
	}
	r.found = r.found || len(hosts) > 0
	end := r.last && len(r.ahead) == 0
	switch {
	case end && r.slept:
		r.done = true // another search would only exchange one that sleeps for the next
	case end && r.found:
		r.cursor, r.found = nil, false // hosts that came in may have become due again
	case end:
		r.done, r.over = true, true
		signal(a.quiet)
	}
	if len(hosts) == 0 && !r.done {
		signal(a.hungry)
	}
	return hosts, nil
}

// dueAhead is how many hosts with due pages one search finds. They come in by name, not by time. So the keys that are read and written
// together are close together on disk, and a compaction touches fewer of them.
const dueAhead = 16384

// lookAhead searches for the next hosts whose pages are due.
func (a *activation) lookAhead(cursor []byte, by stamp, now time.Time) (due []dueHost, last []byte, end bool, err error) {
	due, last, end, err = a.store.dueHosts(cursor, by, func(h dueHost) bool { return a.kept(h.name) })
	if err == nil && end { // add hosts whose pages are due years from now, because a clock was ahead
		var ahead []dueHost
		r := a.cfg.Recrawl
		ahead, _, _, err = a.store.dueHosts(nextKey(r.limit(now), ""), 1<<32-1, func(h dueHost) bool {
			return h.at <= a.deps.Site(h.name).recrawl(r).limit(now) || a.kept(h.name)
		})
		due = append(due, ahead...)
	}
	slices.SortFunc(due, func(a, b dueHost) int { return strings.Compare(a.name, b.name) })
	return due, last, end, err
}

// readDue fills a host's window of pages that are due.
func (a *activation) readDue(h *host) error {
	a.mu.Lock()
	on, after, by := a.bench.recrawl.On(), h.lastDue, a.bench.recrawl.by(time.Now())
	want := dueWindow - len(h.window[Revisit])
	waits := h.nextDue > by
	a.mu.Unlock()
	if !on || want <= 0 || waits {
		return nil
	}
	pages, next, err := a.store.duePages(h.name, after, by, want)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if h.givenUp { // meanwhile
		return nil
	}
	for i := range pages {
		d := &pages[i]
		u := PendingURL{Path: d.record.Path, Sitemap: d.record.Sitemap, Depth: d.record.Depth}
		h.window[Revisit].push(pending{entry: entry{u, d.hash}, ref: &revisitRef, page: &d.record})
		h.lastDue = d
	}
	h.nextDue = next
	return nil
}

// revisitRef takes the place of the block for pages that are visited again. They have no block, and are never dropped.
var revisitRef = blockRef{seq: 1<<64 - 1, origin: Revisit}

// noneDue corrects the due time of a host that came in for its pages, if none of them is due.
func (a *activation) noneDue(h *host) error {
	a.mu.Lock()
	at, some := h.next, h.lastDue != nil
	a.mu.Unlock()
	if at == 0 || some {
		return nil
	}
	err := a.ledger.onHost(context.Background(), alone, h.name, func(b *batch, e *hostEntry) error { return a.ledger.decideNext(b, e, at) })
	return wrap(err, "look when pages of %s are due", h.name)
}

// visitLocked applies the end of a task to its page. It returns nil if the page is not remembered.
func (f *Frontier) visitLocked(task *Task, out Outcome, now time.Time) *visited {
	r := &f.bench.recrawl
	p, v := task.pending, out.Visit
	if !r.On() || p.page == nil && v == nil || task.Kind == Robots {
		return nil
	}
	res := &visited{hash: p.hash, old: p.page}
	old := p.page
	if old == nil {
		old = &PageRecord{Path: p.Path, Sitemap: p.Sitemap, Depth: p.Depth}
	} else if v != nil && v.Found == Altered && v.Digest == 0 {
		v = nil // the caller could not compare the page with its last visit
	}
	n := old.after(v, task.host.site.recrawl(r.Recrawl), r.plan, now)
	res.page = n
	if n == nil {
		r.sample.Drop(p.hash)
		return res
	}
	r.sample.Put(p.hash, n.History)
	if h := task.host; h.nextDue == 0 || stampOf(n.Due) < h.nextDue {
		h.nextDue = stampOf(n.Due)
	}
	return res
}

// planEvery is how often the plan of visits is renewed.
const planEvery = 10 * time.Minute

// replan makes a plan from the sample, and writes the sample to disk.
func (f *Frontier) replan() error {
	f.mu.Lock()
	r := &f.bench.recrawl
	value, err := r.sample.AppendBinary(nil)
	f.mu.Unlock()
	sample := new(revisit.Sample)
	if err = errors.Join(err, sample.UnmarshalBinary(value)); err != nil {
		return err
	}
	plan := r.Recrawl.plan().NewPlan(sample, int(f.ledger.count.totals().Pages))
	f.mu.Lock()
	r.plan = plan
	f.mu.Unlock()
	if f.store.gate.shut.Load() {
		return nil // the disk is full, and a later sample will be written
	}
	err = f.store.write(func(txn *tx) { txn.set(kindPrefix(kindSample), value) })
	return wrap(err, "write sample of pages")
}
