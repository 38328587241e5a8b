package frontier

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// filling begins a frontier on a disk of which free bytes are free. Its watermark is at 100 MiB.
func filling(t *testing.T, deps Deps) (l *life, free *atomic.Uint64) {
	cfg, polite := testConfig()
	cfg.MinFreeMiB = 100
	free = new(atomic.Uint64)
	free.Store(1 << 40)
	deps.FreeBytes = func() (uint64, error) { return free.Load(), nil }
	return begin(t, "", cfg, polite, deps), free
}

// Without a watermark the store still has the room that it needs, since it would end the process: nothing is accepted or taken below that.
func TestDiskWithoutWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := new(atomic.Uint64)
		free.Store(1 << 40)
		cfg, polite := testConfig()
		l := begin(t, "", cfg, polite, Deps{FreeBytes: func() (uint64, error) { return free.Load(), nil }})
		l.placing(addr1)
		l.add(page("http://h1.test", 1))
		free.Store(0)
		time.Sleep(time.Second)
		if _, err := l.Add(t.Context(), pages("http://h1.test", 2, 1)); !errors.Is(err, ErrDiskFull) || l.Writable() {
			t.Errorf("add with a full disk: %v, writable: %t", err, l.Writable())
		}
		if task := l.taking(time.Minute); task != nil {
			t.Errorf("took %s with a full disk", task.URL)
		}
		free.Store(1 << 40)
		if l.taking(time.Minute) == nil {
			t.Error("nothing is taken when there is room again")
		}
	})
}

// While others fill the disk to its end, nothing is written or acknowledged, and the node lives. With room all goes on.
func TestDiskAllButFull(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			l, free := filling(t, Deps{})
			l.placing(addr1)
			l.add(pages("http://h1.test", 1, 2)...)
			task := l.taking(time.Minute)
			free.Store(25<<20 - 1)
			time.Sleep(time.Second)
			if err := l.Shelf('t').Impatient().Put([]byte("k"), []byte("u")); !errors.Is(err, ErrDiskFull) {
				t.Errorf("an impatient write: %v", err)
			}
			answers := make(chan error, 3)
			robots := Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}}
			go func() { answers <- second(l.Finish(ctx, task, robots)) }()
			go func() { answers <- l.Shelf('t').Put([]byte("k"), []byte("v")) }()
			go func() { answers <- l.SetRole(ctx, "http://h2.test", Replica) }()
			time.Sleep(time.Hour)
			if len(answers) > 0 || l.Status().Paused == "" {
				t.Fatalf("%d writes to a full disk; paused: %q", len(answers), l.Status().Paused)
			}
			want := error(nil)
			if stops {
				want = ErrDiskFull
				l.Stopping()
			} else {
				free.Store(25 << 20)
			}
			for range cap(answers) {
				if err := <-answers; !errors.Is(err, want) {
					t.Errorf("stops %v: %v", stops, err)
				}
			}
			if free.Store(1 << 40); !stops {
				if got := l.work(2); len(got) != 2 {
					t.Errorf("downloaded %v", got)
				}
			}
		})
	}
}

// Nothing is accepted or given out before the first look at the disk, however long it takes.
func TestFirstLookAtTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, looks := time.Now(), 0
		cfg, polite := testConfig()
		cfg.MinFreeMiB = 1
		l := begin(t, "", cfg, polite, Deps{FreeBytes: func() (uint64, error) {
			if looks++; looks > 1 {
				return 1 << 40, nil
			}
			time.Sleep(time.Second)
			return 0, nil
		}})
		l.placing(addr1)
		l.add(page("http://h1.test", 1))
		if l.taking(time.Minute) == nil || time.Since(began) < time.Second+diskInterval {
			t.Errorf("a task is given out after %v, before room was seen", time.Since(began))
		}
	})
}

// A frontier that is stopped while a host that comes in waits for room on the disk ends without an error.
func TestStopWhileTheDiskIsAllButFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fill := func() {}
		l, free := filling(t, Deps{Blocked: func(string) string { fill(); return "blocked" }})
		l.add(page("http://h1.test", 1))
		fill = func() {
			free.Store(0) // just now
			time.Sleep(time.Second)
		}
		if task := l.taking(time.Hour); task != nil {
			t.Errorf("took %s", task.URL)
		}
	})
}

// The crawl is not over while the last of it has ended, but not on disk: a page, a host that is lost or refused, another node's page.
func TestNotIdleBeforeItIsWritten(t *testing.T) {
	const host = "http://h1.test"
	ctx := context.Background()
	for what, begin := range map[string]func(l *life) (end func() error){
		"page": func(l *life) func() error {
			l.Place(l.unplaced(host), []netip.Addr{addr1}, time.Hour, 0)
			l.finish(l.taking(time.Minute), Outcome{}) // robots.txt
			task := l.taking(time.Minute)
			return func() error { return second(l.Finish(ctx, task, Outcome{Asked: true})) }
		},
		"lost host": func(l *life) func() error {
			u := l.unplaced(host)
			return func() error { return l.Lost(ctx, u, "no such name", false, true) }
		},
		"refused host": func(l *life) func() error {
			u := l.unplaced(host)
			return func() error { return l.Refuse(ctx, u, "private address", true) }
		},
		"remote fetch": func(l *life) func() error {
			l.Enqueue(RemoteFetch{URL: page(host, 1).URL, Server: addr1, Origin: Assigned})
			task := l.taking(time.Minute)
			return func() error {
				return second(l.Finish(ctx, task, Outcome{Receipt: &Receipt{Shelf: l.Shelf('r'), Key: []byte("k")}}))
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(t)(testConfig())
			end := begin(l)
			time.Sleep(time.Minute)
			l.store.gate.shut.Store(true)
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			time.Sleep(time.Minute)
			if idle := l.Idle(10 * time.Hour); idle || len(ended) > 0 {
				t.Errorf("%s: idle %t before it is written", what, idle)
			}
			l.store.gate.shut.Store(false)
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
}

// A block that is written while those before it are read is read next: nothing but the disk has it.
func TestBlockWrittenWhileOthersAreRead(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	cfg, polite := testConfig()
	w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
	h := w.enter("http://h1.test")
	of := func(seq uint64) block { return block{&blockRef{seq: seq, n: 1}, make([]entry, 1)} }
	w.offer(h, of(1), now)
	h.more[Discovered] = false // the reading begins
	w.offer(h, of(2), now)
	h.fill(Discovered, []block{of(1)}, false)
	if !h.onDisk() {
		t.Error("the block that was written meanwhile is not read any more")
	}
	if h.fill(Discovered, nil, false); !h.onDisk() {
		t.Error("nor is it when the window was full meanwhile")
	}
	h.more[Discovered] = false
	h.fill(Discovered, []block{of(2)}, false)
	if h.onDisk() || h.windowed() != 2 {
		t.Errorf("on disk %v, %d URLs in memory", h.onDisk(), h.windowed())
	}
}

// Below the watermark nothing is taken, added or imported, and nothing is lost.
func TestDiskFullPausesAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []EventKind
		l, free := filling(t, Deps{Event: func(e Event) { mu.Lock(); events = append(events, e.Kind); mu.Unlock() }})
		l.placing(addr1)
		l.add(pages("http://h1.test", 1, 2)...)
		l.role("http://h2.test", Replica)
		free.Store(100<<20 - 1)
		time.Sleep(3 * time.Second)
		if _, err := l.Add(t.Context(), pages("http://h1.test", 3, 1)); !errors.Is(err, ErrDiskFull) {
			t.Errorf("add with a full disk: %v", err)
		}
		for what, c := range map[string]Chunk{
			"pending URLs": {Pending: []PendingURL{{Path: "/a"}}}, "done URLs": {Done: []uint64{7}}, "pages": {Pages: []PageRecord{{Path: "/a"}}},
		} {
			if n, err := l.Import(t.Context(), "http://h2.test", c, Discovered); n != 0 || !errors.Is(err, ErrDiskFull) {
				t.Errorf("%s: %d imported, %v", what, n, err)
			}
		}
		l.imported("http://h2.test", Chunk{State: &HostState{}}) // it takes no room
		if d := l.digest("http://h2.test"); d != (Digest{}) {
			t.Errorf("the host has %+v", d)
		}
		if task := l.taking(10 * time.Second); task != nil {
			t.Errorf("took %s with a full disk", task.URL)
		}
		if s := l.Status(); s.Paused == "" || s.Pending != 2 {
			t.Errorf("status %+v", s)
		}
		free.Store(100 << 20)
		time.Sleep(time.Second)
		if l.taking(time.Minute) == nil {
			t.Error("nothing is taken when there is room again")
		}
		l.imported("http://h2.test", Chunk{Pending: []PendingURL{{Path: "/a"}}})
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(events, []EventKind{DiskFull, DiskOK}) {
			t.Errorf("events %v", events)
		}
	})
}

// A disk whose free space wavers around the watermark stops the node once, not at each look.
func TestDiskAtTheWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []EventKind
		l, free := filling(t, Deps{Event: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e.Kind)
		}})
		l.placing(addr1)
		for range 600 {
			free.Store(100<<20 - 1)
			time.Sleep(3 * time.Second)
			free.Store(100 << 20)
			time.Sleep(3 * time.Second)
		}
		time.Sleep(roomFor)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(events, []EventKind{DiskFull, DiskOK}) {
			t.Errorf("%d events in an hour", len(events))
		}
	})
}

// A look at the disk that a signal interrupts is repeated.
func TestInterruptedCallIsRepeated(t *testing.T) {
	for _, want := range []error{nil, errBroken} {
		calls := 0
		err := uninterrupted(func() error {
			if calls++; calls < 3 {
				return unix.EINTR
			}
			return want
		})
		if !errors.Is(err, want) || calls != 3 {
			t.Errorf("%d calls: %v, want %v", calls, err, want)
		}
	}
}

// A disk that answers a write, a sync or the question for free space only after a minute is hung until then.
func TestHungDisk(t *testing.T) {
	for what, call := range map[string]func(f *Frontier) error{
		"write": func(f *Frontier) error {
			return f.store.write(func(txn *tx) { txn.err = txn.Set([]byte("k"), nil) })
		},
		"sync": func(f *Frontier) error {
			f.store.written.Add(1)
			return f.store.sync()
		},
		"free": func(f *Frontier) error { return f.checkDisk() },
	} {
		t.Run(what, func(t *testing.T) {
			var hangs atomic.Bool
			called, answer := make(chan struct{}, 1), make(chan struct{})
			wait := func() {
				if hangs.Load() {
					called <- struct{}{}
					<-answer
				}
			}
			cfg, polite := testConfig()
			cfg.MinFreeMiB = 1
			f, err := Open(t.TempDir(), cfg, polite, Deps{FreeBytes: func() (uint64, error) { wait(); return 1 << 40, nil }})
			must(t, err)
			defer f.store.close() //nolint:errcheck // it is not what is tested
			f.store.fault = func() error { wait(); return nil }
			soon := func() time.Time { return time.Now().Add(hungAfter) }
			if f.store.calls.hung(soon()) {
				t.Error("it is hung before anything is asked")
			}
			done := make(chan error)
			hangs.Store(true)
			go func() { done <- call(f) }()
			<-called
			if now := time.Now(); f.store.calls.hung(now) || !f.store.calls.hung(soon()) {
				t.Errorf("hung at once %v, after a minute %v", f.store.calls.hung(now), f.store.calls.hung(soon()))
			}
			hangs.Store(false)
			close(answer)
			if err := <-done; err != nil || f.store.calls.hung(soon()) {
				t.Errorf("it has answered with %v, and is hung", err)
			}
		})
	}
}
