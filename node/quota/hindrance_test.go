package quota

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/view"
	"proxima/node/wire"
)

// What keeps pages from being granted is told: at the keeper, which node does not take part; elsewhere, that the keeper does not answer, or waits.
func TestHindrances(t *testing.T) {
	for at := range 3 {
		calmly(t, 3, Limits{MaxPages: 6000}, func(ctx context.Context, t *testing.T, w *world) {
			set := func(mute bool) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.nodes[at].mute = mute
			}
			set(true)
			w.startAll(ctx, 6000)
			w.pass(60)
			for i, f := range w.nodes {
				w.mu.Lock()
				v := f.view
				w.mu.Unlock()
				keeper := v.Drawn("quota")
				want := map[bool]string{true: w.nodes[at].id + " must store", false: keeper + ", which keeps the book, grants nothing"}[f.id == keeper]
				if keeper == w.nodes[at].id { // it hears nobody, but its own calls arrive
					want = map[bool]string{true: "", false: keeper + ", which keeps the book, does not answer"}[f.id == keeper]
				}
				if !strings.Contains(f.quota.Why(), want) || (want == "") != (f.quota.Why() == "") {
					t.Errorf("node %d is mute: node %d says %q, not %q", at, i, f.quota.Why(), want)
				}
				w.mu.Lock()
				if want != "" && (len(f.warned) != 1 || !strings.Contains(f.warned[0], want)) {
					t.Errorf("node %d is mute: node %d warns %q", at, i, f.warned)
				}
				w.mu.Unlock()
			}
			set(false)
			w.pass(30)
			for i, f := range w.nodes {
				why := f.quota.Why()
				w.mu.Lock()
				if why != "" || f.may == 0 {
					t.Errorf("node %d is no longer mute: node %d may ask for %d pages, and says %q", at, i, f.may, why)
				}
				w.mu.Unlock()
			}
		})
	}
}

// A keeper that can write nothing says so.
func TestKeeperWithoutDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		w := newWorld(t, 1, 1, Limits{MaxPages: 100})
		f := w.nodes[0]
		f.full, f.work = true, 100
		f.start(ctx)
		w.pass(60)
		if why := f.quota.Why(); !strings.Contains(why, "its disk is full") {
			t.Errorf("it says %q", why)
		}
		stop()
		time.Sleep(time.Second) // its loops notice
	})
}

// A node that cannot write down what it was granted asks for no more: all of that would be lost if it died.
func TestFullDiskAsksForNoPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		l := &lone{wants: true, full: true, view: view.View{Self: "a", Alive: []string{"a", "b"}, Settled: []string{"b"}, Majority: true}}
		l.answer = func(_ string, req *wire.QuotaRequest) *wire.QuotaResponse {
			if req.GetWants() {
				asked++
			}
			return &wire.QuotaResponse{Ok: true, Entry: &wire.QuotaEntry{Granted: 10}}
		}
		q := l.open(t, Limits{MaxPages: 100}, nil, 0)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- q.Run(ctx) }()
		for _, full := range []bool{true, false} {
			l.with(func() { l.full = full })
			time.Sleep(10 * reportEvery)
			l.with(func() {
				if (asked == 0) != full {
					t.Errorf("its disk is full: %v; it has asked %d times", full, asked)
				}
			})
		}
		stop()
		<-over
	})
}

// The limit was raised at all nodes but one. Whoever keeps the book, that node alone ends at the old limit, and the others go on to the new one.
func TestRaisedLimitHoldsAtThoseThatHaveIt(t *testing.T) {
	for old := range 3 {
		calmly(t, 3, Limits{MaxPages: 600}, func(ctx context.Context, t *testing.T, w *world) {
			w.nodes[old].limits.MaxPages = 300
			w.startAll(ctx, 6000)
			w.pass(60)
			w.mu.Lock()
			ended, keeper := w.nodes[old].ended, w.nodes[old].view.Drawn("quota")
			w.mu.Unlock()
			if keeper == w.nodes[old].id {
				if ended != "max_pages" || w.asked != 300 {
					t.Errorf("the node with the old limit, which keeps the book, ended by %q after %d pages", ended, w.asked)
				}
				w.nodes[old].stop()
				w.pass(60)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.asked != 600 {
				t.Errorf("node %d has the old limit: %d pages are asked for", old, w.asked)
			}
			for i, f := range w.nodes {
				told := strings.Join(f.warned, "; ")
				if i != old && f.ended != "max_pages" || (i == old || f.id == keeper || keeper == w.nodes[old].id) != strings.Contains(told, "has other limits than this node") {
					t.Errorf("node %d has the old limit: node %d ended by %q, and warned %q", old, i, f.ended, told)
				}
			}
		})
	}
}

// A node without any limit tells its operator that others have some. If it were to keep the book, nobody is granted pages, and all say where to look.
func TestNodeWithoutTheLimitOfOthers(t *testing.T) {
	for at := range 3 {
		calmly(t, 3, Limits{MaxPages: 600}, func(ctx context.Context, t *testing.T, w *world) {
			w.nodes[at].limits = Limits{}
			w.startAll(ctx, 100)
			w.pass(60)
			for i, f := range w.nodes {
				w.mu.Lock()
				keeper, warned, may := f.view.Drawn("quota"), f.warned, f.may
				w.mu.Unlock()
				why, want := f.quota.Why(), ""
				switch {
				case i == at:
					want = "has other limits than this node"
				case keeper == w.nodes[at].id:
					want = keeper + ", which keeps the book, grants nothing"
				}
				if !strings.Contains(why, want) || want == "" && (why != "" || may == 0) || len(warned) == 0 && keeper == w.nodes[at].id {
					t.Errorf("node %d has no limit: node %d says %q, warned %q, and may ask for %d pages", at, i, why, warned, may)
				}
			}
		})
	}
}
