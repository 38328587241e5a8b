package frontier

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What peers send needs room as what this node finds: below the watermark it is refused as such, and nothing of it is kept.
func TestImportWithAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.MinFreeMiB = 100
		var free atomic.Uint64
		free.Store(1 << 40)
		l := begin(t, "", cfg, polite, Deps{FreeBytes: func() (uint64, error) { return free.Load(), nil }})
		l.role("http://h1.test", Replica)
		free.Store(99 << 20)
		time.Sleep(time.Second)
		for what, c := range map[string]Chunk{
			"pending URLs": {Pending: []PendingURL{{Path: "/a"}}}, "done URLs": {Done: []uint64{7}},
		} {
			if n, err := l.Import(t.Context(), "http://h1.test", c, Discovered); n != 0 || !errors.Is(err, ErrDiskFull) {
				t.Errorf("%s: %d imported, %v", what, n, err)
			}
		}
		if d := l.digest("http://h1.test"); d != (Digest{}) {
			t.Errorf("the host has %+v", d)
		}
		free.Store(101 << 20)
		time.Sleep(time.Second)
		l.imported("http://h1.test", Chunk{Pending: []PendingURL{{Path: "/a"}}})
	})
}

// While others fill the disk to its end, nothing is written or acknowledged, and the node lives. With room all goes on.
func TestDiskAllButFull(t *testing.T) {
	for _, ends := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.MinFreeMiB = 100
			var free atomic.Uint64
			free.Store(1 << 40)
			l := begin(t, "", cfg, polite, Deps{FreeBytes: func() (uint64, error) { return free.Load(), nil }})
			l.resolving()
			l.add(page("http://h1.test", 1), page("http://h1.test", 2))
			task := l.taking(time.Minute)
			free.Store(24 << 20)
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
				free.Store(1 << 40)
			}
			for range cap(answers) {
				if err := <-answers; ends != errors.Is(err, ErrDiskFull) || !ends && err != nil {
					t.Errorf("ends %v: %v", ends, err)
				}
			}
			if !ends {
				if got := l.work(2); len(got) != 2 {
					t.Errorf("downloaded %v", got)
				}
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
		w.offer(offered{host: h.name, ref: &blockRef{seq: seq + 1, n: 1}, entries: make([]entry, 1)}, now)
	}
	w.fill(h, Discovered, &reading{want: 1, known: 1, blocks: []loadedBlock{{1, make([]entry, 1)}}}) // the reading began when one was known
	if !h.onDisk() {
		t.Error("the block that was written meanwhile is not read any more")
	}
	w.fill(h, Discovered, &reading{want: 1, known: 2, blocks: []loadedBlock{{2, make([]entry, 1)}}})
	if h.onDisk() || h.windowed() != 2 {
		t.Errorf("on disk %v, %d URLs in memory", h.onDisk(), h.windowed())
	}
}
