package frontier

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Finish ends a task. It writes the links found and then the end of the URL to disk, and returns. If the process dies in between, the
// download is repeated and nothing is lost. The context bounds the wait for the ledger. Do not use the task afterwards.
func (f *Frontier) Finish(ctx context.Context, task *Task, out Outcome) (Finished, error) {
	res, err := f.finishTask(ctx, task, out)
	if err == nil && task.Kind == Sitemap && res.Duplicate > 0 {
		if err = f.hint(ctx, task.Host, out.Links); errors.Is(err, ErrClosed) {
			err = nil // the task has ended, and the next visit of the sitemap gives the same hints
		}
	}
	return res, err
}

// finishTask is Finish without the hints of a sitemap.
func (f *Frontier) finishTask(ctx context.Context, task *Task, out Outcome) (Finished, error) {
	var res Finished
	f.mu.Lock()
	f.outage.tried(task.try)
	f.ending++
	defer f.written()
	defer f.tell(f.suspectLocked(task, &out, time.Now()))
	if task.remote {
		f.bench.remote.end(task.Server)
		f.dispatchLocked(time.Now())
		f.mu.Unlock()
		res.Ending = out.Ending
		if out.Receipt == nil {
			return res, nil
		}
		err := f.ledger.do(ctx, together, func(b *batch) error { b.receipt(out.Receipt); return nil })
		return res, wrap(err, "end remote fetch %s", task.URL)
	}
	h := task.host
	h.ending++ // until resume: its only URL may be that of the task, and is not back before the end
	e := f.bench.end(task, out, time.Now())
	if p := task.pending; p != nil && e.Ending != Again { // else the next try takes a smaller depth that was found meanwhile
		if depth, ok := h.depths[p.hash]; ok {
			delete(h.depths, p.hash)
			p.Depth, p.lowered = depth, true
		}
	}
	last := &taskEnd{host: h.name, verdict: e.Ending, reason: out.Reason, state: h.hostState, receipt: out.Receipt}
	if out.Robots != nil && out.Robots.Lifetime > 0 {
		last.robots = out.Robots
	}
	if p := task.pending; e.Ending != Again && p != nil && p.ref.seq > h.droppedAt {
		last.pending = p
		last.visit = f.visitLocked(task, out, time.Now())
	}
	f.mu.Unlock()
	f.ledger.count.change(func(t *Totals) { t.Duplicate += uint64(out.Known) })

	// The host stays on the workbench until everything is written, so that no older state of it is read from disk.
	defer f.resume(h)
	if err := f.finish(ctx, out, last, &res); err != nil {
		if errors.Is(err, errNotPassedOn) && last.pending != nil {
			f.putBack(h, *task.pending)
		}
		return res, fmt.Errorf("end %s: %w", task.URL, err)
	}
	res.Ending, res.NextAttempt, res.GaveUp = e.Ending, e.NextAttempt, e.GaveUp
	if !e.GaveUp {
		return res, nil
	}
	_, err := f.giveUp(ctx, h.name, out.Reason, time.Now().Add(f.bench.rules.EndedFor))
	return res, err
}

// errNotPassedOn means that Outcome.Elsewhere failed.
var errNotPassedOn = errors.New("links of hosts that are elsewhere were not passed on")

// putBack lets a URL wait that has ended on the workbench but not on disk.
func (f *Frontier) putBack(h *host, p pending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ref.seq > h.droppedAt {
		p.retryAt = time.Now().Add(f.bench.rules.BackoffMin)
		h.delay(p)
	}
}

// finish writes the links of an outcome, and the end of its task in one transaction with the last of them. If Outcome.Elsewhere must take
// links before, the end gets a transaction of its own.
func (f *Frontier) finish(ctx context.Context, out Outcome, last *taskEnd, res *Finished) error {
	l := f.ledger
	end := func(b *batch) error { return l.decideFinish(b, last) }
	for links := out.Links; ; {
		n := portion(links)
		offered := links[:n]
		links = links[n:]
		if n == 0 && last.pending == nil && last.robots == nil && last.receipt == nil && out.Trouble == NoTrouble {
			return nil // nothing to remember
		}
		adds, final, ended := additions(offered), len(links) == 0, false
		var verdicts []Verdict
		err := l.do(ctx, together, func(b *batch) (err error) {
			if verdicts, err = l.decideAdds(b, adds); err != nil || !final {
				return err
			}
			if out.Elsewhere != nil && slices.Contains(verdicts, NotOwned) {
				return nil
			}
			ended = true
			return end(b)
		})
		if err != nil {
			return err
		}
		before := len(res.NotOwned)
		res.count(offered, verdicts)
		if away := res.NotOwned[before:]; len(away) > 0 && out.Elsewhere != nil {
			if err := out.Elsewhere(ctx, away); err != nil {
				return fmt.Errorf("%w: %w", errNotPassedOn, err)
			}
		}
		switch {
		case ended:
			return nil
		case final:
			return l.do(ctx, together, end)
		}
	}
}

// count counts links by their verdicts, and keeps those that are not owned.
func (r *Finished) count(links []Link, verdicts []Verdict) {
	for i, v := range verdicts {
		switch v {
		case Accepted:
			r.Accepted++
			continue
		case Duplicate:
			r.Duplicate++
			continue
		case NotOwned:
			r.NotOwned = append(r.NotOwned, links[i])
		}
		r.Refused++
		if host := links[i].URL.Host; !slices.Contains(r.Refusing, host) {
			r.Refusing = append(r.Refusing, host)
		}
	}
}

// DropHost drops the pending URLs of a host and returns their number. URLs that come later are accepted again.
func (f *Frontier) DropHost(ctx context.Context, name, reason string) (int, error) {
	return f.giveUp(ctx, name, reason, time.Time{})
}

// DropBlocked drops the hosts on the workbench that Deps.Blocked names now, or whose servers it names. Hosts on disk are checked when they
// come onto the workbench.
func (f *Frontier) DropBlocked(ctx context.Context) error {
	f.mu.Lock()
	servers := make(map[string]string, len(f.bench.hosts))
	for name, h := range f.bench.hosts {
		servers[name] = name
		if h.server != nil {
			servers[name] = h.server.addr.String()
		}
	}
	f.mu.Unlock()
	var errs error
	for name, server := range servers {
		if reason := cmp.Or(f.deps.Blocked(name), f.deps.Blocked(server)); reason != "" {
			_, err := f.DropHost(ctx, name, reason)
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// RobotsBody returns the robots.txt that is kept for a host; nil if there is none.
func (f *Frontier) RobotsBody(host string) ([]byte, error) {
	body, err := f.store.get(hostKey(kindRobots, host))
	return body, wrap(err, "read robots.txt of %s", host)
}

// Retry forgets the failures of an owned host: its waits end, also those of pages that are due, and its URLs get all their attempts again.
// The usual spacing and the hours of the site still apply.
func (f *Frontier) Retry(ctx context.Context, name string) error {
	err := f.ledger.onHost(ctx, alone, name, func(b *batch, h *hostEntry) error {
		if h.rec.digest.Pages > 0 {
			_, first, err := f.store.duePages(name, nil, 0, 0)
			if err != nil {
				return err
			}
			h.rec.next = first
		}
		h.rec.notBefore, h.rec.level, h.rec.failures = time.Time{}, 0, 0
		h.rec.triedBy, h.rec.reachedSince = "", false
		h.rec.giveUp(time.Time{}, "")
		h.rec.retries++
		b.touched[name] = h
		b.changed(name, func(c *Change) { c.State = true })
		return nil
	})
	if err == nil {
		err = f.Activate(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("retry %s: %w", name, err)
	}
	f.update(func(now time.Time) {
		h := f.bench.hosts[name]
		if h == nil || h.place == loading {
			return
		}
		h.recovered()
		h.triedBy, h.reachedSince = "", false
		for i := range h.delayed {
			h.delayed[i].retryAt, h.delayed[i].tries = now, tries{}
		}
		f.bench.settle(h, now)
	})
	return nil
}
