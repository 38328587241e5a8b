package frontier

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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

// While others fill the disk to its end, nothing is written or acknowledged, and the node lives. With room all goes on.
func TestDiskAllButFull(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, free := filling(t, Deps{})
			l.placing(addr1)
			l.add(page("http://h1.test", 1), page("http://h1.test", 2))
			task := l.taking(time.Minute)
			free.Store(25<<20 - 1)
			time.Sleep(time.Second)
			answers := make(chan error, 3)
			go func() {
				_, err := l.Finish(context.Background(), task, Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}})
				answers <- err
			}()
			go func() { answers <- l.Shelf('t').Put([]byte("k"), []byte("v")) }()
			go func() { answers <- l.SetRole(context.Background(), "http://h2.test", Replica) }()
			time.Sleep(time.Hour)
			if len(answers) > 0 {
				t.Fatalf("written to a full disk: %v", <-answers)
			}
			if l.Status().Paused == "" {
				t.Error("the status does not say that the disk is full")
			}
			if ends {
				l.Stopping()
			} else {
				free.Store(25 << 20)
			}
			for range cap(answers) {
				if err := <-answers; ends != errors.Is(err, ErrDiskFull) || !ends && err != nil {
					t.Errorf("ends %v: %v", ends, err)
				}
			}
			if !ends {
				free.Store(1 << 40)
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
	for what, end := range map[string]func(l *life) error{
		"page": func(l *life) error {
			_, err := l.Finish(context.Background(), l.taking(time.Minute), Outcome{Ending: Done, Asked: true})
			return err
		},
		"lost host": func(l *life) error {
			u, err := l.Resolve(context.Background())
			if err == nil {
				_, err = l.Lost(context.Background(), u, "no such name", false, true)
			}
			return err
		},
		"refused host": func(l *life) error {
			u, err := l.Resolve(context.Background())
			if err == nil {
				_, err = l.Refuse(context.Background(), u, "private address", true)
			}
			return err
		},
		"remote fetch": func(l *life) error {
			_, err := l.Finish(context.Background(), l.taking(time.Minute), Outcome{Ending: Done, Receipt: &Receipt{Shelf: l.Shelf('r'), Key: []byte("k")}})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.RemoteFetches = 10
			l := begin(t, "", cfg, polite, Deps{})
			switch what {
			case "page":
				l.placing(addr1)
				l.add(page("http://h1.test", 1))
				l.finish(l.taking(time.Minute), Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}})
			case "remote fetch":
				l.Enqueue(RemoteFetch{URL: page("http://h1.test", 1).URL, Server: addr1, Origin: Assigned})
			default:
				l.add(page("http://h1.test", 1))
				if err := l.Activate(context.Background(), "http://h1.test"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			l.store.gate.set(true)
			ended := make(chan error, 1)
			go func() { ended <- end(l) }()
			time.Sleep(time.Minute)
			if idle, _ := l.Idle(10 * time.Hour); idle || len(ended) > 0 {
				t.Errorf("%s: idle %t before it is written", what, idle)
			}
			l.store.gate.set(false)
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
	for seq := range uint64(2) {
		w.offer(h, block{&blockRef{seq: seq + 1, n: 1}, make([]entry, 1)}, now)
	}
	h.fill(Discovered, &reading{want: 1, known: 1, blocks: []block{{&blockRef{seq: 1}, make([]entry, 1)}}}) // the reading began when one was known
	if !h.onDisk() {
		t.Error("the block that was written meanwhile is not read any more")
	}
	if h.fill(Discovered, &reading{known: 2}); !h.onDisk() {
		t.Error("nor is it when the window was full meanwhile")
	}
	h.fill(Discovered, &reading{want: 1, known: 2, blocks: []block{{&blockRef{seq: 2}, make([]entry, 1)}}})
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
