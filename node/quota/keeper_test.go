package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// What a node was granted while others were down or had just come back is known when it is down itself.
func TestGrantsOutliveTheKeeper(t *testing.T) {
	for first := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 6000)
			w.pass(8)
			a, b, c := w.nodes[first], w.nodes[(first+1)%3], w.nodes[(first+2)%3]
			b.kill()
			c.kill()
			w.pass(40) // a counts alone
			b.start(ctx)
			w.pass(18) // a and b are the majority, and b does not count yet
			a.kill()
			c.start(ctx)
			w.pass(300)
			w.mu.Lock()
			if b.ended != "max_pages" || c.ended != "max_pages" {
				t.Errorf("they have ended by %q and %q", b.ended, c.ended)
			}
			w.mu.Unlock()
		})
	}
}

// A node that was away while pages were granted is told of them when it is back, even if nothing is asked for any more.
func TestWhoComesBackIsTold(t *testing.T) {
	for away := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 100)
			w.pass(15)
			f := w.nodes[away]
			f.stop()
			w.mu.Lock()
			for _, f := range w.nodes {
				f.work = 300
			}
			f.work = 0
			w.mu.Unlock()
			w.pass(40)
			f.start(ctx)
			w.pass(40)
			books := map[string]bool{}
			for _, f := range w.nodes {
				res, err := f.quota.agree(0, nil)
				if err != nil {
					t.Fatal(err)
				}
				books[fmt.Sprint(res.GetBook().GetEntries())] = true
			}
			if len(books) != 1 {
				t.Errorf("node %d was away: %v", away, slices.Collect(maps.Keys(books)))
			}
		})
	}
}

// Nodes that join know what was granted before, even if nothing is granted between then and the time when they are cut off from the others.
func TestNewcomersKnowWhatIsGranted(t *testing.T) {
	for salt := range 8 { // the keeper is one of the first three, or of those that come
		calmly(t, 0, Limits{MaxPages: 100}, func(ctx context.Context, t *testing.T, w *world) {
			w.begun = 3
			come := func(n int, work int64) {
				w.join(n)
				for i, f := range w.nodes[len(w.nodes)-n:] {
					f.id = fmt.Sprintf("%030x%02x", salt, len(w.nodes)-n+i)
				}
				w.nodes[len(w.nodes)-n].work = work
				for _, f := range w.nodes[len(w.nodes)-n:] {
					f.start(ctx)
				}
				w.pass(30)
			}
			come(3, 60)
			come(4, 0)
			w.mu.Lock()
			for i, f := range w.nodes[3:] {
				w.side[3+i], f.work = 1, 100
			}
			w.mu.Unlock()
			w.pass(30)
			w.mu.Lock()
			if w.asked < 70 {
				t.Errorf("the newcomers are a majority, and have asked for %d pages", w.asked-60)
			}
			w.mu.Unlock()
		})
	}
}

// A keeper that has lost its disk goes on with the book of the others, though a node that was expected at the start has died.
func TestErasedKeeperKnowsTheBookOfOthers(t *testing.T) {
	for at := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 6000)
			w.pass(5)
			w.nodes[(at+1)%3].kill()
			w.pass(30)
			erased := w.nodes[at]
			erased.kill()
			clear(erased.disk)
			erased.start(ctx)
			w.pass(200)
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, f := range w.nodes {
				if f.quota != nil && f.ended != "max_pages" {
					t.Errorf("node %d is erased: a node has ended by %q, with %d of %d pages; warned: %v", at, f.ended, f.used, f.may, f.warned)
				}
			}
		})
	}
}

// A keeper that waits for the expected nodes asks once for promises. It asks again when it sees others: they may have a book.
func TestKeeperThatWaitsAsksWhoComes(t *testing.T) {
	l, promises, books := &lone{}, 0, 0
	theirs := &wire.QuotaBook{Epoch: 1, Version: 5, Entries: []*wire.QuotaEntry{{Owner: "b", Granted: 7}}}
	l.answer = func(_ string, req *wire.QuotaRequest) *wire.QuotaResponse {
		if req.GetBook() == nil {
			promises++
		} else if books++; len(req.GetBook().GetEntries()) != 2 {
			t.Errorf("it forgets what was granted: %v", req.GetBook())
		}
		return &wire.QuotaResponse{Ok: true, Book: theirs}
	}
	q := l.open(t, Limits{MaxPages: 10}, nil, 0)
	q.deps.Expected = 2
	see := func(version uint64, ids ...string) error {
		return q.lead(t.Context(), view.View{Self: "a", Version: version, Alive: ids, Settled: ids, Majority: true}, true)
	}
	for range 3 {
		if err := see(1, "a"); err == nil || q.promised != 1 {
			t.Errorf("alone it has asked %d times, and grants pages: %v", q.promised, err)
		}
	}
	if err := see(2, "a", "b"); err != nil || promises != 1 || books != 1 {
		t.Errorf("it has asked %d times and sent %d books: %v", promises, books, err)
	}
}

// Whoever has promised to hear the keeper of an epoch stores no book of an earlier one, nor an older book, and makes no promise
// twice: not after a restart either.
func TestPromisesHold(t *testing.T) {
	disk, full := map[string][]byte{}, error(nil)
	var warned []error
	var q *Shares
	open := func() *Shares {
		s, err := New(Limits{MaxPages: 10}, Deps{Read: func(key string) ([]byte, error) { return disk[key], nil },
			Keep: func(key string, value []byte) error {
				if q.writing.TryLock() {
					t.Error("another promise may be written at the same time, and be lost")
				}
				if full == nil {
					disk[key] = value
				}
				return full
			}, Warn: func(err error) { warned = append(warned, err) }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	q = open()
	for i, step := range []struct {
		epoch, bookEpoch, version uint64 // without a version the promise is asked for
		ok                        bool
	}{
		{5, 0, 0, true}, {5, 0, 0, false}, {4, 0, 0, false},
		{4, 4, 9, false}, {5, 5, 2, true}, {5, 5, 2, false}, {5, 5, 1, false}, {5, 5, 3, true},
		{7, 0, 0, true}, {5, 5, 4, false}, {6, 6, 1, false}, {7, 7, 1, true},
	} {
		req := &wire.QuotaRequest{Epoch: step.epoch}
		if step.version > 0 {
			req.Book = &wire.QuotaBook{Epoch: step.bookEpoch, Version: step.version}
		}
		res, err := q.Quota(t.Context(), "keeper", req)
		if err != nil || res.GetOk() != step.ok {
			t.Errorf("step %d: %v, %v", i, res, err)
		}
		q = open()
	}
	full = errors.New("full")
	for _, req := range []*wire.QuotaRequest{{Epoch: 9}, {Epoch: 7, Book: &wire.QuotaBook{Epoch: 7, Version: 2}}} {
		if res, err := q.Quota(t.Context(), "keeper", req); !errors.Is(err, full) {
			t.Errorf("what is not on disk: %v, %v", res, err)
		}
	}
	if len(warned) != 1 || !errors.Is(warned[0], full) {
		t.Errorf("the operator hears %v", warned)
	}
	res, err := q.Quota(t.Context(), "keeper", &wire.QuotaRequest{Epoch: 7})
	if err != nil || res.GetOk() || res.GetEpoch() != 7 || res.GetBook().GetVersion() != 1 {
		t.Errorf("in the end: %v, %v", res, err)
	}
}

// The pages that a node gives back when it leaves for good are asked for by others, whether it keeps the book or not.
func TestWhoLeavesGivesBack(t *testing.T) {
	for n := range 6 {
		at, wants := n/2, n%2 == 1
		calmly(t, 3, Limits{MaxPages: 2000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 2000)
			w.pass(8)
			f := w.nodes[at]
			w.mu.Lock()
			if !wants {
				f.work = 0
			}
			w.mu.Unlock()
			w.pass(2)
			began := time.Now()
			leaving, late := context.WithTimeout(ctx, time.Minute)
			f.quota.Leave(leaving)
			late()
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
			f.stop()
			w.pass(100)
			w.mu.Lock()
			if w.asked != w.limits.MaxPages {
				t.Errorf("node %d has left, with work %v: %d pages are asked for", at, wants, w.asked)
			}
			w.mu.Unlock()
		})
	}
}
