package home

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// TestHandOff hands a host on twice: what is pending stays pending, what is done stays done, and politeness and
// robots.txt go with it.
func TestHandOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 95)
		ctx := context.Background()
		var done []identity.URL
		seen := map[string]bool{}
		crawl := func(node, n, robots int) {
			t.Helper()
			for _, task := range w.house(node).crawl(n + robots) {
				if task.Kind == frontier.Robots {
					robots--
					continue
				}
				if seen[task.URL.Path] {
					t.Errorf("%v is downloaded twice", task.URL)
				}
				seen[task.URL.Path] = true
				done = append(done, task.URL)
			}
			if robots != 0 {
				t.Errorf("at %d robots.txt was asked for %d times too few", node, robots)
			}
		}
		var chunks atomic.Int64
		w.set(func() {
			w.before = func(_, _ string, req proto.Message) error {
				if r, ok := req.(*wire.TransferRequest); ok {
					chunks.Add(1)
					if n := len(r.GetChunk().GetPending()) + len(r.GetChunk().GetDone())/8; n > w.cfg.ChunkURLs {
						t.Errorf("a chunk of %d URLs", n)
					}
				}
				return nil
			}
		})
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		crawl(0, 3, 1)
		from := 0
		for hop, to := range []int{1, 2} {
			last := time.Now() // the last request has just ended
			if err := w.house(from).home.HandOff(ctx, host, w.ids[to], true, "test"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(last); took > 3*time.Second {
				t.Errorf("the hand-off took %v", took)
			}
			r, _, err := w.house(to).home.Record(host)
			if want := (Record{Host: host, Epoch: uint64(2 + hop), Owner: w.ids[to], Assigned: true}); r != want || err != nil {
				t.Errorf("the record is %+v, not %+v", r, want)
			}
			if least := int64(95 / w.cfg.ChunkURLs); chunks.Load() < least {
				t.Errorf("%d chunks, not %d", chunks.Load(), least)
			}
			if body, err := w.house(to).RobotsBody(host); err != nil || !bytes.Equal(body, []byte(robotsText)) {
				t.Errorf("robots.txt is %q, %v", body, err)
			}
			task := w.house(to).crawl(1)[0] // not before the Crawl-delay has passed since the other node's last request
			if task.Kind != frontier.Page {
				t.Fatalf("%v is asked for again", task.URL)
			}
			if gap := time.Since(last); gap < crawlDelay || gap > 2*crawlDelay {
				t.Errorf("asked again after %v", gap)
			}
			if seen[task.URL.Path] {
				t.Errorf("%v is downloaded twice", task.URL)
			}
			seen[task.URL.Path] = true
			done = append(done, task.URL)
			crawl(to, 4, 0)
			if task.Origin != frontier.Assigned {
				t.Errorf("it came as %v", task.Origin)
			}
			from = to
			chunks.Store(0)
			if hop == 0 {
				time.Sleep(3 * time.Second) // backups
				w.is(host, to, digestOf(links, done))
				crawl(to, 1, 0)
			}
		}
		time.Sleep(3 * time.Second)
		w.is(host, 2, digestOf(links, done))
		if n := w.house(1).had(HandedOff); n != 1 {
			t.Errorf("%d events", n)
		}
		// The former owner that keeps no copy has forgotten it, but for who owns it.
		if _, known, err := w.house(1).HoldOf(ctx, host); known || err != nil {
			t.Errorf("what was handed over twice is still there: %v", err)
		}
		crawl(2, len(links)-len(done), 0)
		time.Sleep(3 * time.Second)
		w.is(host, 2, digestOf(links, done))
		if s := w.house(2).Status(); s.Pending != 0 {
			t.Errorf("%d pages are left", s.Pending)
		}
	})
}

// TestOddHandOffs are those that change nothing.
func TestOddHandOffs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		ctx := context.Background()
		host, empty := w.hostOf(0, 1), w.hostOf(1, 0)
		links := pages(host, 0, 25)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		a := w.house(0).home
		if err := a.HandOff(ctx, empty, w.ids[1], true, "unknown"); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a host that nobody knows: %v", err)
		}
		if err := w.house(1).home.HandOff(ctx, host, w.ids[0], true, "not mine"); !errors.Is(err, ErrNotOwner) {
			t.Errorf("a host of another node: %v", err)
		}
		w.believe(func() { w.small[w.ids[0]] = true })
		if err := a.HandOff(ctx, host, w.ids[1], true, "small"); err == nil {
			t.Error("handed over from the smaller side")
		}
		if a.Mine(host) {
			t.Error("a host that must not be crawled now may be assigned")
		}
		w.believe(func() { clear(w.small) })
		time.Sleep(w.cfg.Collect + time.Second)
		if !a.Mine(host) {
			t.Error("the home may not assign its host")
		}
		// To itself: it becomes the assigned owner.
		for range 2 {
			if err := a.HandOff(ctx, host, w.ids[0], true, "to itself"); err != nil {
				t.Error(err)
			}
		}
		if r, _, _ := a.Record(host); !r.Assigned || r.Epoch != 2 || a.Mine(host) {
			t.Errorf("assigned to itself: %+v, mine %v", r, a.Mine(host))
		}
		time.Sleep(5 * time.Second)
		w.is(host, 0, digestOf(links, nil))
		// To nobody: it is crawled here as before.
		if err := a.HandOff(ctx, host, "ffffffffffffffffffffffffffffffff", true, "nobody"); err == nil {
			t.Error("handed to nobody")
		}
		time.Sleep(5 * time.Second)
		w.is(host, 0, digestOf(links, nil))
		if n := w.house(0).had(Aborted); n != 1 {
			t.Errorf("%d events of hand-offs that did not succeed", n)
		}
	})
}

// TestBrokenHandOff lets calls of a hand-off be lost, changed, or refused. Wherever the host ends, it is whole there, is
// crawled by one node, and nothing is in doubt after a while.
func TestBrokenHandOff(t *testing.T) {
	type call struct {
		req *wire.TransferRequest
		res *wire.TransferResponse
	}
	for _, test := range []struct {
		name  string
		owner int // at last
		fails bool
		// before and after see the calls of the hand-off; n counts them.
		before func(n int, req *wire.TransferRequest) error
		after  func(n int, c call) error
	}{
		{name: "the first request is lost", fails: true, before: func(n int, _ *wire.TransferRequest) error {
			if n == 0 {
				return errGone
			}
			return nil
		}},
		{name: "an answer on the way is lost", fails: true, after: func(n int, _ call) error {
			if n == 2 {
				return errGone
			}
			return nil
		}},
		{name: "the commit is lost", fails: true, before: func(_ int, req *wire.TransferRequest) error {
			if req.GetCommit() {
				return errGone
			}
			return nil
		}},
		{name: "the answer to the commit is lost", owner: 1, fails: true, after: func(_ int, c call) error {
			if c.res.GetStep() == wire.Step_STEP_COMMITTED {
				return errGone
			}
			return nil
		}},
		{name: "a URL is lost once", owner: 1, before: func(n int, req *wire.TransferRequest) error {
			if n == 1 {
				req.Chunk.Pending = req.Chunk.Pending[1:]
			}
			return nil
		}},
		{name: "a URL is lost every time", fails: true, before: func(_ int, req *wire.TransferRequest) error {
			if req.GetNumber() == 1 {
				req.Chunk.Pending = req.Chunk.Pending[1:]
			}
			return nil
		}},
		{name: "a chunk is skipped once", owner: 1, before: func(n int, req *wire.TransferRequest) error {
			if n == 2 {
				req.Number++
			}
			return nil
		}},
		{name: "a chunk is malformed", fails: true, before: func(n int, req *wire.TransferRequest) error {
			if n == 2 {
				req.Chunk.Pending[0].Path = "nowhere"
			}
			return nil
		}},
		{name: "the answer says nothing", fails: true, after: func(n int, c call) error {
			if n == 1 {
				c.res.Step = wire.Step_STEP_UNSPECIFIED
			}
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newTown(t, 2, nil)
				host := w.hostOf(0, 1)
				links := pages(host, 0, 60)
				if err := w.house(0).offer(links...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second) // its second copy is made
				var n atomic.Int64
				var over atomic.Bool // the first hand-off alone is disturbed
				w.set(func() {
					w.before = func(_, _ string, req proto.Message) error {
						if r, ok := req.(*wire.TransferRequest); ok && test.before != nil && !over.Load() {
							return test.before(int(n.Add(1)-1), r)
						}
						return nil
					}
					w.after = func(_, _ string, req, res proto.Message) error {
						if r, ok := res.(*wire.TransferResponse); ok && test.after != nil && !over.Load() {
							return test.after(int(n.Add(1)-1), call{req.(*wire.TransferRequest), r})
						}
						return nil
					}
				})
				err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test")
				over.Store(true)
				if (err != nil) != test.fails {
					t.Errorf("the hand-off: %v", err)
				}
				if n.Load() == 0 {
					t.Error("nothing was disturbed")
				}
				// Links that come meanwhile, at both ends.
				more := pages(host, 60, 64)
				for i, l := range more {
					if err := w.house(i % 2).offer(l); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(40 * time.Second)
				w.house(1).hurry() // what came in part is forgotten
				time.Sleep(w.cfg.SweepEvery + 10*time.Second)
				w.is(host, test.owner, digestOf(append(links, more...), nil))
				if got := w.house(test.owner).crawl(2); got[1].Kind != frontier.Page {
					t.Errorf("%v is crawled", got[1].URL)
				}
			})
		})
	}
}

// TestNobodyCrawlsInDoubt asserts that a host whose commit is in doubt is crawled nowhere before it is settled.
func TestNobodyCrawlsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		if err := w.house(0).offer(pages(host, 0, 30)...); err != nil {
			t.Fatal(err)
		}
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		var cut atomic.Bool // 1 hands it to 2, and neither is answered any more
		cut.Store(true)
		w.set(func() {
			w.before = func(from, _ string, req proto.Message) error {
				if _, ok := req.(*wire.TransferRequest); cut.Load() && !ok && from != w.ids[0] {
					return errGone
				}
				return nil
			}
			w.after = func(_, _ string, _, res proto.Message) error {
				if r, ok := res.(*wire.TransferResponse); ok && cut.Load() && r.GetStep() == wire.Step_STEP_COMMITTED {
					return errGone
				}
				return nil
			}
		})
		if err := w.house(1).home.HandOff(context.Background(), host, w.ids[2], true, "test"); err == nil {
			t.Fatal("a hand-off without an answer succeeded")
		}
		for range 10 {
			if n := w.crawlers(host); n > 0 {
				t.Fatalf("it is crawled at %d nodes", n)
			}
			time.Sleep(time.Second)
		}
		cut.Store(false)
		time.Sleep(time.Minute)
		owners := 0
		for i := range w.ids {
			if w.house(i).home.Wait(host) == "" {
				owners++
				w.is(host, i, digestOf(pages(host, 0, 30), nil))
			}
		}
		if owners != 1 {
			t.Errorf("%d owners", owners)
		}
	})
}

// TestSlowArrival lets a disk take its time while a host arrives: what has arrived is not taken for what was given up.
func TestSlowArrival(t *testing.T) {
	for _, test := range []struct {
		wait  time.Duration
		chunk int
		again bool // it has to begin anew
	}{{5 * time.Second, 1000, false}, {5 * time.Second, 10, false}, {testConfig().TakeAfter + time.Minute, 1000, false}, {testConfig().TakeAfter + time.Minute, 10, true}} {
		wait, chunk := test.wait, test.chunk
		synctest.Test(t, func(t *testing.T) {
			w := newTown(t, 2, func(c *Config) { c.ChunkURLs = chunk })
			host := w.hostOf(0, 1)
			links := pages(host, 0, 20)
			if err := w.house(0).offer(links...); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			var begun atomic.Int64
			w.set(func() {
				w.before = func(_, _ string, req proto.Message) error {
					if r, ok := req.(*wire.TransferRequest); ok && r.GetNumber() == 0 {
						begun.Add(1)
					}
					return nil
				}
			})
			var slowed atomic.Bool
			l := w.house(1).life
			l.mu.Lock()
			l.slow = func(op string) {
				if op == "import" && !slowed.Swap(true) {
					time.Sleep(wait)
				}
			}
			l.mu.Unlock()
			if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
				t.Error(err)
			}
			if (begun.Load() > 1) != test.again {
				t.Errorf("with chunks of %d after %v it began %d times", chunk, wait, begun.Load())
			}
			if !slowed.Load() {
				t.Error("it was not slow")
			}
			time.Sleep(time.Minute)
			w.is(host, 1, digestOf(links, nil))
		})
	}
}
