package quota

import (
	"errors"
	"testing"

	"proxima/node/wire"
)

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
