package lease

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
)

// Memories are deleted when they are older than is allowed, or damaged.
func TestSweepOfOldMemories(t *testing.T) {
	now, shelf := time.Unix(1e9, 0), new(netsim.Shelf)
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
		key := memoryKey(server(i))
		if err := m.put(server(i), []byte("m"), c.stored); err != nil {
			t.Fatal(err)
		}
		value, err := shelf.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		write(t, shelf, key, string(c.value(value)))
		if got, _, err := m.get(server(i), now); err != nil || (got != nil) != (c.stays || i == 1) {
			t.Errorf("memory %d is %q, %v", i, got, err)
		}
		if err := m.sweep(time.Hour, 10, now); err != nil {
			t.Error(err)
		}
		if left, err := shelf.Get(key); err != nil || (left != nil) != c.stays {
			t.Errorf("memory %d stays: %q, %v", i, left, err)
		}
	}
	// A memory from the future is not old.
	write(t, shelf, memoryKey(server(9)), string(append([]byte{memoryValueVersion}, bytes.Repeat([]byte{255}, memoryHead)...)))
	if got, age, err := m.get(server(9), now); len(got) != 1 || age != 0 || err != nil {
		t.Errorf("%q of age %v, %v", got, age, err)
	}
}

// A disk that fails during a sweep is told.
func TestSweepOnADiskThatFails(t *testing.T) {
	for _, step := range []string{"Scan", "Delete"} {
		shelf := new(netsim.Shelf)
		write(t, shelf, memoryKey(server(1)), "rubbish")
		if err := (&memories{shelf: failing(shelf, step)}).sweep(time.Hour, 10, time.Now()); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", step, err)
		}
	}
}

// write writes a value as it is.
func write(t *testing.T, shelf *netsim.Shelf, key []byte, value string) {
	t.Helper()
	if err := shelf.Put(key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// A grantor looks for old memories every six hours.
func TestSweepsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := new(netsim.Shelf)
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
			if n := shelf.Len(); n != c.left {
				t.Errorf("%d memories are left, not %d", n, c.left)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
