package errand

import (
	"context"
	"sync"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// worker is the side that carries out errands for others.
type worker struct {
	cfg   Config
	deps  Deps
	mail  *courier[outgoing]
	local *asker // takes the answers to this node's own errands
	wake  chan struct{}

	// mu guards what follows, and the states of jobs.
	mu   sync.Mutex
	jobs map[jobKey]*Job
	// waiting are jobs in the order they came, until their time in the queue is over; running those that had begun by then.
	waiting, running []*Job
	// recent are jobs that ended, in order, so that an ask that comes twice is not carried out twice.
	recent      map[jobKey]struct{}
	recentOrder []endedJob
	count       JobCounts
}

type jobKey struct {
	from string
	id   uint64
}

type endedJob struct {
	key jobKey
	at  time.Time
}

// outgoing is an answer on its way.
type outgoing struct {
	job    *Job
	result Result
	since  time.Time
}

func newWorker(cfg Config, deps Deps) *worker {
	w := &worker{cfg: cfg, deps: deps, wake: make(chan struct{}, 1), jobs: make(map[jobKey]*Job),
		recent: make(map[jobKey]struct{})}
	w.mail = newCourier(cfg.Message, nil, w.send)
	return w
}

// takeAll is Errands.Ask.
func (w *worker) takeAll(from string, req *wire.AskRequest) *wire.AskResponse {
	res := new(wire.AskResponse)
	for i, m := range req.GetErrands() {
		reason := ""
		if i >= maxMessage {
			reason = "too many errands in one message"
			w.refused(func(c *JobCounts) { c.RefusedFull++ })
		} else if e, err := decodeErrand(m); err != nil {
			reason = "malformed: " + err.Error()
			w.refused(func(c *JobCounts) { c.RefusedMalformed++ })
		} else {
			reason = w.take(from, m.GetId(), e, within(m))
		}
		if reason != "" {
			res.Refused = append(res.Refused, m.GetId())
			res.Reasons = append(res.Reasons, cut(reason))
		}
	}
	return res
}

func (w *worker) refused(f func(*JobCounts)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f(&w.count)
}

// take makes a job of an errand whose download must be over within a time, 0 for as long as errands may take, or says why not.
func (w *worker) take(from string, id uint64, e Errand, within time.Duration) (reason string) {
	key := jobKey{from, id}
	if w.has(key) {
		return ""
	}
	if w.deps.Check != nil {
		if err := w.deps.Check(e.Server); err != nil {
			w.refused(func(c *JobCounts) { c.RefusedAddress++ })
			return "forbidden address: " + err.Error()
		}
	}
	if w.deps.Blocked != nil {
		if rule := w.deps.Blocked(e.URL, e.Server); rule != "" {
			w.refused(func(c *JobCounts) { c.RefusedBlocked++ })
			return "blocked: " + rule
		}
	}
	now := time.Now()
	job := &Job{Errand: e, From: from, id: id, received: now,
		Until: now.Add(w.cfg.Wait - w.cfg.AskFor - w.cfg.Margin)}
	if end := now.Add(within); within > 0 && end.Before(job.Until) {
		job.Until = end
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.jobs[key]; ok {
		return ""
	}
	if len(w.jobs) >= w.cfg.Jobs {
		w.count.RefusedFull++
		return "too many errands"
	}
	// The lock is held over Enqueue so that nobody begins a job that is not noted yet.
	if !w.deps.Enqueue(job) {
		w.count.RefusedFull++
		return "queue full"
	}
	w.jobs[key] = job
	w.waiting = append(w.waiting, job)
	w.count.Taken++
	if len(w.waiting) == 1 {
		w.signal()
	}
	return ""
}

// has says whether an errand was taken before, and counts it.
func (w *worker) has(key jobKey) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, job := w.jobs[key]
	_, recent := w.recent[key]
	if job || recent {
		w.count.Repeated++
	}
	return job || recent
}

// start is Errands.Start.
func (w *worker) start(tag any) (*Job, bool) {
	job, ok := tag.(*Job)
	if !ok || job == nil {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if job.state != queued || w.jobs[jobKey{job.From, job.id}] != job {
		return nil, false
	}
	if now := time.Now(); now.Sub(job.received) >= w.cfg.Queue || !now.Before(job.Until) { // the timer will give it back
		return nil, false
	}
	job.state = begun
	return job, true
}

// finished is Errands.Finished.
func (w *worker) finished(tag any, r Result) {
	job, ok := tag.(*Job)
	if !ok || job == nil {
		return
	}
	w.mu.Lock()
	if job.state != begun || w.jobs[jobKey{job.From, job.id}] != job {
		w.mu.Unlock()
		return
	}
	job.state = ended
	w.count.Made++
	w.mu.Unlock()
	w.answer(job, r)
}

// answer sends a result on its way. It needs mu free.
func (w *worker) answer(job *Job, r Result) {
	if job.From == w.deps.Self {
		if c, ok := w.deps.Coordinate(); ok {
			r.Coord, r.Placed = c, true
		}
		w.forget(job)
		w.local.answered(job.From, job.id, r)
		return
	}
	gap := w.cfg.Flush
	if job.Assigned {
		gap = 0
	}
	w.mail.add(job.From, outgoing{job: job, result: r, since: time.Now()}, w.cfg.Gather, gap, job.Until)
}

// send carries answers to a peer.
func (w *worker) send(ctx context.Context, to string, answers []outgoing) (again []outgoing) {
	req := new(wire.AnswerRequest)
	for _, o := range answers {
		req.Results = append(req.Results, encodeResult(o.job.id, o.result))
	}
	if c, ok := w.deps.Coordinate(); ok {
		req.Coordinate = c.AppendBinary(nil)
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	_, err := w.deps.Peers.Answer(ctx, to, req)
	now := time.Now()
	for _, o := range answers {
		switch {
		case err == nil:
			w.forget(o.job)
		case now.Sub(o.since) < w.cfg.AnswerFor:
			again = append(again, o)
		default:
			w.refused(func(c *JobCounts) { c.Undelivered++ })
			w.forget(o.job)
		}
	}
	return again
}

// forget ends a job for good, but for the memory that it was.
func (w *worker) forget(job *Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(job)
}

// drop needs mu held.
func (w *worker) drop(job *Job) {
	key := jobKey{job.From, job.id}
	if w.jobs[key] != job {
		return
	}
	job.state = ended
	delete(w.jobs, key)
	now := time.Now()
	// An ask is repeated for AskFor after it was first sent, and no message is under way for longer than a call.
	for len(w.recentOrder) > 0 && (now.Sub(w.recentOrder[0].at) > 2*(w.cfg.AskFor+w.cfg.CallTimeout) || len(w.recentOrder) >= 8*w.cfg.Jobs) {
		delete(w.recent, w.recentOrder[0].key)
		w.recentOrder = w.recentOrder[1:]
	}
	w.recent[key] = struct{}{}
	w.recentOrder = append(w.recentOrder, endedJob{key, now})
}

func (w *worker) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run gives back what has waited too long.
func (w *worker) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		back, next := w.overdue(time.Now())
		for _, job := range back {
			w.answer(job, unmade("it waited too long for a fetcher"))
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// unmade is the result of a job that was given back.
func unmade(reason string) Result {
	return Result{Unmade: true, Ending: frontier.Again, Trouble: frontier.Interrupted, Reason: reason}
}

// overdue takes off the jobs that have waited too long, and says how long no other will have.
func (w *worker) overdue(now time.Time) (back []*Job, next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	for len(w.waiting) > 0 {
		job := w.waiting[0]
		if wait := job.received.Add(w.cfg.Queue).Sub(now); wait > 0 && job.state == queued {
			next = wait
			break
		}
		w.waiting[0] = nil
		w.waiting = w.waiting[1:]
		switch job.state {
		case queued:
			job.state = ended
			w.count.GivenBack++
			back = append(back, job)
		case begun:
			w.running = append(w.running, job)
		}
	}
	for len(w.running) > 0 {
		job := w.running[0]
		if wait := job.received.Add(w.cfg.Wait).Sub(now); wait > 0 && job.state == begun {
			next = min(next, wait)
			break
		}
		w.running[0] = nil
		w.running = w.running[1:]
		if job.state == begun { // nobody waits for it any more, and its end was never told
			w.count.Lost++
			w.drop(job)
		}
	}
	return back, next
}

// setAlive drops the jobs of peers that are not alive, as far as they have not begun.
func (w *worker) setAlive(alive map[string]bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, job := range w.jobs {
		if job.state == queued && job.From != w.deps.Self && !alive[job.From] {
			w.count.Orphaned++
			w.drop(job)
		}
	}
}

// giveUp gives back everything that has not begun.
func (w *worker) giveUp() {
	w.mu.Lock()
	var back []*Job
	for _, job := range w.jobs {
		if job.state == queued {
			job.state = ended
			w.count.GivenBack++
			back = append(back, job)
		}
	}
	w.mu.Unlock()
	for _, job := range back {
		w.answer(job, unmade("the node stops"))
	}
}

func (w *worker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.jobs) > 0
}

func (w *worker) status() JobCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.count
	for _, job := range w.jobs {
		switch job.state {
		case queued:
			c.Queued++
		case begun:
			c.Running++
		case ended:
			c.Answers++
		}
	}
	return c
}
