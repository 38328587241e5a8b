package quota

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"proxima/node/view"
	"proxima/node/wire"
)

// keeper is what the node knows that keeps the book; it is used under the lock of Shares. It begins with the newest book of all nodes, after they have promised to hear no keeper of
// an earlier epoch: any grant that counts is in one of them, because two majorities share a node.
type keeper struct {
	epoch uint64
	// entries are the book, with what nodes have reported since it was stored last; stored is what all have of it.
	entries map[string]*wire.QuotaEntry
	version uint64
	stored  *wire.QuotaBook
	// hungry are nodes that want pages; given is what they had done when they were given some last.
	hungry map[string]bool
	given  map[string]uint64
}

// lead is a round of the keeper: it grants, has all store the book, and ends the crawl when a limit is reached.
func (q *Shares) lead(ctx context.Context, v view.View, wants bool) error {
	q.mu.Lock()
	k, known := q.keeper, q.book.GetVersion() > 0
	q.mu.Unlock()
	if !v.Majority || !known && len(v.Settled) < q.deps.Expected {
		q.leaveBook()
		return nil
	}
	if k == nil {
		return q.takeOver(ctx, v)
	}
	q.mu.Lock()
	k.report(v.Self, q.mine, wants)
	k.grant(q.limits, v)
	book := &wire.QuotaBook{Epoch: k.epoch, Version: k.version + 1, Reached: k.reached(q.limits, v)}
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		book.Entries = append(book.Entries, copyOf(k.entries[id]))
	}
	same := k.stored != nil && book.GetReached() == "" && slices.EqualFunc(book.GetEntries(), k.stored.GetEntries(), alike)
	k.version++
	q.mu.Unlock()
	if !same {
		// The others first: this node ends with the book in which the limit is reached, and nobody would tell them.
		if !q.all(ctx, v, func(ctx context.Context, id string) bool {
			res, err := q.deps.Ask(ctx, id, &wire.QuotaRequest{Epoch: k.epoch, Book: book})
			return err == nil && res.GetOk()
		}) {
			q.leaveBook()
			return nil
		}
		if res, err := q.store(ctx, k.epoch, book); err != nil || !res.GetOk() {
			q.leaveBook()
			return err
		}
		q.mu.Lock()
		k.stored = book
		q.mu.Unlock()
	}
	q.mu.Lock()
	granted, scarce := k.of(v.Self).GetGranted(), k.scarce(q.limits, v)
	q.mu.Unlock()
	return q.take(ctx, granted, scarce && !wants)
}

// takeOver makes this node the keeper, if all that are there promise to hear it.
func (q *Shares) takeOver(ctx context.Context, v view.View) error {
	q.mu.Lock()
	epoch := q.promised + 1
	q.mu.Unlock()
	mine, err := q.promise(ctx, epoch)
	if err != nil || !mine.GetOk() {
		return err
	}
	newest, greatest := mine.GetBook(), epoch
	if !q.all(ctx, v, func(ctx context.Context, id string) bool {
		res, err := q.deps.Ask(ctx, id, &wire.QuotaRequest{Epoch: epoch})
		if err != nil {
			return false
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if newer(res.GetBook(), newest) {
			newest = res.GetBook()
		}
		greatest = max(greatest, res.GetEpoch())
		return res.GetOk()
	}) {
		_, err := q.promise(ctx, greatest) // the next try is above it
		return err
	}
	k := &keeper{epoch: epoch, version: newest.GetVersion(), entries: map[string]*wire.QuotaEntry{}, hungry: map[string]bool{}, given: map[string]uint64{}}
	for _, e := range newest.GetEntries() {
		k.entries[e.GetOwner()] = copyOf(e)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keeper = k
	return nil
}

// all asks all other nodes that are there, and says whether it went well with each.
func (q *Shares) all(ctx context.Context, v view.View, ask func(ctx context.Context, id string) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for _, id := range v.Settled {
		if id == v.Self || !v.IsAlive(id) {
			continue
		}
		g.Go(func() error {
			if !ask(ctx, id) {
				return errUnwilling
			}
			return nil
		})
	}
	return g.Wait() == nil
}

var errUnwilling = errors.New("it has not stored or promised")

// leaveBook ends this node's time as the keeper.
func (q *Shares) leaveBook() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keeper = nil
}

// reported answers a report.
func (q *Shares) reported(from string, req *wire.QuotaRequest) (*wire.QuotaResponse, error) {
	v := q.deps.View()
	q.mu.Lock()
	defer q.mu.Unlock()
	k := q.keeper
	if k == nil || req.GetReport() == nil {
		return &wire.QuotaResponse{}, nil
	}
	k.report(from, req.GetReport(), req.GetWants())
	if req.GetWants() {
		select {
		case q.wake <- struct{}{}:
		default:
		}
	}
	if k.stored == nil {
		return &wire.QuotaResponse{}, nil
	}
	return &wire.QuotaResponse{Ok: true, Entry: k.of(from), Scarce: k.scarce(q.limits, v)}, nil
}

// report takes note of what a node has. What it says that was granted to it is true: it was told so by a keeper.
func (k *keeper) report(id string, r *wire.QuotaEntry, wants bool) {
	e := k.entries[id]
	if e == nil {
		e = &wire.QuotaEntry{Owner: id}
		k.entries[id] = e
	}
	e.Granted, e.GivenBack = max(e.Granted, r.GetGranted()), max(e.GivenBack, r.GetGivenBack())
	e.Done, e.Bytes = max(e.Done, r.GetDone()), max(e.Bytes, r.GetBytes())
	e.ElapsedMs = max(e.ElapsedMs, r.GetElapsedMs())
	k.hungry[id] = wants
}

const (
	// maxShare is how many pages a node is given at once, at most, and firstShare one that has used none yet.
	maxShare, firstShare = 1000, 32
)

// grant gives those who want pages some of what is left: twice what they have used lately, so that little is lost with one that crashes,
// and no more than half of it all together, so that some is left for others who will have work.
func (k *keeper) grant(limits Limits, v view.View) {
	var hungry []string
	for _, id := range slices.Sorted(maps.Keys(k.hungry)) {
		if k.hungry[id] && v.IsAlive(id) {
			hungry = append(hungry, id)
		}
	}
	free := limits.MaxPages - k.out()
	most := free / int64(max(1, 2*len(hungry)))
	for _, id := range hungry {
		if free <= 0 {
			return
		}
		e := k.entries[id]
		share := min(int64(e.GetDone()-k.given[id])*2+firstShare, maxShare, max(most, 1))
		free -= share
		e.Granted += uint64(share)
		k.given[id] = e.GetDone()
		delete(k.hungry, id)
	}
}

// out is how many pages nodes may ask for, or have asked for.
func (k *keeper) out() (sum int64) {
	for _, e := range k.entries {
		sum += int64(e.GetGranted()) - int64(e.GetGivenBack())
	}
	return sum
}

// reached is the key of the limit that is reached, "" for none. What was granted to a node that is not there counts as done.
func (k *keeper) reached(limits Limits, v view.View) string {
	var pages, bytes, elapsed int64
	for id, e := range k.entries {
		bytes += int64(e.GetBytes())
		elapsed = max(elapsed, e.GetElapsedMs())
		if pages += int64(e.GetDone()); !v.IsAlive(id) {
			pages += max(0, int64(e.GetGranted())-int64(e.GetGivenBack())-int64(e.GetDone()))
		}
	}
	switch {
	case limits.MaxPages > 0 && pages >= limits.MaxPages:
		return "max_pages"
	case limits.MaxBytes > 0 && bytes >= limits.MaxBytes:
		return "max_bytes"
	case limits.MaxTime > 0 && time.Duration(elapsed)*time.Millisecond >= limits.MaxTime:
		return "max_time"
	}
	return ""
}

// of is what a node has in the book that all have stored.
func (k *keeper) of(id string) *wire.QuotaEntry {
	for _, e := range k.stored.GetEntries() {
		if e.GetOwner() == id {
			return e
		}
	}
	return &wire.QuotaEntry{Owner: id}
}

// scarce says that nodes want pages and none is left.
func (k *keeper) scarce(limits Limits, v view.View) bool {
	return k.out() >= limits.MaxPages && slices.ContainsFunc(v.Alive, func(id string) bool { return k.hungry[id] })
}

// newer says which of two books counts.
func newer(a, b *wire.QuotaBook) bool {
	if a.GetEpoch() != b.GetEpoch() {
		return a.GetEpoch() > b.GetEpoch()
	}
	return a.GetVersion() > b.GetVersion()
}

func copyOf(e *wire.QuotaEntry) *wire.QuotaEntry {
	return proto.Clone(e).(*wire.QuotaEntry) //nolint:forcetypeassert // it is what was cloned
}

// alike says that two entries have the same pages. Bytes and time alone are no reason for a new book.
func alike(a, b *wire.QuotaEntry) bool {
	return a.GetOwner() == b.GetOwner() && a.GetGranted() == b.GetGranted() && a.GetGivenBack() == b.GetGivenBack() && a.GetDone() == b.GetDone()
}
