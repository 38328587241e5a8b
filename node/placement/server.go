package placement

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/node/bell"
	"proxima/node/lease"
)

// server is a server of a batch. It is asked for one page at a time. While estimates are made, the goroutine that has its turn owns
// the fields; before and after, the goroutine of the batch does.
type server struct {
	*Placement
	addr       netip.Addr
	hosts      []*host
	held       bool                     // this node holds its lease, and has reserved it
	memory     assign.Memory            // as its grantor had it
	learnt     map[string]assign.Memory // by label: what the rounds of mode persistent have shown
	pages      []*frontier.Task         // that the rounds repeat
	estimating chan struct{}            // a mutex that a fake clock understands: full while an estimate is made
	turn       int                      // counts the turns of the hosts, or of the pages of the rounds
	next       time.Time                // when the server may be asked again; the frontier may not know of remote fetches
	alone      time.Time                // until when the server is left alone, because a node that gave no answer may still be downloading from it
}

// keep leaves the hosts with their home.
func (s *server) keep() {
	for _, h := range s.hosts {
		h.fate = kept
	}
}

// give gives the lease back for a successor, and ends the reservation.
func (s *server) give(to string, m *assign.Memory) {
	s.held = false
	s.deps.Leases.Give(s.addr, to, m)
	s.reserve(s.addr, false)
}

// take returns the next page that may be requested, of all hosts in turn; nil if there is none before cut ends. An error ends the batch.
func (s *server) take(ctx, cut context.Context) (*frontier.Task, error) {
	for range s.hosts {
		h := s.hosts[s.turn%len(s.hosts)]
		s.turn++
		if task, err := s.takeOf(ctx, cut, h); task != nil || err != nil {
			return task, err
		}
	}
	return nil, nil
}

// takeOf returns the next page of a host that may be requested; nil if there is none. This node itself carries out other tasks that
// come before it, such as robots.txt. takeOf waits for the politeness of the server until cut ends. An error ends the batch.
func (s *server) takeOf(ctx, cut context.Context, h *host) (*frontier.Task, error) {
	for !h.spent {
		task, err := s.takeTask(cut, h)
		if task == nil {
			return nil, err
		}
		if task.Kind != frontier.Page {
			if err := s.deps.Crawler.Do(ctx, task); err != nil {
				return nil, fmt.Errorf("crawl %s: %w", task.URL, err)
			}
			continue
		}
		h.taken++
		reason, err := s.deps.Crawler.Refuse(ctx, task)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("judge %s: %w", task.URL, err), s.finish(ctx, task, putBack(false)))
		}
		if reason == "" {
			return task, nil
		}
		if err := s.finish(ctx, task, frontier.Outcome{Ending: frontier.Dropped, Reason: reason}); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// takeTask returns the next task of a host; nil if there is none in time.
func (s *server) takeTask(cut context.Context, h *host) (*frontier.Task, error) {
	ctx, cancel := context.WithTimeout(cut, s.cfg.takeFor())
	defer cancel()
	task, err := s.deps.Frontier.TakeFrom(ctx, h.name, s.addr)
	switch {
	case err == nil:
		return task, nil
	case errors.Is(err, frontier.ErrElsewhere), errors.Is(err, frontier.ErrNotReserved):
		h.spent, h.away = true, true
	case errors.Is(err, frontier.ErrNoURL):
		h.spent = true
	case ctx.Err() == nil:
		return nil, fmt.Errorf("take a URL of %s: %w", h.name, err)
	}
	return nil, nil
}

// finish ends a task, even if the batch is being stopped.
func (s *server) finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	if err := s.deps.Crawler.Finish(context.WithoutCancel(ctx), task, out); err != nil {
		return fmt.Errorf("finish %s: %w", task.URL, err)
	}
	return nil
}

// ask lets a node download a page of the server, and notes when the server may be asked next.
func (s *server) ask(ctx context.Context, node string, page *frontier.Task, f RemoteFetch) (Result, error) {
	f.URL, f.Server, f.Depth, f.Hops, f.Attempt = page.URL, s.addr, page.Depth, page.Hops, page.Attempt
	record, _, err := s.deps.Owners.Record(page.Host)
	if err != nil {
		return Result{}, err
	}
	f.Epoch = record.Epoch
	r, err := s.deps.Fetch(ctx, node, f)
	if err != nil {
		r.Unmade = errors.Is(err, errNotHeld) || errors.Is(err, lease.ErrGap) // this node is the cause
		s.updateStatus(func(st *Status) { st.Unanswered++ })
		if errors.Is(err, errUnanswered) && node != s.deps.Self { // it was frozen or its disk hung, and all its servers would move
			s.leaveOut(node)
		}
	}
	if err != nil || r.Asked {
		s.alone = time.Now().Add(r.Lingers)
		s.next = s.alone.Add(s.deps.Frontier.Gap(page.Host, s.addr, r.Timing.Total, r.RetryAfter))
	}
	return r, err
}

// wait waits until the server may be asked again.
func (s *server) wait(ctx context.Context) error { return bell.Sleep(ctx, time.Until(s.next)) }

// askFor lets a node download the page of a task, and finishes the task. ok tells whether the timing is usable.
func (s *server) askFor(ctx context.Context, node string, task *frontier.Task, f RemoteFetch) (r Result, ok bool, err error) {
	r, failed := s.ask(ctx, node, task, f)
	return r, usable(r, failed), s.finish(ctx, task, outcome(s.deps.Self, node, r, failed))
}

// estimate lets a node download one page of the server for an assigner, after other estimates of this server. It gives up if the
// deadline has passed, or if an estimator that cannot be reached may still be downloading. The assigner then decides by what is known.
func (s *server) estimate(ctx, cut context.Context, id, label string, ask assign.Ask) (assign.Result, error) {
	s.estimating <- struct{}{}
	defer func() { <-s.estimating }()
	res := assign.Result{Ask: ask}
	if cut.Err() != nil || time.Now().Before(s.alone) {
		return res, nil
	}
	var r Result
	f := RemoteFetch{Batch: id, Labels: []string{label}, Fresh: true}
	if s.pages != nil {
		var failed error
		r, failed = s.repeatPage(ctx, ask.Node, f)
		res.OK = usable(r, failed)
	} else {
		task, err := s.take(ctx, cut)
		if task == nil {
			return res, err
		}
		s.updateStatus(func(st *Status) { st.Estimates++ })
		if r, res.OK, err = s.askFor(ctx, ask.Node, task, f); err != nil {
			return assign.Result{Ask: ask}, err
		}
	}
	if res.OK {
		res.Timing, res.Coord = r.Timing, r.Coord
	}
	res.Busy = r.Unmade
	res.Unreached = !res.OK && !res.Busy && !answered(r.Status)
	return res, ctx.Err()
}

// answered reports whether a server has answered a node as it would any other: with a page, a file, a redirect, or that there is nothing.
// Other errors may be meant for that node alone, and 0 is no answer.
func answered(status int) bool {
	return status > 0 && status < http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusGone
}

// usable reports whether the timing of a result tells how far the node is from the server.
func usable(r Result, err error) bool { return err == nil && r.HTML && !r.Unmade && r.Timing.Total > 0 }

// putBack returns the outcome of a page that was not downloaded and is tried again. asked tells whether it may have been requested.
func putBack(asked bool) frontier.Outcome {
	return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: asked, Reason: "a remote fetch was not carried out"}
}

// othersTrouble reports whether a node other than self could not reach a server, or must not dial it. That does not count against the host: it may
// be that node's own trouble.
func othersTrouble(self, node string, r Result) bool {
	return node != self && r.Ending == frontier.Again && (r.Trouble == frontier.Unreachable || r.Trouble == frontier.Forbidden)
}

// outcome returns what the result of a remote fetch means for the page. node made the fetch, self asked for it.
func outcome(self, node string, r Result, err error) frontier.Outcome {
	switch {
	case err != nil:
		out := putBack(true)
		out.Lingers = r.Lingers
		return out
	case r.Unmade:
		return putBack(false)
	}
	out := r.Outcome
	if r.Ending == frontier.Again && r.Trouble == frontier.NoTrouble || othersTrouble(self, node, r) {
		out = putBack(r.Asked)
	}
	out.Elapsed, out.RetryAfter = r.Timing.Total, r.RetryAfter
	if out.Ending == frontier.Done && r.Status == http.StatusOK {
		out.Visit = &frontier.Visit{Found: frontier.Altered} // this node does not know the content
	}
	return out
}
