package lease

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Memories are deleted when they are older than is allowed, or damaged.
func TestSweepOfOldMemories(t *testing.T) {
	now, shelf := time.Unix(1e9, 0), newShelf()
	m := memories{shelf: shelf}
	for i, c := range []struct {
		stored time.Time
		value  func(b []byte) []byte
		stays  bool
	}{
		{now.Add(-time.Hour), bytes.Clone, true},
		{now.Add(-time.Hour - time.Second), bytes.Clone, false},
		{now, func(b []byte) []byte { return b[:memoryHead] }, true},
		{now, func(b []byte) []byte { return b[:memoryHead-1] }, false},
		{now, func(b []byte) []byte { return append([]byte{memoryValueVersion + 1}, b[1:]...) }, false},
	} {
		key := string(memoryKey(server(i)))
		if err := m.put(server(i), []byte("m"), c.stored); err != nil {
			t.Fatal(err)
		}
		shelf.m[key] = string(c.value([]byte(shelf.m[key])))
		if got, _, err := m.get(server(i), now); err != nil || (got != nil) != (c.stays || i == 1) {
			t.Errorf("memory %d is %q, %v", i, got, err)
		}
		if err := m.sweep(time.Hour, 10, now); err != nil {
			t.Error(err)
		}
		if _, stays := shelf.m[key]; stays != c.stays {
			t.Errorf("memory %d stays: %v", i, stays)
		}
	}
	// A memory from the future is not old.
	shelf.m[string(memoryKey(server(9)))] = string(append([]byte{memoryValueVersion}, bytes.Repeat([]byte{255}, memoryHead)...))
	if got, age, err := m.get(server(9), now); len(got) != 1 || age != 0 || err != nil {
		t.Errorf("%q of age %v, %v", got, age, err)
	}
}

// stuckShelf is a Shelf that deletes nothing.
type stuckShelf struct{ *fakeShelf }

func (stuckShelf) Delete([]byte) error { return errFull }

// A disk that fails during a sweep is told.
func TestSweepOnADiskThatFails(t *testing.T) {
	stuck := stuckShelf{newShelf()}
	stuck.m[string(memoryKey(server(1)))] = "rubbish"
	for what, shelf := range map[string]Shelf{"reading": brokenShelf{}, "deleting": stuck} {
		if err := (&memories{shelf: shelf}).sweep(time.Hour, 10, time.Now()); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A grantor looks for old memories every six hours.
func TestSweepsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := newShelf()
		g := NewGrantor(Default(), GrantorDeps{Clock: NewClock(nil), Shelf: shelf, Trouble: func(err error) { t.Error(err) }})
		if err := g.memories.put(server(1), []byte{1}, time.Now().Add(5*time.Hour-30*24*time.Hour)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		for _, c := range []struct {
			wait time.Duration
			left int
		}{{6*time.Hour - time.Second, 1}, {2 * time.Second, 0}} {
			time.Sleep(c.wait)
			shelf.mu.Lock()
			if len(shelf.m) != c.left {
				t.Errorf("%d memories are left, not %d", len(shelf.m), c.left)
			}
			shelf.mu.Unlock()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
