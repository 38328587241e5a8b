package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/lease"
	"proxima/node/peer"
	"proxima/node/wire"
)

// Messages are lost and peers are taken for dead at any time. A peer never downloads a page for longer than its asker was told
// (Result.Lingers).
func TestPeersThatAreCutOffEndInTime(t *testing.T) {
	inNetwork(t, 4, func(t *testing.T, n *network, a, b *node) {
		rnd := rand.New(rand.NewPCG(7, 1))
		luck := rand.New(rand.NewPCG(7, 2)) // for the network
		var dead atomic.Bool
		n.lose = func() (bool, bool) { return dead.Load() || luck.IntN(3) == 0, luck.IntN(3) == 0 }
		var mu sync.Mutex
		ends := make(map[string]time.Time) // of downloads, by URL
		b.work = func(j *Work) (time.Duration, Result) {
			mu.Lock()
			defer mu.Unlock()
			d := time.Duration(rnd.IntN(int(time.Minute)))
			ends[j.URL.String()] = time.Now().Add(min(d, time.Until(j.Until)))
			return d, page200(d + time.Millisecond)
		}
		cut := 0
		for i := range 300 {
			e := estimateOf(t, fmt.Sprint(i))
			mu.Lock()
			after := time.Duration(rnd.IntN(int(50 * time.Second)))
			mu.Unlock()
			time.AfterFunc(after, func() {
				dead.Store(true)
				a.SetAlive([]string{"a"})
			})
			r, err := a.Do(t.Context(), "b", e)
			told := time.Now().Add(r.Lingers)
			time.Sleep(2 * time.Minute)
			dead.Store(false)
			a.SetAlive([]string{"a", "b"})
			mu.Lock()
			if end := ends[e.URL.String()]; errors.Is(err, errGone) {
				if end.After(told) {
					t.Errorf("%s was downloaded for %v longer than told", e.URL, end.Sub(told))
				} else if end.After(told.Add(-r.Lingers)) {
					cut++
				}
			}
			mu.Unlock()
		}
		if cut < 50 {
			t.Errorf("%d downloads only went on: the test shows little", cut)
		}
	})
}

// A living peer that was taken for dead for a while still delivers its result. Nobody else may ask the server before its download must
// be over, so giving up early would gain nothing.
func TestResultOfAPeerTakenForDead(t *testing.T) {
	inNetwork(t, 1, func(t *testing.T, n *network, a, b *node) {
		b.takes(15 * time.Second)
		var cut atomic.Bool
		n.lose = func() (bool, bool) { return cut.Load(), cut.Load() }
		time.AfterFunc(5*time.Second, func() {
			cut.Store(true)
			a.SetAlive([]string{"a"})
			b.SetAlive([]string{"b"})
		})
		time.AfterFunc(16*time.Second, func() {
			cut.Store(false)
			b.SetAlive([]string{"a", "b"})
			a.SetAlive([]string{"a", "b"})
		})
		r, err := a.Do(t.Context(), "b", estimateOf(t, "page"))
		if err != nil || r.Status != 200 || b.started["http://example.org/page"] != 1 {
			t.Errorf("%+v, %v, downloaded %v", r, err, b.started)
		}
	})
}

// Messages are lost, and the asker cannot renew its short lease. No download goes on when another node may have the server.
func TestDownloadsEndWithTheLease(t *testing.T) {
	inNetwork(t, 1, func(t *testing.T, n *network, a, b *node) {
		luck := rand.New(rand.NewPCG(11, 1)) // for the network
		n.lose = func() (bool, bool) { return luck.IntN(3) == 0, luck.IntN(3) == 0 }
		var mu sync.Mutex
		var leased time.Time
		a.deps.LeasedUntil = func(netip.Addr) time.Time {
			mu.Lock()
			defer mu.Unlock()
			return leased
		}
		rnd := rand.New(rand.NewPCG(11, 2))
		begun, broken := make(map[string]int), 0
		work := func(j *Work) (time.Duration, Result) {
			mu.Lock()
			defer mu.Unlock()
			begun[j.URL.String()]++
			d := time.Duration(rnd.IntN(int(time.Minute)))
			if end := time.Now().Add(min(d, time.Until(j.Until))); end.After(leased) {
				t.Errorf("%s is downloaded for %v longer than its server is leased", j.URL, end.Sub(leased))
			} else if d > time.Until(j.Until) {
				broken++
			}
			return d, page200(d + time.Millisecond)
		}
		a.work, b.work = work, work
		refused := 0
		for i := range 300 {
			e := estimateOf(t, fmt.Sprint(i))
			mu.Lock()
			leased = time.Now().Add(time.Duration(rnd.IntN(int(time.Minute))) - 5*time.Second)
			mu.Unlock()
			to := []string{"a", "b"}[i%2]
			_, err := a.Do(t.Context(), to, e)
			mu.Lock()
			if errors.Is(err, errRefused) {
				refused++
				if begun[e.URL.String()] > 0 {
					t.Errorf("%s was refused, and is downloaded", e.URL)
				}
			}
			mu.Unlock()
			time.Sleep(2 * time.Minute)
		}
		mu.Lock()
		defer mu.Unlock()
		if broken < 50 || refused < 20 || len(begun) < 100 {
			t.Errorf("%d were broken off, %d refused, %d begun: the test shows little", broken, refused, len(begun))
		}
	})
}

// A peer is not to blame for a fetch without an answer if this node was stopped meanwhile, just before its end or earlier.
func TestStoppedNodeBlamesNobody(t *testing.T) {
	for _, after := range []time.Duration{RemoteWait - 1, time.Second} {
		inNetwork(t, 1, func(t *testing.T, n *network, a, _ *node) {
			n.lose = func() (bool, bool) { return true, true }
			time.AfterFunc(after, func() { a.jump.Store(int64(time.Hour)) })
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "")); !errors.Is(err, lease.ErrGap) || errors.Is(err, errUnanswered) {
				t.Errorf("stopped after %v: %v", after, err)
			}
			time.Sleep(2 * time.Second) // the clock has dealt with the gap
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "later")); !errors.Is(err, errUnanswered) {
				t.Errorf("long after: %v", err)
			}
		})
	}
}

// A message that comes so late that nobody waits for it, or before the node has dealt with a gap, begins no download: the time that it leaves
// for that was counted from when it was sent.
func TestMessagesThatComeLate(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
		late, cancel := context.WithCancel(t.Context())
		cancel()
		for what, c := range map[string]struct {
			ctx  context.Context
			jump time.Duration
			want error
		}{"nobody waits": {late, 0, context.Canceled}, "the node slept": {t.Context(), time.Hour, peer.ErrUnavailable}} {
			synctest.Wait() // the clock has looked at this instant already, and would deal with the gap at once
			b.jump.Add(int64(c.jump))
			req := &wire.FetchRequest{Number: 1, Page: encodeFetch(estimateOf(t, "")), WithinMs: 30_000}
			if resp, err := b.Fetch(c.ctx, "a", req); !errors.Is(err, c.want) || len(b.jobs) > 0 {
				t.Errorf("%s: %v, %v, and %d pages are queued", what, resp, err, len(b.jobs))
			}
			time.Sleep(2 * time.Second) // the clock has dealt with the gap
		}
		if b.ask(t, 1, 30*time.Second); len(b.jobs) != 1 {
			t.Error("the same message in time begins nothing")
		}
	})
}

// A node that was frozen, or whose machine slept, sends no request for another node: the monotonic clock may have stood still, and
// another node may have the server by now.
func TestWorkEndsWithAGap(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, a, b *node) {
		for range 2 {
			go a.Do(t.Context(), "b", estimateOf(t, fmt.Sprint(time.Now())))
			time.Sleep(time.Second)
		}
		begun := b.begin(t)
		must(t, begun.MayAsk())
		synctest.Wait()
		b.jump.Store(int64(time.Hour)) // it slept
		for range 2 {
			if err := begun.MayAsk(); !errors.Is(err, lease.ErrGap) && !errors.Is(err, lease.ErrOver) {
				t.Errorf("after a sleep: %v", err)
			}
			time.Sleep(2 * time.Second) // the clock has dealt with the gap
		}
		if _, ok := b.Start(<-b.jobs); ok {
			t.Error("what was asked before a sleep began after it")
		}
		b.Finished(begun, Result{Outcome: frontier.Outcome{Ending: frontier.Again, Trouble: frontier.Interrupted}})
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "new")); err != nil {
			t.Error(err)
		}
		if w, ok := b.Start(<-b.jobs); ok {
			t.Errorf("%s was given back, and began", w.URL)
		}
	})
}
