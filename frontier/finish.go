package frontier

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Finish ends a task. It returns when the links found and the end of the URL are on disk, in that order: a crash in
// between repeats the download and loses nothing. The context bounds the wait, not the write.
func (f *Frontier) Finish(ctx context.Context, task *Task, out Outcome) (Finished, error) {
	res, err := f.finishTask(ctx, task, out)
	if err == nil && task.Kind == Sitemap && !task.remote && res.Duplicate > 0 {
		if err = f.hint(ctx, task.Host, out.Links); errors.Is(err, ErrClosed) {
			err = nil // the task has ended, and the next look at the sitemap says the same
		}
	}
	return res, err
}

func (f *Frontier) finishTask(ctx context.Context, task *Task, out Outcome) (Finished, error) {
	task.expiry.end()
	if task.try {
		f.tried()
	}
	if task.remote {
		return f.finishRemote(ctx, task, out)
	}
	var res Finished
	f.mu.Lock()
	f.ending++
	defer f.written()
	e := f.bench.end(task, out, time.Now())
	h := task.host
	h.ending++
	if p := task.pending; p != nil && h.depths != nil {
		if _, ok := h.depths[p.hash]; ok { // found less deep while it was under way
			delete(h.depths, p.hash)
			p.lowered = true
		}
	}
	last := &request{host: h.name, finish: &finished{verdict: e.ending, reason: out.Reason, state: h.state()},
		receipt: out.Receipt}
	if out.Robots != nil && out.Robots.Lifetime > 0 {
		last.robots = &robotsRecord{body: out.Robots.Body}
	}
	if p := task.pending; e.ending != Again && p != nil && p.ref.seq > h.droppedAt {
		last.finish.pending = p
		last.finish.visit = f.visitLocked(task, out, time.Now())
	}
	f.mu.Unlock()
	f.ledger.count.known(out.Known)

	// The host stays until all is written: nobody takes it up again with less.
	defer f.resume(h)
	if err := f.finish(ctx, out, last, &res); err != nil {
		if errors.Is(err, errNotPassedOn) && last.finish.pending != nil {
			f.putBack(h, *task.pending)
		}
		return res, fmt.Errorf("end %s: %w", task.URL, err)
	}
	res.Ending, res.NextAttempt = e.ending, e.again
	if !e.giveUp {
		return res, nil
	}
	res.GaveUp = true
	var err error
	res.Dropped, err = f.giveUp(ctx, h.name, out.Reason, time.Now().Add(f.bench.rules.EndedFor))
	return res, err
}

// errNotPassedOn says that Outcome.Elsewhere went wrong.
var errNotPassedOn = errors.New("links of hosts that are elsewhere were not passed on")

// putBack lets a URL wait that has ended for the bench but not on disk.
func (f *Frontier) putBack(h *host, p pending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ref.seq > h.droppedAt {
		p.retryAt = time.Now().Add(f.bench.rules.BackoffMin)
		h.delay(p)
	}
}

// finish writes the links of an outcome and then, with the last of them, the end of its URL.
func (f *Frontier) finish(ctx context.Context, out Outcome, last *request, res *Finished) error {
	for links := out.Links; ; {
		n := portion(links)
		offered := links[:n]
		r, adds := last, additions(offered)
		if links = links[n:]; len(links) > 0 {
			r = &request{adds: adds}
		} else {
			r.adds, r.holdBack = adds, out.Elsewhere != nil && (r.finish != nil || r.receipt != nil)
			if len(r.adds) == 0 && (r.finish == nil || r.finish.pending == nil) && r.robots == nil && r.receipt == nil && out.Trouble == NoTrouble {
				return nil // nothing to remember
			}
		}
		if err := f.ledger.do(ctx, r); err != nil {
			return err
		}
		before := len(res.NotOwned)
		res.count(offered, r.verdict)
		if away := res.NotOwned[before:]; len(away) > 0 && out.Elsewhere != nil {
			if err := out.Elsewhere(ctx, away); err != nil {
				return fmt.Errorf("%w: %w", errNotPassedOn, err)
			}
		}
		switch {
		case r != last:
		case r.heldBack:
			end := *last // the links are where they belong: now the end of the URL
			end.adds, end.verdict, end.holdBack, end.heldBack = nil, nil, false, false
			return f.ledger.do(ctx, &end)
		default:
			return nil
		}
	}
}

// count adds the answers to some links.
func (r *Finished) count(links []Link, verdicts []Verdict) {
	for i, v := range verdicts {
		switch v {
		case Accepted:
			r.Accepted++
		case Duplicate:
			r.Duplicate++
		case NotOwned:
			r.NotOwned = append(r.NotOwned, links[i])
			r.Refused++
		default:
			r.Refused++
		}
	}
}

// DropHost gives up the pending URLs of a host and says how many they were; URLs that come later are taken again.
func (f *Frontier) DropHost(ctx context.Context, name, reason string) (int, error) {
	return f.giveUp(ctx, name, reason, time.Time{})
}

// DropBlocked drops the hosts of the workbench that Deps.Blocked names now, or their servers. Those on disk are asked about when they
// come off it.
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
		reason := f.deps.Blocked(name)
		if reason == "" {
			reason = f.deps.Blocked(server)
		}
		if reason != "" {
			_, err := f.DropHost(ctx, name, reason)
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// RobotsBody returns the robots.txt kept for a host, nil if there is none.
func (f *Frontier) RobotsBody(host string) ([]byte, error) {
	if !f.store.enter() {
		return nil, ErrClosed
	}
	defer f.store.exit()
	return f.store.get(robotsKey(host))
}
