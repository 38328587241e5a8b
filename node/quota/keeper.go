package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"proxima/node/view"
	"proxima/node/wire"
)

// keeper is the state of the node that keeps the book. Shares.mu guards it. A keeper begins with the newest book of all nodes,
// after they have promised to ignore keepers of earlier epochs. Since two majorities share a node, that book has every grant
// that counts.
type keeper struct {
	epoch uint64
	// entries are the book's, updated with later reports. stored is the last book that all nodes have stored.
	entries map[string]*wire.QuotaEntry
	version uint64
	stored  *wire.QuotaBook
	view    uint64 // the version of the view whose members those were, or promised
	// hungry are the nodes that want pages. given is how many pages each had done at its last grant.
	hungry map[string]bool
	given  map[string]uint64
}

// lead runs one round of the keeper: it grants pages, has all nodes store the book, and ends the crawl if a limit is reached. Its error is what
// hinders that.
func (q *Shares) lead(ctx context.Context, v view.View, wants bool) (err error) {
	q.mu.Lock()
	k := q.keeper
	q.mu.Unlock()
	if !v.Majority {
		q.leaveBook()
		return errors.New("this node does not see a majority")
	}
	if k == nil || k.stored == nil && k.view != v.Version { // whoever has come since may have a book
		if k, err = q.takeOver(ctx, v); err != nil {
			q.leaveBook()
			return err
		}
	}
	q.mu.Lock()
	q.keeper = k
	if k.version == 0 && len(v.Settled) < q.deps.Expected {
		q.mu.Unlock()
		return fmt.Errorf("%d of the %d nodes of termination.expected_nodes are there", len(v.Settled), q.deps.Expected)
	}
	k.report(v.Self, q.mine, wants)
	k.grant(q.limits, v)
	book := &wire.QuotaBook{Epoch: k.epoch, Version: k.version + 1, Reached: k.reached(q.limits, v)}
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		book.Entries = append(book.Entries, proto.CloneOf(k.entries[id]))
	}
	same := k.stored != nil && k.view == v.Version && book.GetReached() == "" && slices.EqualFunc(book.GetEntries(), k.stored.GetEntries(), alike)
	k.version++
	q.mu.Unlock()
	if !same {
		// The others go first: a book that says that a limit is reached ends this node, which could then no longer tell them.
		if _, err = q.all(ctx, v, k.epoch, book); err == nil {
			_, err = agreed(q.agree(k.epoch, book))
		}
		if err != nil {
			q.leaveBook()
			return err
		}
	}
	q.mu.Lock()
	if !same {
		k.stored, k.view = book, v.Version
	}
	own, scarce := k.of(v.Self), k.scarce(q.limits, v)
	q.mu.Unlock()
	q.take(own, scarce && !wants || q.leaving.Load())
	return nil
}

// takeOver returns a new keeper if all live nodes promise to ignore earlier ones.
func (q *Shares) takeOver(ctx context.Context, v view.View) (*keeper, error) {
	q.mu.Lock()
	epoch := q.promised + 1
	q.mu.Unlock()
	mine, err := agreed(q.agree(epoch, nil))
	if err != nil {
		return nil, err
	}
	newest, greatest := mine.GetBook(), epoch
	answers, err := q.all(ctx, v, epoch, nil)
	for _, res := range answers {
		if newer(res.GetBook(), newest) {
			newest = res.GetBook()
		}
		greatest = max(greatest, res.GetEpoch())
	}
	if err != nil {
		_, _ = q.agree(greatest, nil) // so that the next attempt has a higher epoch
		return nil, err
	}
	k := &keeper{epoch: epoch, version: newest.GetVersion(), view: v.Version, entries: entries(newest), hungry: map[string]bool{}, given: map[string]uint64{}}
	return k, nil
}

// entries returns copies of those of a book, by node.
func entries(book *wire.QuotaBook) map[string]*wire.QuotaEntry {
	all := map[string]*wire.QuotaEntry{}
	for _, e := range book.GetEntries() {
		all[e.GetOwner()] = proto.CloneOf(e)
	}
	return all
}

// all asks all other live nodes that count or vote at the same time to promise an epoch, or to store a book of it. It returns the answers that
// came, and an error unless each agreed.
func (q *Shares) all(ctx context.Context, v view.View, epoch uint64, book *wire.QuotaBook) ([]*wire.QuotaResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	others := v.Others()
	answers := make([]*wire.QuotaResponse, len(others))
	for i, id := range others {
		if !slices.Contains(v.Settled, id) && !slices.Contains(v.Voting, id) { // a node that is back votes before it counts
			continue
		}
		g.Go(func() (err error) {
			// Each call writes its own head.
			if answers[i], err = agreed(q.deps.Ask(ctx, id, &wire.QuotaRequest{Epoch: epoch, Book: book, Limits: q.limits.wire()})); err != nil {
				return fmt.Errorf("%s must store what is granted, too: %w", id, err)
			}
			return nil
		})
	}
	return answers, g.Wait()
}

// agreed adds the error of an answer that is no.
func agreed(res *wire.QuotaResponse, err error) (*wire.QuotaResponse, error) {
	if err == nil && !res.GetOk() {
		err = errors.New("it follows another keeper")
	}
	return res, err
}

// leaveBook makes this node stop being the keeper.
func (q *Shares) leaveBook() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keeper = nil
}

// reported takes a node's report and answers with its grant.
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
		q.wake.Ring()
	}
	if k.stored == nil {
		return &wire.QuotaResponse{}, nil
	}
	return &wire.QuotaResponse{Ok: true, Entry: k.of(from), Scarce: k.scarce(q.limits, v)}, nil
}

// report updates a node's entry. Its word on what was granted to it is good, for it has that from a keeper. It wants more only if it knows of all that
// was granted: otherwise each of its reports would bring a grant until it has heard of the first, and with a crash all of them would be lost.
func (k *keeper) report(id string, r *wire.QuotaEntry, wants bool) {
	e := k.entries[id]
	if e == nil {
		e = &wire.QuotaEntry{Owner: id}
		k.entries[id] = e
	}
	e.Granted, e.GivenBack = max(e.Granted, r.GetGranted()), max(e.GivenBack, r.GetGivenBack())
	e.Done, e.Bytes = max(e.Done, r.GetDone()), max(e.Bytes, r.GetBytes())
	e.ElapsedMs = max(e.ElapsedMs, r.GetElapsedMs())
	k.hungry[id] = wants && r.GetGranted() >= e.Granted
}

const (
	// maxShare is the most pages that one grant gives; firstShare is a grant to a node that has not used any pages.
	maxShare, firstShare = 1000, 32
)

// grant gives pages to the nodes that want some. Each gets twice what it used since its last grant, so that a crash loses
// little. Together they get at most half of what is left, so that some remains for nodes that find work later.
func (k *keeper) grant(limits Limits, v view.View) {
	hungry := slices.DeleteFunc(slices.Sorted(maps.Keys(k.hungry)), func(id string) bool { return !k.hungry[id] || !v.IsAlive(id) })
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

// out returns how many pages are granted and not given back.
func (k *keeper) out() (sum int64) {
	for _, e := range k.entries {
		sum += int64(e.GetGranted()) - int64(e.GetGivenBack())
	}
	return sum
}

// reached returns the key of the limit that is reached, or "". All that was granted to a node that is not alive counts as done.
func (k *keeper) reached(limits Limits, v view.View) string {
	var pages, bytes, elapsed int64
	for id, e := range k.entries {
		bytes += int64(e.GetBytes())
		elapsed = max(elapsed, e.GetElapsedMs())
		if pages += int64(e.GetDone()); !v.IsAlive(id) {
			pages += max(0, int64(e.GetGranted())-int64(e.GetGivenBack())-int64(e.GetDone()))
		}
	}
	return limits.reached(pages, bytes, time.Duration(elapsed)*time.Millisecond)
}

// of returns a node's entry in the book that all nodes have stored.
func (k *keeper) of(id string) *wire.QuotaEntry {
	for _, e := range k.stored.GetEntries() {
		if e.GetOwner() == id {
			return e
		}
	}
	return &wire.QuotaEntry{}
}

// scarce reports whether live nodes want pages and none are left.
func (k *keeper) scarce(limits Limits, v view.View) bool {
	return k.out() >= limits.MaxPages && slices.ContainsFunc(v.Alive, func(id string) bool { return k.hungry[id] })
}

// newer reports whether book a replaces book b.
func newer(a, b *wire.QuotaBook) bool {
	return cmp.Or(cmp.Compare(a.GetEpoch(), b.GetEpoch()), cmp.Compare(a.GetVersion(), b.GetVersion())) > 0
}

// alike reports whether two entries have the same pages. A change in bytes or time alone does not need a new book.
func alike(a, b *wire.QuotaEntry) bool {
	return a.GetOwner() == b.GetOwner() && a.GetGranted() == b.GetGranted() && a.GetGivenBack() == b.GetGivenBack() && a.GetDone() == b.GetDone()
}
