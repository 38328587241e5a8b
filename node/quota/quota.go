// Package quota shares the limits of a crawl, its pages, bytes and time, among the nodes of an overlay, so that it asks for no more pages
// than it may, whoever dies. It owns the book in which stands what each node may ask for and has asked for. It does not count
// anything and stops nothing: its node's loop does (Meter).
//
// One node, drawn from the settled ones, keeps the book (keeper.go). A node asks only for pages that were granted to it, and a grant counts only
// when all nodes of a majority have stored the book in which it stands:
//
//	        a node reports what it has done, and that it wants more
//	node ──────────────────────────────────────────────────────────► keeper ──► all store the book: the grant counts
//	  ▲                                                                │
//	  └────────── the next report is answered with the grant ─────────┘
//
// What a node was given when it crashed, and may have asked for, counts as done: so the crawl then ends with fewer pages, never with more.
package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// Limits are those of the whole crawl, by their keys in the configuration; 0 is none.
type Limits struct {
	MaxPages, MaxBytes int64
	MaxTime            time.Duration
}

// Any says whether there is a limit.
func (l Limits) Any() bool { return l.MaxPages > 0 || l.MaxBytes > 0 || l.MaxTime > 0 }

// Meter is what counts at this node. Its methods are quick and safe for concurrent use.
type Meter interface {
	// Spent returns what this life has asked for: pages, and bytes received. wants says that it could use more pages than it may ask for.
	Spent() (pages, bytes int64, wants bool)
	// Allow says how many pages this life may ask for in all. It never says fewer than before, but for what was withdrawn.
	Allow(pages int64)
	// Withdraw takes back what is allowed and not needed now, and returns how many pages that were.
	Withdraw() int64
	// End ends the crawl, as the limit of a key is reached.
	End(limit string)
}

// Deps are what a quota works with.
type Deps struct {
	View func() view.View
	Ask  func(ctx context.Context, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error)
	// Read and Keep read and write what the node remembers; Keep returns when that survives a power cut.
	Read func(key string) ([]byte, error)
	Keep func(ctx context.Context, key string, value []byte) error
	// Expected is how many nodes must have been there before anything is granted: groups that began apart would each grant all.
	Expected int
	Meter    Meter
}

// Shares is a node's part in sharing the limits. It is safe for concurrent use.
type Shares struct {
	limits Limits
	deps   Deps
	began  time.Time
	// writing is filled by who changes what is on disk; wake by a report of a node that wants pages.
	writing, wake chan struct{}

	// mu guards what follows.
	mu sync.Mutex
	// mine is what this node has; earlier is what it had when this life began, its granted pages all done.
	mine, earlier *wire.QuotaEntry
	// promised is the epoch of the last keeper that was promised to be heard; book is what a keeper has stored here.
	promised uint64
	book     *wire.QuotaBook
	keeper   *keeper // nil while another node keeps the book
	over     bool
}

// Steps of time.
const (
	reportEvery = time.Second
	// hungryEvery is how often a node reports that wants pages.
	hungryEvery = reportEvery / 4
	askPatience = 5 * time.Second
	// company is how long the keeper waits for others that want pages, too.
	company = reportEvery / 20
)

// New reads what an earlier life remembered.
func New(limits Limits, deps Deps) (*Shares, error) {
	q := &Shares{limits: limits, deps: deps, began: time.Now(), writing: make(chan struct{}, 1), wake: make(chan struct{}, 1), book: &wire.QuotaBook{}}
	if err := q.read(); err != nil {
		return nil, fmt.Errorf("read quota: %w", err)
	}
	return q, nil
}

// Run reports, and keeps the book while that is this node's turn, until the context ends. The loop has ended by then.
func (q *Shares) Run(ctx context.Context) error {
	if err := q.keepMine(ctx, false); err != nil {
		return err
	}
	q.allow()
	for {
		wants := q.spent()
		pause := reportEvery
		if wants {
			pause = hungryEvery
		}
		select {
		case <-ctx.Done():
			q.spent()
			return q.keepMine(context.WithoutCancel(ctx), true)
		case <-time.After(pause):
		case <-q.wake:
			time.Sleep(company)
		}
		v := q.deps.View()
		var err error
		if id := v.Drawn(drawn); id == v.Self {
			err = q.lead(ctx, v, wants)
		} else if id != "" {
			q.leaveBook()
			err = q.report(ctx, id, wants)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if wants && v.AllOver() { // they have reached the limit, and this node, which has pages left, would wait for ever
			q.reach(q.limits.first())
		}
	}
}

// drawn is what the keeper is drawn by.
const drawn = "quota"

// spent takes note of what this life has asked for, and says whether it wants to ask for more.
func (q *Shares) spent() (wants bool) {
	pages, bytes, wants := q.deps.Meter.Spent()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mine.Done = q.earlier.GetDone() + uint64(pages)
	q.mine.Bytes = q.earlier.GetBytes() + uint64(bytes)
	q.mine.ElapsedMs = q.earlier.GetElapsedMs() + time.Since(q.began).Milliseconds()
	return wants
}

// report tells the keeper how this node stands, and takes what it answers.
func (q *Shares) report(ctx context.Context, keeper string, wants bool) error {
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	res, err := q.deps.Ask(asking, keeper, &wire.QuotaRequest{Report: q.entry(), Wants: wants})
	if err != nil || !res.GetOk() {
		return nil //nolint:nilerr // the next report may find another keeper; meanwhile the node has what it was given
	}
	return q.take(ctx, res.GetEntry().GetGranted(), res.GetScarce() && !wants)
}

// take makes use of what is granted to this node, and gives back what it does not need where others want it.
func (q *Shares) take(ctx context.Context, granted uint64, back bool) error {
	var unused uint64
	if back {
		unused = uint64(q.deps.Meter.Withdraw())
	}
	q.mu.Lock()
	more := granted > q.mine.GetGranted()
	q.mine.Granted = max(granted, q.mine.GetGranted())
	q.mine.GivenBack += unused
	q.mu.Unlock()
	if !more && unused == 0 {
		return nil
	}
	if err := q.keepMine(ctx, false); err != nil { // before any of it is used
		return err
	}
	q.allow()
	return nil
}

// allow tells the loop how many pages it may ask for.
func (q *Shares) allow() {
	q.mu.Lock()
	n := int64(q.mine.GetGranted()) - int64(q.mine.GetGivenBack()) - int64(q.earlier.GetDone())
	q.mu.Unlock()
	if q.limits.MaxPages > 0 {
		q.deps.Meter.Allow(max(n, 0))
	}
}

// first is the key of one of the limits.
func (l Limits) first() string {
	switch {
	case l.MaxPages > 0:
		return "max_pages"
	case l.MaxBytes > 0:
		return "max_bytes"
	}
	return "max_time"
}

// Quota answers a keeper, or the report of another node.
func (q *Shares) Quota(ctx context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	switch {
	case req.GetEpoch() == 0:
		return q.reported(from, req)
	case req.GetBook() == nil:
		return q.promise(ctx, req.GetEpoch())
	}
	return q.store(ctx, req.GetEpoch(), req.GetBook())
}

// promise makes the keeper of an epoch the only one that is heard, unless one of a later epoch was.
func (q *Shares) promise(ctx context.Context, epoch uint64) (*wire.QuotaResponse, error) {
	return q.change(ctx, func() bool {
		if epoch <= q.promised {
			return false
		}
		q.promised = epoch
		return true
	})
}

// store keeps the book of a keeper, unless a later one was promised to be heard.
func (q *Shares) store(ctx context.Context, epoch uint64, book *wire.QuotaBook) (*wire.QuotaResponse, error) {
	res, err := q.change(ctx, func() bool {
		if epoch < q.promised || !newer(book, q.book) {
			return false
		}
		q.promised, q.book = epoch, book
		return true
	})
	if err == nil && res.GetOk() && book.GetReached() != "" {
		q.reach(book.GetReached())
	}
	return res, err
}

// reach ends the crawl at this node.
func (q *Shares) reach(limit string) {
	q.mu.Lock()
	was := q.over
	q.over = true
	q.mu.Unlock()
	if !was {
		q.deps.Meter.End(limit)
	}
}

// change changes what this node has promised and stored, on disk before it answers.
func (q *Shares) change(ctx context.Context, do func() bool) (*wire.QuotaResponse, error) {
	select {
	case q.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-q.writing }()
	q.mu.Lock()
	promised, book := q.promised, q.book
	ok := do()
	res := &wire.QuotaResponse{Ok: ok, Epoch: q.promised, Book: q.book}
	q.mu.Unlock()
	if !ok {
		return res, nil
	}
	if err := q.keepBook(ctx); err != nil {
		q.mu.Lock()
		q.promised, q.book = promised, book
		q.mu.Unlock()
		return nil, err
	}
	return res, nil
}

// entry is a copy of what this node has.
func (q *Shares) entry() *wire.QuotaEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return copyOf(q.mine)
}
