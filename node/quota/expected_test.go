package quota

import (
	"context"
	"testing"

	"proxima/node/view"
	"proxima/node/wire"
)

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
