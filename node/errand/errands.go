package errand

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"proxima/node/wire"
)

// Errands is both sides of a node: what it asks of peers and what it does for them. All methods are safe for concurrent
// use.
type Errands struct {
	asker  *asker
	worker *worker
}

// New makes the room; Run starts it.
func New(cfg Config, deps Deps) (*Errands, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("errands: %w", err)
	}
	if deps.Self == "" || deps.Peers == nil || deps.Enqueue == nil || deps.Coordinate == nil {
		return nil, errors.New("errands: self, peers, enqueue and coordinate are needed")
	}
	e := &Errands{asker: newAsker(cfg, deps), worker: newWorker(cfg, deps)}
	e.asker.local, e.worker.local = e.worker, e.asker
	return e, nil
}

// Do lets a peer (or this node itself) carry out an errand and returns what became of it. It needs Run. Besides that of
// the context its errors are ErrUnanswered, ErrGone, ErrFull, ErrClosed and RefusedError; of the result counts Lingers then.
func (e *Errands) Do(ctx context.Context, to string, x Errand) (Result, error) {
	return e.asker.do(ctx, to, x)
}

// Ask takes errands of a peer: the handler of the call of that name. It acknowledges at once, and names those that are
// not taken, with reasons. The same errand may come twice.
func (e *Errands) Ask(_ context.Context, from string, req *wire.AskRequest) (*wire.AskResponse, error) {
	return e.worker.takeAll(from, req), nil
}

// Answer takes the results of errands from the peer that made them: the handler of the call of that name. Results that
// nobody asked this peer for, or that make no sense, change nothing and are counted.
func (e *Errands) Answer(_ context.Context, from string, req *wire.AnswerRequest) (*wire.AnswerResponse, error) {
	return e.asker.take(from, req)
}

// Start says whether a job may still be carried out; it is called with the tag of a task just before its download, which
// must be broken off at Job.Until. Where the job was given back meanwhile, or the tag is none of this room, it returns
// false, and the task ends without a request and without Finished.
func (e *Errands) Start(tag any) (*Job, bool) { return e.worker.start(tag) }

// Finished takes the result of a job that Start had let go, and sends it to who asked. Unknown tags are ignored. The
// result's coordinate is filled in here.
func (e *Errands) Finished(tag any, r Result) { e.worker.finished(tag, r) }

// farewell is how long a node that stops waits for peers to take the last answers.
const farewell = 2 * time.Second

// Run sends and answers until the context ends. Then all who wait in Do get ErrClosed, jobs that have not begun are given
// back, and the last answers are sent once.
func (e *Errands) Run(ctx context.Context) error {
	var g sync.WaitGroup
	g.Go(func() { e.asker.mail.run(ctx) })
	g.Go(func() { e.worker.mail.run(ctx) })
	g.Go(func() { e.worker.run(ctx) })
	<-ctx.Done()
	e.asker.close()
	g.Wait()
	e.worker.giveUp()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	e.worker.mail.farewell(last)
	return nil
}

// SetAlive names the peers that are alive. Errands to others end at once, and what they asked for and has not begun is
// dropped. Before the first call everybody counts as alive; this node itself always does.
func (e *Errands) SetAlive(ids []string) {
	alive := make(map[string]bool, len(ids))
	for _, id := range ids {
		alive[id] = true
	}
	e.asker.setAlive(alive)
	e.worker.setAlive(alive)
}

// Busy says that errands are under way, asked for here or carried out here: the crawl is not at its end.
func (e *Errands) Busy() bool {
	return e.asker.busy() || e.worker.busy()
}

// Status is both sides in numbers.
type Status struct {
	Asks AskCounts `json:"asks"`
	Jobs JobCounts `json:"jobs"`
}

// AskCounts are the errands of this node. Waiting, LateKept and Mail are now, the rest counts since the start.
type AskCounts struct {
	Waiting    int   `json:"waiting"`    // for answers
	LateKept   int   `json:"late_kept"`  // abandoned, but of use if answered
	Mail       int   `json:"mail"`       // not sent yet, or to be sent again
	Asked      int64 `json:"asked"`      // in all
	Answered   int64 `json:"answered"`   // in time
	Unmade     int64 `json:"unmade"`     // given back
	Refused    int64 `json:"refused"`    // by the peer
	Unanswered int64 `json:"unanswered"` // in time
	Gone       int64 `json:"gone"`       // to peers that died
	Unsent     int64 `json:"unsent"`     // never acknowledged
	Full       int64 `json:"full"`       // not asked: too many waited
	Late       int64 `json:"late"`       // answered after all
	Unknown    int64 `json:"unknown"`    // answers to what was not asked
	Strange    int64 `json:"strange"`    // answers that make no sense
}

// JobCounts are the errands of peers. Queued, Running and Answers are now, the rest counts since the start.
type JobCounts struct {
	Queued           int   `json:"queued"`            // wait for a fetcher
	Running          int   `json:"running"`           // being downloaded
	Answers          int   `json:"answers"`           // not acknowledged by who asked
	Taken            int64 `json:"taken"`             // in all
	Repeated         int64 `json:"repeated"`          // asked twice
	Made             int64 `json:"made"`              // with whatever ending
	GivenBack        int64 `json:"given_back"`        // waited too long
	Orphaned         int64 `json:"orphaned"`          // dropped: who asked died
	Lost             int64 `json:"lost"`              // their end was never told
	Undelivered      int64 `json:"undelivered"`       // answers that nobody took
	RefusedMalformed int64 `json:"refused_malformed"` //
	RefusedAddress   int64 `json:"refused_address"`   // forbidden to dial
	RefusedBlocked   int64 `json:"refused_blocked"`   // by the blocklist
	RefusedFull      int64 `json:"refused_full"`      // too many
}

// Status reports.
func (e *Errands) Status() Status {
	s := Status{Asks: e.asker.status(), Jobs: e.worker.status()}
	s.Asks.Mail = e.asker.mail.waiting()
	return s
}
