package quota

import (
	"context"
	"flag"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

var (
	runs = flag.Int("runs", 10, "drawn courses")
	seed = flag.Uint64("seed", 1, "of the first course")
)

// Never more pages than the limit are asked for, whatever dies or is cut off; in the end all nodes end, with all the pages but
// those that nodes had been given when they crashed.
func TestNeverMorePagesThanTheLimit(t *testing.T) {
	for n := range *runs {
		course := *seed + uint64(n)
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w := newWorld(t, course, 3+int(course%4), Limits{MaxPages: []int64{100, 700, 2000, 6000}[course/4%4]})
			w.pace = 1 + 9*int(course/8%2)
			every, often := time.Duration(w.pace)*500*time.Millisecond, []int(nil)
			w.startAll(ctx, 6000)
			kills := 0
			for step := range 100 {
				w.look()
				time.Sleep(every)
				if step < 30 {
					continue // all are there
				}
				w.mu.Lock()
				if step == 30 && course%3 == 0 { // trouble of two kinds is frequent from now on, so that it meets, and messages may be a minute late
					often = []int{1, w.rand.IntN(6), w.rand.IntN(6)}
					every *= time.Duration(1 + w.rand.IntN(4))
					w.loss, w.late, w.lateBy = 4+w.rand.IntN(50), 3+w.rand.IntN(20), lateBy*[]time.Duration{1, 3, 15}[w.rand.IntN(3)]
				}
				at, what := w.rand.IntN(len(w.nodes)), w.rand.IntN(12)
				if len(often) > 0 && w.rand.IntN(3) > 0 {
					what = often[w.rand.IntN(len(often))]
				}
				w.mu.Unlock()
				switch f := w.nodes[at]; {
				case what == 0:
					f.kill()
					kills++
				case what == 1 && f.quota == nil && !f.gone:
					f.start(ctx)
				case what == 2:
					w.mu.Lock()
					w.side[at] = 1 - w.side[at]
					w.mu.Unlock()
				case what == 3:
					w.mu.Lock()
					f.full = !f.full
					w.mu.Unlock()
				case what == 4 && f.backup == nil:
					w.mu.Lock()
					f.backup = maps.Clone(f.disk)
					w.mu.Unlock()
				case what == 4 && w.whole(f):
					f.restore(ctx)
					kills++
				case what == 5 && w.whole(f) && w.begun >= 5 && len(w.nodes) == w.begun: // most must be left in the end
					f.kill()
					f.gone = true
					kills++
					w.join(1)
					w.nodes[w.begun].work = 6000
					w.nodes[w.begun].start(ctx)
				}
			}
			w.mu.Lock()
			w.loss, w.late, w.lateBy = 50, 20, lateBy
			w.mu.Unlock()
			clear(w.side)
			for i, f := range w.nodes {
				w.mu.Lock()
				f.full = false
				w.mu.Unlock()
				if f.quota == nil && !f.gone && (i > 0 || course%2 == 0) { // one may stay away
					f.start(ctx)
				}
			}
			w.pass(600)
			for _, f := range w.nodes {
				if f.quota != nil && f.ended != "max_pages" {
					t.Errorf("course %d: a node has ended by %q, with %d of %d pages", course, f.ended, f.used, f.may)
				}
			}
			// With each crash at most one share is lost.
			if least := w.limits.MaxPages - int64(kills)*maxShare; w.asked < least || kills == 0 && w.asked != w.limits.MaxPages {
				t.Errorf("course %d: %d pages are asked for, after %d crashes", course, w.asked, kills)
			}
			stop()
			time.Sleep(2 * time.Minute) // calls under way
		})
	}
}

// What was granted to a node that crashed counts as done, though its next life ends in order before it has heard of anybody.
func TestCrashBeforeALonelyLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 1, Limits{MaxPages: 6000})
		f := w.nodes[0]
		entry, err := proto.Marshal(&wire.QuotaEntry{Granted: 100, GivenBack: 5, Done: 10})
		if err != nil {
			t.Fatal(err)
		}
		f.disk[keyMine] = append([]byte{form, 0}, entry...)
		f.start(t.Context())
		time.Sleep(5 * time.Second)
		f.stop()
		var mine wire.QuotaEntry
		if err := parse(f.disk[keyMine], 2, &mine); err != nil || f.disk[keyMine][1] != 1 || mine.GetDone() != 95 || f.used > 0 {
			t.Errorf("%v, %v; used %d", &mine, err, f.used)
		}
	})
}

// A node that comes back with an older copy of its disk does not use again what an earlier life was granted.
func TestOlderDisk(t *testing.T) {
	for n := range 6 {
		at, inOrder := n/2, n%2 == 0
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			w.startAll(ctx, 6000)
			w.pass(10)
			f := w.nodes[at]
			if inOrder {
				f.stop()
			}
			f.backup = maps.Clone(f.disk)
			if inOrder {
				f.start(ctx)
			}
			w.pass(15)
			w.mu.Lock()
			w.side[at] = 1
			w.mu.Unlock()
			f.restore(ctx)
			w.pass(3)
			w.mu.Lock()
			if w.side[at] = 0; f.may > 0 {
				t.Errorf("node %d restored, in order %v: it may ask for %d pages before it has heard of them", at, inOrder, f.may)
			}
			w.mu.Unlock()
			w.pass(120)
			res, err := f.quota.agree(0, nil) // it tells the book
			if err != nil {
				t.Fatal(err)
			}
			elapsed, bytes := f.quota.entry().GetElapsedMs(), uint64(0)
			for _, e := range res.GetBook().GetEntries() {
				bytes += e.GetBytes()
			}
			w.mu.Lock()
			for i, f := range w.nodes {
				if f.ended != "max_pages" {
					t.Errorf("node %d restored, in order %v: node %d has ended by %q", at, inOrder, i, f.ended)
				}
			}
			if int64(bytes) < 10*(w.asked-300) || elapsed < 134_500 {
				t.Errorf("node %d restored, in order %v: %d bytes count of %d pages, and %d ms of its time", at, inOrder, bytes, w.asked, elapsed)
			}
			w.mu.Unlock()
		})
	}
}
