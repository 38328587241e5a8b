package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/wire"
)

// Memories are deleted when they are older than is allowed, or damaged; and the oldest if there are too many. A damaged one is not read, and one
// from the future is not old.
func TestSweep(t *testing.T) {
	now := time.Unix(1e9, 0)
	value := func(age time.Duration) string {
		s := new(netsim.Shelf)
		if err := (&memories{shelf: s}).put(server(1), []byte("m"), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
		b, _ := s.Get(memoryKey(server(1)))
		return string(b)
	}
	fresh := value(0)
	for name, c := range map[string]struct {
		value       string
		read, stays bool
		age         time.Duration
	}{
		"as old as allowed": {value(time.Hour), true, true, time.Hour},
		"older":             {value(time.Hour + time.Second), true, false, time.Hour + time.Second},
		"empty":             {fresh[:memoryHead], true, true, 0},
		"cut":               {fresh[:memoryHead-1], false, false, 0},
		"of a later form":   {string(rune(memoryValueVersion+1)) + fresh[1:], false, false, 0},
		"of the future":     {fresh[:1] + strings.Repeat("\xff", memoryHead), true, true, 0},
	} {
		shelf := new(netsim.Shelf)
		m := memories{shelf: shelf}
		write(t, shelf, memoryKey(server(1)), c.value)
		if got, age, err := m.get(server(1), now); (got != nil) != c.read || age != c.age || err != nil {
			t.Errorf("%s: it is %q, %v old, %v", name, got, age, err)
		}
		if err := m.sweep(time.Hour, 1, now); err != nil || (shelf.Len() == 1) != c.stays {
			t.Errorf("%s: it stays: %v, %v", name, shelf.Len() == 1, err)
		}
	}

	shelf := new(netsim.Shelf)
	for i := range 10 {
		write(t, shelf, memoryKey(server(i)), value(time.Duration(10-i)*time.Second))
	}
	write(t, shelf, memoryKey(server(10)), value(time.Hour+time.Second)) // one that is too old takes the place of none
	write(t, shelf, []byte("\x01x"), "of others")
	for _, step := range []string{"Scan", "Delete"} {
		if err := (&memories{shelf: failing(shelf, step)}).sweep(time.Hour, 3, now); !errors.Is(err, errFull) {
			t.Errorf("the disk fails, and the sweep says %v", err)
		}
	}
	shelf.Before = nil
	err := (&memories{shelf: shelf}).sweep(time.Hour, 3, now)
	oldest, _ := shelf.Get(memoryKey(server(7)))
	if err != nil || shelf.Len() != 4 || oldest == nil {
		t.Errorf("%v, %d left", err, shelf.Len())
	}
}

// write writes a value as it is.
func write(t *testing.T, shelf *netsim.Shelf, key []byte, value string) {
	t.Helper()
	if err := shelf.Put(key, []byte(value)); err != nil {
		t.Fatal(err)
	}
}

// A grantor looks for old memories when it begins, and every six hours.
func TestSweepsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := new(netsim.Shelf)
		g := NewGrantor(Default(), GrantorDeps{Clock: NewClock(nil), Shelf: shelf, Trouble: func(err error) { t.Error(err) }})
		for i, ends := range []time.Duration{-time.Hour, 5 * time.Hour} {
			if err := g.memories.put(server(i), []byte{1}, time.Now().Add(ends-30*24*time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Run(ctx) }()
		for _, c := range []struct {
			wait time.Duration
			left int
		}{{time.Second, 1}, {6*time.Hour - 2*time.Second, 1}, {2 * time.Second, 0}} {
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

// A memory goes to its grantor while it is news there, in each renewal until one is answered, and always to another grantor.
func TestMemoryIsSentWhileItIsNews(t *testing.T) {
	h, l := heldBy(t)
	ls, now := h.book, time.Now()
	l.grantor, l.changed = "k", now
	sent := func(grantor string) (item, bool) {
		it := item{addr: server(1), lease: l, wish: wire.Wish_WISH_RENEW}
		return it, len(ls.message(&it, grantor, now).GetMemory()) > 0
	}
	answered := func(it item) {
		ls.given(it, "k", &wire.LeaseAnswer{Grant: wire.Grant_GRANT_GIVEN, ForMs: 60_000}, h.deps.Clock.now(), now)
	}
	_, first := sent("k")
	it, again := sent("k")
	if !first || !again {
		t.Error("news is not sent")
	}
	l.changed = now.Add(time.Second) // while the renewal was under way
	answered(it)
	if it, again = sent("k"); !again {
		t.Error("what came during a renewal is not sent")
	}
	answered(it)
	if _, again := sent("k"); again {
		t.Error("what the grantor knows is sent again")
	}
	if _, other := sent("k2"); !other {
		t.Error("another grantor does not hear it")
	}
}
