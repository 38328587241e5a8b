package frontier

import (
	"cmp"
	"context"
	"slices"
	"time"

	"proxima/frontier/identity"
)

// Take returns the next task. It blocks until there is one or the context ends.
func (f *Frontier) Take(ctx context.Context) (*Task, error) {
	if f.slow.Load() {
		select {
		case <-time.After(slowWait):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return next(ctx, f.front, &f.waiters)
}

// slowWait is how long a fetcher waits before each task while the node is slowed down.
const slowWait = 500 * time.Millisecond

// SetSlow slows this node down while something else needs a quiet network, or lets it run at full speed again.
func (f *Frontier) SetSlow(on bool) { f.slow.Store(on) }

// take hands out the next task, if there is one. It draws a queue, and takes from it the server that has been ready longest, then the host
// there that has waited longest, and then the next URL of that host.
func (w *workbench) take(now time.Time) *Task {
	w.advance(now)
	first := w.draw()
	may, _ := w.recrawl.mayVisit(now)
	for i := range origins {
		// If nothing is ready in the drawn queue, the others follow, so that no draw leaves a fetcher idle.
		o := (first + i) % origins
		if w.remote.fetchNext = !w.remote.fetchNext; w.remote.fetchNext {
			if task := w.remote.take(o, now); task != nil {
				return task
			}
		}
		for len(w.ready[o]) > 0 && (o != Revisit || may) {
			s := w.ready[o].pop()
			s.ready[o] = false
			if task := w.takeFrom(s, o, now); task != nil {
				return task
			}
		}
		if task := w.remote.take(o, now); task != nil {
			return task
		}
	}
	return nil
}

// readyServers counts the entries of the ready queues that may be taken from.
func (w *workbench) readyServers(now time.Time) (n int) {
	may, _ := w.recrawl.mayVisit(now)
	for o := range w.ready {
		if Origin(o) != Revisit || may {
			n += len(w.ready[o])
		}
	}
	return n
}

// waiting says that there is a server or a remote fetch in the queue of an origin.
func (w *workbench) waiting(o Origin) bool {
	return len(w.ready[o]) > 0 || len(w.remote.ready[o]) > 0
}

// The probabilities that the next URL is one that was handed to this node, or an estimate for a peer, if there is one.
const (
	assignedShare = 0.8
	estimateShare = 0.1
)

// draw chooses the queue of the next URL: with Recrawl.Share that of pages that are visited again, else one of the other three. If the
// queue that was drawn is empty, it is that of the discovered.
func (w *workbench) draw() Origin {
	if r := &w.recrawl; r.On() && w.rnd.Float64() < r.Share {
		if w.waiting(Revisit) {
			return Revisit
		}
		r.wanted = !r.done
	}
	p := w.rnd.Float64()
	if p < assignedShare && w.waiting(Assigned) {
		return Assigned
	}
	if p >= assignedShare && p < assignedShare+estimateShare && w.waiting(Estimate) {
		return Estimate
	}
	return Discovered
}

// takeFrom hands out a task of a server in a queue, or returns nil.
func (w *workbench) takeFrom(s *server, o Origin, now time.Time) *Task {
	if s.inFlight >= s.parallel || s.next.After(now) || s.reserved || !w.leased(s, now) {
		w.settleServer(s, now)
		return nil
	}
	for len(s.queue[o]) > 0 {
		h := s.queue[o].pop()
		if h.server != s || !h.queued[o] {
			continue // the entry is stale
		}
		h.queued[o] = false
		if !w.eligible(h) || h.rests().After(now) || len(h.window[o]) == 0 {
			continue
		}
		if w.stale(h, now) || w.settingsAsked(h).closed(now) { // its address or its hours ended while it stood in the queue
			w.settle(h, now)
			continue
		}
		return w.start(h, o, now)
	}
	w.settleServer(s, now)
	return nil
}

// staleAfter is for how long an address is used beyond its time. Where many hosts share a server, their turns come later than most addresses
// end, and each would be looked up twice for a request.
const staleAfter = time.Hour

// stale says that the address of a host ended long ago, as after a pause, and gives the host its turn when it is known again.
func (w *workbench) stale(h *host, now time.Time) bool {
	h.firstInLine = h.inFlight == 0 && now.Sub(h.placedUntil) > staleAfter
	return h.firstInLine
}

// start makes the task for the next URL of a host, or for the robots.txt that is needed first.
func (w *workbench) start(h *host, o Origin, now time.Time) *Task {
	s := h.server
	task := &Task{Host: h.name, Server: s.addr, Origin: o, DNS: h.resolveTook, host: h, server: s}
	h.resolveTook = 0
	// A server can stay in the ready queue of another origin while its gap lasts. It was not ready then.
	if waited := now.Sub(later(s.since, s.next)); waited > 0 {
		task.Waited = waited
	}
	switch {
	case h.robotsTarget != nil:
		task.Kind, task.URL, task.Hops = Robots, h.robotsTarget.url, h.robotsTarget.hops
		h.robotsBusy = true
	case !h.robotsUntil.After(now):
		task.Kind = Robots
		task.URL = identity.URL{Host: h.name, Path: "/robots.txt"}
		h.robotsBusy = true
	default:
		p := h.site.next(&h.window[o])
		if p.page != nil {
			w.recrawl.tokens--
			task.Page = p.page
		}
		if p.Sitemap {
			task.Kind = Sitemap
		}
		if depth, ok := h.depths[p.hash]; ok {
			p.Depth = depth
		}
		task.URL = p.url(h.name)
		task.Depth, task.Hops, task.Attempt = p.Depth, p.Hops, p.attempt
		task.pending = &p
	}
	h.inFlight++
	h.taken++
	s.inFlight++
	w.inFlight++
	if w.cfg.Leases {
		task.lease, task.expire = context.WithCancel(context.Background())
		s.out = append(s.out, task)
	}
	if s.parallel > 1 {
		// The gap between parallel requests begins with their start.
		s.rest(now.Add(w.rules.gap(w.settingsAsked(h), s.addr, 0, 0)))
	}
	w.settle(h, now) // it may have another URL for another fetcher
	return task
}

// maxBusy is how often a URL may answer 429 or 503 before it has failed.
const maxBusy = 8

// end frees the place of a task at its server, and applies the outcome to the politeness of host and server. It knows nothing of links.
func (w *workbench) end(task *Task, out Outcome, now time.Time) Finished {
	h, s := task.host, task.server
	h.inFlight--
	s.inFlight--
	w.inFlight--
	if w.cfg.Leases {
		s.out = slices.DeleteFunc(s.out, func(t *Task) bool { return t == task })
	}
	if out.Asked {
		h.lastRequest = now
		if r := out.Robots; r != nil && r.Lifetime > 0 {
			h.crawlDelay = r.CrawlDelay // it already counts between the robots.txt and the first page
		}
		s.rest(now.Add(out.Lingers + w.rules.gap(w.settingsAsked(h), s.addr, h.crawlDelay, out.Elapsed)))
	}
	if task.Page != nil && (!out.Asked || out.Trouble == Interrupted) {
		w.recrawl.tokens++ // the visit was not made
	}
	e := Finished{Ending: out.Ending, GaveUp: w.applyTrouble(h, s, out, now)}
	if asked := now.Add(out.Lingers + w.rules.pause(out.RetryAfter)); out.RetryAfter > 0 && asked.After(later(h.notBefore, now)) {
		h.notBefore, h.why = asked, cmp.Or(out.Reason, "its server asked for a pause (Retry-After)")
	}
	if e.GaveUp { // its URLs are about to be dropped, and nothing is asked for until then
		h.notBefore, h.why = now.Add(w.rules.EndedFor), out.Reason
	}
	if task.Kind == Robots {
		h.endRobots(task.Hops, out.Robots, now)
		e.NextAttempt = h.notBefore
	} else if out.Ending == Again && !e.GaveUp {
		w.requeue(h, *task.pending, out.Trouble, now, &e)
	}
	return e
}

// applyTrouble ends the waits of a host that has answered, or lets it wait for what went wrong. giveUp says that it has used up its waits, or must
// not be asked at all.
func (w *workbench) applyTrouble(h *host, s *server, out Outcome, now time.Time) (giveUp bool) {
	switch out.Trouble {
	case NoTrouble:
		if out.Asked {
			h.recovered()
			h.reachedBy(w.self())
		}
	case Unreachable:
		return w.unreachable(h, s, out, now)
	case Forbidden:
		return true
	case Broken:
		h.reached()
		h.reachedBy(w.self())
	case Busy:
		h.reached()
		h.reachedBy(w.self())
		h.level = min(h.level+1, 60)
		h.notBefore, h.why = now.Add(w.rules.backoff(h.level, w.rnd)), out.Reason
	}
	return false
}

// endRobots ends a task for the robots.txt of a host, after some redirects. r is what has become known of it; nil if nothing has.
func (h *host) endRobots(hops uint8, r *RobotsOutcome, now time.Time) {
	h.robotsBusy = false
	if r == nil {
		return
	}
	h.robotsTarget = nil
	switch {
	case r.Redirect != nil:
		h.robotsTarget = &redirectedRobots{url: *r.Redirect, hops: hops + 1}
	case r.Lifetime > 0:
		h.robotsUntil = now.Add(r.Lifetime)
	}
}

// requeue puts a URL back. If the host is at fault, it comes next. If the URL is at fault, it waits among the delayed.
func (w *workbench) requeue(h *host, p pending, t Trouble, now time.Time, e *Finished) {
	if p.ref.seq <= h.droppedAt {
		return
	}
	if t == Unreachable || t == Broken || t == Busy {
		p.attempt = min(p.attempt, 254) + 1
	}
	had := &p.broken
	switch t {
	case Busy:
		had = &p.busy
	case Broken:
	default:
		e.NextAttempt = later(h.notBefore, now)
		h.window[p.ref.origin].unshift(p)
		return
	}
	wait, _ := schedule(w.rules.RetryPage, int(*had), w.rnd)
	p.retryAt = now.Add(wait)
	if t == Busy {
		p.retryAt = h.notBefore
	}
	if w.usedUp(&p, t) {
		e.Ending = Failed
		return
	}
	*had++
	e.NextAttempt = p.retryAt
	h.delay(p)
}

// usedUp says that a URL has failed for good if it meets this trouble once more.
func (w *workbench) usedUp(p *pending, t Trouble) bool {
	return t == Busy && p.busy >= maxBusy || t == Broken && int(p.broken) >= len(w.rules.RetryPage)
}

// UsedUp reports whether the URL of a task has failed for good if Finish is now told of this trouble. Remote fetches never have: their tries
// are counted elsewhere.
func (f *Frontier) UsedUp(task *Task, t Trouble) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return task.pending != nil && f.bench.usedUp(task.pending, t)
}

// unreachable sends a host to the next of its addresses after a failed connection. When as many have failed as it has addresses, the host waits.
func (w *workbench) unreachable(h *host, s *server, out Outcome, now time.Time) (giveUp bool) {
	wait, more := schedule(w.rules.RetryConnect, h.failures, w.rnd)
	h.lost = out.Lasts && (h.silent == 0 || h.lost)
	if h.silent++; h.silent < len(h.addrs) && !now.Before(h.resumes) {
		if h.inFlight == 0 && !s.reserved {
			next := (slices.Index(h.addrs, s.addr) + 1) % len(h.addrs)
			until := h.placedUntil
			w.unplace(h, now)
			w.seat(h, h.addrs[next], until, now)
		}
		return false
	}
	if !h.countFailure(now) {
		return false
	}
	if !more {
		wait, more = w.usedUpWaits(h, w.rules.RetryConnect)
	}
	h.notBefore, h.why = now.Add(wait), out.Reason
	return !more
}
