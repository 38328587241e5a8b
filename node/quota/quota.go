// Package quota shares a crawl's limits on pages, bytes and time among the nodes of an overlay. The nodes together never
// request more pages than the limit, whichever of them die. The package owns the book of what each node may request and has
// requested. It neither counts nor stops anything itself: the node's crawl loop does (Meter).
//
// One node, drawn from the settled members, keeps the book (keeper.go). A node requests only pages that were granted to it, and
// a grant counts only once all nodes of a majority have stored the book that contains it:
//
//	        a node reports what it has done, and whether it wants more
//	node ──────────────────────────────────────────────────────────► keeper ──► all store the book: the grant counts
//	  ▲                                                                │
//	  └────────── the next report is answered with the grant ─────────┘
//
// When a node crashes, its whole grant counts as done. The crawl may then end with fewer pages than the limit, never with more.
package quota

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/bell"
	"proxima/node/view"
	"proxima/node/wire"
)

// Limits are the limits of the whole crawl, named as in the configuration. 0 means no limit.
type Limits struct {
	MaxPages, MaxBytes int64
	MaxTime            time.Duration
}

// first returns the key of the first limit that is set, or "".
func (l Limits) first() string { return l.reached(math.MaxInt64, math.MaxInt64, math.MaxInt64) }

// reached returns the key of the first limit that these values reach, or "".
func (l Limits) reached(pages, bytes int64, elapsed time.Duration) string {
	switch {
	case l.MaxPages > 0 && pages >= l.MaxPages:
		return "max_pages"
	case l.MaxBytes > 0 && bytes >= l.MaxBytes:
		return "max_bytes"
	case l.MaxTime > 0 && elapsed >= l.MaxTime:
		return "max_time"
	}
	return ""
}

// differ reports whether another node has other limits.
func (l Limits) differ(other *wire.QuotaLimits) bool {
	return other != nil && l != Limits{other.GetMaxPages(), other.GetMaxBytes(), time.Duration(other.GetMaxTimeMs()) * time.Millisecond}
}

func (l Limits) wire() *wire.QuotaLimits {
	return &wire.QuotaLimits{MaxPages: l.MaxPages, MaxBytes: l.MaxBytes, MaxTimeMs: l.MaxTime.Milliseconds()}
}

// Meter counts and bounds the requests of this node. Its methods are quick and safe for concurrent use.
type Meter interface {
	// Spent returns the pages requested and bytes received by this life. wants means that it could use more pages than
	// allowed.
	Spent() (pages, bytes int64, wants bool)
	// Allow sets how many pages this life may request in all. Except after Withdraw, the number never falls.
	Allow(pages int64)
	// Withdraw takes back pages that are allowed and not needed now, and returns how many.
	Withdraw() int64
	// End ends the crawl because the limit with this key is reached.
	End(limit string)
}

// Deps are what a node's Shares need from it.
type Deps struct {
	View func() view.View
	// Ask calls a node. It may change the request.
	Ask func(ctx context.Context, to string, req *wire.QuotaRequest) (*wire.QuotaResponse, error)
	// Read and Keep read and write values on disk. Keep returns when its value would survive a power failure. It must not wait for
	// room: the others could grant nothing meanwhile. What it fails to write is tried again.
	Read func(key string) ([]byte, error)
	Keep func(key string, value []byte) error
	// Warn hears of what keeps pages from being granted, once when it has lasted for some time, and of the first error of Keep in a series.
	Warn func(error)
	// Expected is how many nodes must be settled before the first grant. Otherwise groups that start apart would each grant
	// everything.
	Expected int
	Meter    Meter
}

// Shares is a node's part in sharing the limits. It is safe for concurrent use.
type Shares struct {
	limits  Limits
	deps    Deps
	began   time.Time
	wake    bell.Bell   // a node has reported that it wants pages
	failing atomic.Bool // the last value could not be kept
	leaving atomic.Bool
	left    bell.Bell // a node that leaves has given back all
	over    sync.Once // ends the crawl
	differs sync.Once // tells the operator that nodes have different limits
	written bool      // the grants in mine are on disk; only Run uses it
	heard   bool      // a keeper has told what was granted to earlier lives; until then nothing is used. Only Run uses it
	crashed bool      // the life before did not end in order; only Run uses it
	still   int       // rounds in which a node that leaves heard nothing new; only Run uses it

	// writing is held while a change of what was promised and stored is written. It is taken before mu.
	writing sync.Mutex

	// mu guards the fields below.
	mu sync.Mutex
	// mine is this node's entry. earlier is its entry when this life began.
	mine, earlier *wire.QuotaEntry
	// promised is the epoch of the last keeper that this node follows. book is the last book that a keeper stored here.
	promised uint64
	book     *wire.QuotaBook
	keeper   *keeper // nil while another node keeps the book
	// hindrance is what keeps pages from being granted, as far as this node knows, and since is when that began. told means that Warn has
	// heard of it.
	hindrance error
	since     time.Time
	told      bool
}

const (
	// reportEvery is the interval of a node's reports, hungryEvery that of a node that wants pages.
	reportEvery = time.Second
	hungryEvery = reportEvery / 4
	// askPatience bounds the wait for an answer.
	askPatience = 5 * time.Second
	// company is how long the keeper waits for more nodes that want pages before it grants some.
	company = reportEvery / 20
	// shownAfter and toldAfter are how long a hindrance must last before Why and Warn tell of it. A new keeper needs a few seconds.
	shownAfter, toldAfter = 10 * time.Second, 30 * time.Second
)

// New makes a node's Shares, which continue what an earlier life kept on disk. Run starts them.
func New(limits Limits, deps Deps) (*Shares, error) {
	q := &Shares{limits: limits, deps: deps, began: time.Now(), wake: bell.New(), left: bell.New(), book: &wire.QuotaBook{}}
	if err := q.read(); err != nil {
		return nil, fmt.Errorf("read quota: %w", err)
	}
	return q, nil
}

// Run reports to the keeper, or keeps the book if this node is drawn, until ctx ends. The crawl loop must have ended by then. Without a limit
// there is nothing to do.
func (q *Shares) Run(ctx context.Context) error {
	if q.limits.first() == "" {
		return nil
	}
	for {
		q.use()
		wants := q.spent() && !q.leaving.Load()
		pause := reportEvery
		if wants {
			pause = hungryEvery
		}
		select {
		case <-ctx.Done():
			q.spent()
			_ = q.keepMine(true) // without that, all that was granted counts as used
			return nil
		case <-time.After(pause):
		case <-q.wake:
			time.Sleep(company)
		}
		v := q.deps.View()
		asks := wants && q.heard && q.written // what it hears of first was granted to earlier lives; what is not on disk is not used
		if id := v.Drawn("quota"); id == v.Self {
			q.hinder(q.lead(ctx, v, asks))
		} else if id != "" {
			q.leaveBook()
			q.hinder(q.report(ctx, id, asks))
		}
		q.tell(wants)
		if wants && v.AllOver() { // the others have reached the limit: this node would wait for pages for ever
			q.reach(q.limits.first())
		}
	}
}

// spent updates this node's entry and reports whether it wants more pages.
func (q *Shares) spent() (wants bool) {
	pages, bytes, wants := q.deps.Meter.Spent()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mine.Done = q.earlier.GetDone() + uint64(pages)
	q.mine.Bytes = q.earlier.GetBytes() + uint64(bytes)
	q.mine.ElapsedMs = q.earlier.GetElapsedMs() + time.Since(q.began).Milliseconds()
	return wants
}

// report sends this node's entry to the keeper and takes the grant from its answer. After an error the next report may find another keeper.
func (q *Shares) report(ctx context.Context, keeper string, wants bool) error {
	asking, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	res, err := q.deps.Ask(asking, keeper, &wire.QuotaRequest{Report: q.entry(), Wants: wants, Limits: q.limits.wire()})
	switch {
	case err != nil:
		return fmt.Errorf("%s, which keeps the book, does not answer: %w", keeper, err)
	case !res.GetOk():
		return fmt.Errorf("%s, which keeps the book, grants nothing: its own status says why", keeper)
	}
	q.take(res.GetEntry(), res.GetScarce() && !wants || q.leaving.Load())
	return nil
}

// hinder notes what keeps pages from being granted, nil for nothing.
func (q *Shares) hinder(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if why == nil || q.hindrance == nil {
		q.since, q.told = time.Now(), false
	}
	q.hindrance = why
}

// tell tells the operator of a hindrance that has lasted, if this node wants pages.
func (q *Shares) tell(wants bool) {
	q.mu.Lock()
	why := q.hindrance
	now := wants && why != nil && !q.told && time.Since(q.since) >= toldAfter
	q.told = q.told || now
	q.mu.Unlock()
	if now {
		q.deps.Warn(fmt.Errorf("crawl.%s cannot be shared among the nodes: %w", q.limits.first(), why))
	}
}

// Why returns what has kept pages from being granted for some time, as far as this node knows, or "".
func (q *Shares) Why() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hindrance == nil || time.Since(q.since) < shownAfter {
		return ""
	}
	return q.hindrance.Error()
}

// take takes what the keeper knows of this node, and so its grant. With back it gives back the pages that this node does not need.
func (q *Shares) take(e *wire.QuotaEntry, back bool) {
	var unused uint64
	if back {
		unused = uint64(q.deps.Meter.Withdraw())
	}
	q.mu.Lock()
	changed := unused > 0 || e.GetGranted() > q.mine.GetGranted()
	q.written = q.written && !changed
	if changed || e.GetGivenBack() < q.mine.GetGivenBack() || !q.leaving.Load() {
		q.still = 0
	} else if q.still++; q.still >= leaveAfter {
		q.left.Ring()
	}
	q.mine.Granted = max(e.GetGranted(), q.mine.GetGranted())
	q.recallLocked(e)
	q.mine.GivenBack += unused
	q.heard = true
	q.mu.Unlock()
	q.use()
}

// leaveAfter is for how many rounds a node that leaves must hear nothing new. A grant that was under way may come a round or two later.
const leaveAfter = 3

// Leave gives back the pages that this node may request, for it will not. It returns when the book has that, or when ctx ends.
func (q *Shares) Leave(ctx context.Context) {
	if q.limits.MaxPages == 0 {
		return
	}
	q.leaving.Store(true)
	select {
	case <-q.left:
	case <-ctx.Done():
	}
}

// recallLocked counts what the keeper knows of earlier lives of this node and its disk does not, which may be an older copy. A life that has
// asked for more pages than the disk says, or has crashed, may have asked for all that were granted to it.
func (q *Shares) recallLocked(e *wire.QuotaEntry) {
	if q.crashed && !q.heard || e.GetDone() > q.mine.GetDone() || e.GetGivenBack() > q.mine.GetGivenBack() {
		q.mine.GivenBack = max(q.mine.GetGivenBack(), e.GetGivenBack())
		q.earlier.Done = max(q.earlier.GetDone(), q.mine.GetGranted()-q.mine.GetGivenBack())
	}
	if more := e.GetBytes(); more > q.mine.GetBytes() {
		q.earlier.Bytes += more - q.mine.GetBytes()
		q.mine.Bytes = more
	}
	if more := e.GetElapsedMs(); more > q.mine.GetElapsedMs() {
		q.earlier.ElapsedMs += more - q.mine.GetElapsedMs()
		q.mine.ElapsedMs = more
	}
}

// use tells the crawl loop how many pages it may request, once that is on disk.
func (q *Shares) use() {
	if !q.heard || q.written || q.keepMine(false) != nil {
		return
	}
	q.written = true
	q.mu.Lock()
	n := int64(q.mine.GetGranted()) - int64(q.mine.GetGivenBack()) - int64(q.earlier.GetDone())
	q.mu.Unlock()
	if q.limits.MaxPages > 0 {
		q.deps.Meter.Allow(max(n, 0))
	}
}

// Quota answers a keeper's request or another node's report. It implements the peer call of that name.
func (q *Shares) Quota(_ context.Context, from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	if q.limits.differ(req.GetLimits()) {
		why := fmt.Errorf("%s has other limits than this node: all nodes must have the same crawl.max_pages, max_bytes and max_time", from)
		if q.limits.first() == "" {
			q.hinder(why) // if it is drawn to keep the book, it does not
		}
		q.differs.Do(func() { q.deps.Warn(why) })
	}
	if req.GetEpoch() == 0 {
		return q.reported(from, req)
	}
	return q.agree(req.GetEpoch(), req.GetBook())
}

// agree makes this node ignore keepers of epochs before the given one. With a book it stores that of the keeper of this epoch, which it has not
// promised to ignore; without one it refuses an epoch that it has promised already. What it agrees to is on disk when it returns.
func (q *Shares) agree(epoch uint64, book *wire.QuotaBook) (*wire.QuotaResponse, error) {
	q.writing.Lock()
	defer q.writing.Unlock()
	q.mu.Lock()
	promised, had := q.promised, q.book
	ok := epoch > promised
	if book != nil {
		ok = epoch >= promised && newer(book, had)
	}
	if ok {
		q.promised, q.book = epoch, cmp.Or(book, had)
	}
	res := &wire.QuotaResponse{Ok: ok, Epoch: q.promised, Book: q.book}
	q.mu.Unlock()
	if !ok {
		return res, nil
	}
	if err := q.keepBook(); err != nil {
		q.mu.Lock()
		q.promised, q.book = promised, had
		q.mu.Unlock()
		return nil, err
	}
	// A limit that is reached only by the configuration of the keeper, as when it was raised meanwhile at others, ends the keeper alone.
	if limit := book.GetReached(); limit != "" && (q.limits.first() == "" || (&keeper{entries: entries(book)}).reached(q.limits, view.View{}) != "") {
		q.reach(limit)
	}
	return res, nil
}

// reach ends the crawl at this node.
func (q *Shares) reach(limit string) { q.over.Do(func() { q.deps.Meter.End(limit) }) }

// entry returns a copy of this node's entry.
func (q *Shares) entry() *wire.QuotaEntry {
	q.mu.Lock()
	defer q.mu.Unlock()
	return proto.CloneOf(q.mine)
}
