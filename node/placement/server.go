package placement

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"proxima/assign"
	"proxima/frontier"
	"proxima/frontier/identity"
)

// server is a server of a batch: one request at a time, whoever asks for it. All of it but what the batch needs at the
// beginning and the end belongs to one goroutine at a time.
type server struct {
	*Placement
	addr   netip.Addr
	hosts  []*host
	memory assign.Memory // what its grantor knew
	turns  chan struct{} // room for one: who asks has it
	given  bool          // its lease went on
	turn   int           // whose turn it is to give a URL
	next   time.Time     // before that nothing is asked for but what the frontier hands out
	alone  time.Time     // until then a node that cannot be heard may be at work on a page
	pages  []page        // of mode persistent
}

// keep leaves the hosts that have no fate yet with their home.
func (s *server) keep() {
	for _, h := range s.hosts {
		if h.fate == undecided {
			h.fate = kept
		}
	}
}

// give lets the lease and the reservation of the server go, once.
func (s *server) give(to string, m *assign.Memory) {
	s.given = true
	s.deps.Leases.Give(s.addr, to, m)
	s.reserve(s.addr, false)
}

// errNothing says that a server has nothing to ask for now.
var errNothing = errors.New("the server has no URL to ask for")

// take returns the next page that may be asked for, of the hosts in turn. What comes before it (robots.txt) or is no page
// is carried out here. It waits for the politeness of the server until cut ends.
func (s *server) take(ctx, cut context.Context) (*frontier.Task, *host, error) {
	for range s.hosts {
		h := s.hosts[s.turn%len(s.hosts)]
		s.turn++
		if h.spent {
			continue
		}
		task, err := s.takeOf(ctx, cut, h)
		if err == nil || !errors.Is(err, errNothing) {
			return task, h, err
		}
		if cut.Err() != nil {
			break
		}
	}
	return nil, nil, errNothing
}

// takeOf is take for one host. Its error is errNothing, or one that ends the batch.
func (s *server) takeOf(ctx, cut context.Context, h *host) (*frontier.Task, error) {
	for !h.spent {
		task, err := s.takeTask(cut, h)
		if err != nil {
			return nil, err
		}
		if task.Kind != frontier.Page {
			if err := s.deps.Crawler.Do(ctx, task); err != nil {
				return nil, fmt.Errorf("crawl %s: %w", task.URL, err)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			continue
		}
		h.taken++
		reason, err := s.deps.Crawler.Refuse(task)
		switch {
		case err != nil:
			err = fmt.Errorf("judge %s: %w", task.URL, err)
			return nil, errors.Join(err, s.finish(ctx, task, putBack(false)))
		case reason != "":
			if err := s.finish(ctx, task, frontier.Outcome{Ending: frontier.Dropped, Reason: reason}); err != nil {
				return nil, err
			}
		default:
			return task, nil
		}
	}
	return nil, errNothing
}

func (s *server) takeTask(cut context.Context, h *host) (*frontier.Task, error) {
	ctx, cancel := context.WithTimeout(cut, s.cfg.takeFor())
	defer cancel()
	task, err := s.deps.Frontier.TakeFrom(ctx, h.name, s.addr)
	switch {
	case err == nil:
		return task, nil
	case errors.Is(err, frontier.ErrNoURL):
		h.spent = true
		return nil, errNothing
	case errors.Is(err, frontier.ErrElsewhere), errors.Is(err, frontier.ErrNotReserved):
		h.spent, h.away = true, true
		return nil, errNothing
	case ctx.Err() != nil:
		return nil, errNothing
	}
	return nil, fmt.Errorf("take a URL of %s: %w", h.name, err)
}

// finish ends a task, even when the batch is being stopped.
func (s *server) finish(ctx context.Context, task *frontier.Task, out frontier.Outcome) error {
	if _, err := s.deps.Frontier.Finish(context.WithoutCancel(ctx), task, out); err != nil {
		return fmt.Errorf("finish %s: %w", task.URL, err)
	}
	return nil
}

// page is a URL that a server is asked for.
type page struct {
	url                  identity.URL
	host                 string
	depth, hops, attempt uint8
}

func pageOf(task *frontier.Task) page {
	return page{url: task.URL, host: task.Host, depth: task.Depth, hops: task.Hops, attempt: task.Attempt}
}

// ask lets a node download a page of the server, and notes when the server may be asked again.
func (s *server) ask(ctx context.Context, node string, p page, e RemoteFetch) (Result, error) {
	e.URL, e.Server, e.Depth, e.Hops, e.Attempt = p.url, s.addr, p.depth, p.hops, p.attempt
	epoch, _, err := s.deps.Owners.Record(p.host)
	if err != nil {
		return Result{}, err
	}
	e.Epoch = epoch
	r, err := s.deps.Fetch(ctx, node, e)
	if err != nil {
		s.count(func(st *Status) { st.Unanswered++ })
	}
	if err != nil || r.Asked {
		s.alone = time.Now().Add(r.Lingers)
		s.next = s.alone.Add(s.deps.Frontier.Gap(p.host, s.addr, r.Timing.Total, r.RetryAfter))
	}
	return r, err
}

// wait waits until the server may be asked again.
func (s *server) wait(ctx context.Context) error {
	d := time.Until(s.next)
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// putBack is the outcome of a page that comes again as it was. Asked says that a request may have been made.
func putBack(asked bool) frontier.Outcome {
	return frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted, Asked: asked, Reason: "a remote fetch was not carried out"}
}

// outcome is what the result of a remote fetch by a node means for the page, at the node self that asked. Trouble of another node
// with reaching the server, or with its right to ask, is not held against the host: it may be that node's own.
func outcome(self, node string, r Result, err error) frontier.Outcome {
	switch {
	case err != nil:
		out := putBack(true)
		out.Lingers = r.Lingers
		return out
	case r.Unmade:
		return putBack(false)
	case r.Ending == frontier.Again && node != self && (r.Trouble == frontier.Unreachable || r.Trouble == frontier.Forbidden),
		r.Ending == frontier.Again && r.Trouble == frontier.NoTrouble:
		out := putBack(r.Asked)
		out.Elapsed, out.RetryAfter = r.Timing.Total, r.RetryAfter
		return out
	}
	return frontier.Outcome{Ending: r.Ending, Trouble: r.Trouble, Reason: r.Reason, Asked: r.Asked, RetryAfter: r.RetryAfter,
		Elapsed: r.Timing.Total}
}

// observed is a result as the assigners take it.
func observed(ask assign.Ask, r Result, err error) assign.Result {
	o := assign.Result{Ask: ask}
	if useful(r, err) {
		o.OK, o.Timing = true, r.Timing
		if r.Placed {
			o.Coord = r.Coord
		}
	}
	return o
}

// estimate lets a node download one page of the server for an assigner. While a former estimator may still be at work it
// fails at once: the batch is decided by what is known.
func (s *server) estimate(ctx, cut context.Context, id, label string, ask assign.Ask) (assign.Result, error) {
	failed := assign.Result{Ask: ask}
	if time.Now().Before(s.alone) {
		return failed, nil
	}
	e := RemoteFetch{Batch: id, Labels: []string{label}, Fresh: true}
	if s.pages != nil {
		r, err := s.again(ctx, ask.Node, e)
		return observed(ask, r, err), ctx.Err()
	}
	task, _, err := s.take(ctx, cut)
	if errors.Is(err, errNothing) {
		return failed, nil
	} else if err != nil {
		return failed, err
	}
	s.count(func(st *Status) { st.Estimates++ })
	r, err := s.askFor(ctx, ask.Node, task, e)
	if err := s.finish(ctx, task, outcome(s.deps.Self, ask.Node, r, err)); err != nil {
		return failed, err
	}
	return observed(ask, r, err), nil
}

// askFor is ask for a task: the wait ends with the lease of the server.
func (s *server) askFor(ctx context.Context, node string, task *frontier.Task, e RemoteFetch) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	task.OnExpire(cancel)
	return s.ask(ctx, node, pageOf(task), e)
}
