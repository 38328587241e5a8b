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
	"proxima/node/wire"
)

// Messages are lost and peers are taken for dead at any time. A peer never downloads a page for longer than its asker was told
// (Result.Lingers).
func TestPeersThatAreCutOffEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(7, 1))
		n := newNetwork()
		luck := rand.New(rand.NewPCG(7, 2)) // for the network
		var dead atomic.Bool
		n.lose = func() (bool, bool) { return dead.Load() || luck.IntN(3) == 0, luck.IntN(3) == 0 }
		a, b := n.add(t, "a", 1), n.add(t, "b", 4)
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
			if end := ends[e.URL.String()]; errors.Is(err, ErrGone) {
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
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 1)
		b.work = func(*Work) (time.Duration, Result) { return 15 * time.Second, page200(15 * time.Second) }
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
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		luck := rand.New(rand.NewPCG(11, 1)) // for the network
		n.lose = func() (bool, bool) { return luck.IntN(3) == 0, luck.IntN(3) == 0 }
		var mu sync.Mutex
		var leased time.Time
		a := n.add(t, "a", 1, func(d *RemoteDeps) {
			d.LeasedUntil = func(netip.Addr) time.Time {
				mu.Lock()
				defer mu.Unlock()
				return leased
			}
		})
		b := n.add(t, "b", 1)
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
			var no *RefusedError
			mu.Lock()
			if errors.As(err, &no) {
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

// A node that was frozen, or whose machine slept, sends no request for another node: the monotonic clock may have stood still, and
// another node may have the server by now.
func TestWorkEndsWithAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 0)
		for range 2 {
			go a.Do(t.Context(), "b", estimateOf(t, fmt.Sprint(time.Now())))
			time.Sleep(time.Second)
		}
		begun, ok := b.Start(<-b.jobs)
		if !ok || begun.MayAsk() != nil {
			t.Fatalf("begun %v: %v", ok, begun.MayAsk())
		}
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
		b.Finished(begun, Result{Ending: frontier.Again, Trouble: frontier.Interrupted})
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "new")); err != nil {
			t.Error(err)
		}
		if w, ok := b.Start(<-b.jobs); ok {
			t.Errorf("%s was given back, and began", w.URL)
		}
	})
}

// Work that is queued or has begun is under way. Work that has ended, was given back, or comes from an earlier life of its asker is
// not.
func TestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		b := n.add(t, "b", 0, func(d *RemoteDeps) {
			d.FromLife = func(_ string, boot uint64, take func()) bool {
				if boot < 2 {
					return false
				}
				take()
				return true
			}
		})
		fetch := func(boot, number uint64) *wire.FetchResponse {
			resp, err := b.Fetch(t.Context(), "a", &wire.FetchRequest{Header: &wire.Header{Boot: boot}, Number: number, Page: encodeFetch(estimateOf(t, "")), WithinMs: 30_000})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		if resp := fetch(1, 1); resp.GetRefused() != "a later life of the node that asks is known" || b.Busy() {
			t.Errorf("a former life is answered %v", resp)
		}
		asked := time.Now()
		want := lease.Remote{Server: serverAddr, Holder: "a", Until: asked.Add(30 * time.Second)}
		underWay := func(what string, there bool) {
			t.Helper()
			if got := b.UnderWay(); len(got) != map[bool]int{true: 1}[there] || there && got[0] != want || b.Busy() != there {
				t.Errorf("%s: under way are %v, busy: %v", what, got, b.Busy())
			}
		}
		if resp := fetch(2, 1); resp.GetRefused() != "" || resp.GetResult() != nil || time.Since(asked) != b.call()/2 {
			t.Errorf("answered %v after %v", resp, time.Since(asked))
		}
		underWay("queued", true)
		w, ok := b.Start(<-b.jobs)
		if underWay("begun", true); !ok {
			t.Fatal("it cannot begin")
		}
		if _, again := b.Start(w); again {
			t.Error("it began twice")
		}
		b.Finished(w, page200(time.Second))
		underWay("ended", false)
		if resp := fetch(2, 1); resp.GetResult().GetStatus() != 200 || len(b.jobs) > 0 {
			t.Errorf("asked once more: %v", resp)
		}
		fetch(2, 2)
		fetch(3, 2) // by the next life of its asker: this is another one
		if len(b.jobs) != 2 {
			t.Errorf("%d are queued, want 2", len(b.jobs))
		}
		b.SetAlive([]string{"c"})
		underWay("who asked is gone", false)
		time.Sleep(2 * time.Minute)
		b.Remote.mu.Lock()
		defer b.Remote.mu.Unlock()
		if len(b.Remote.work) > 0 {
			t.Errorf("%d are remembered", len(b.Remote.work))
		}
	})
}

// A node that counts as alive but answers nothing costs one batch a wait, and is left out of others for five minutes.
func TestSilentNodeIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.do = func(_ context.Context, node string, _ RemoteFetch) (Result, error, bool) {
			if node != "n1" {
				return Result{}, nil, false
			}
			time.Sleep(RemoteWait)
			return Result{}, fmt.Errorf("ask n1: %w", ErrUnanswered), true
		}
		asks := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range w.asked {
				if r.node == "n1" {
					n++
				}
			}
			return n
		}
		_, stop := w.start(cycle())
		defer stop()
		for i, step := range []struct{ after, within time.Duration }{{0, 2 * RemoteWait}, {0, 30 * time.Second}, {silentFor, 2 * RemoteWait}} {
			time.Sleep(step.after)
			h, before := w.addHost(fmt.Sprintf("http://h%d.example", i), addrOf(1+4*i), 50), asks() // n1 is the nearest
			time.Sleep(step.within)
			w.mu.Lock()
			if h.owner == "n1" || h.owner == w.self {
				t.Errorf("host %d is at %s after %v", i, h.owner, step.within)
			}
			w.mu.Unlock()
			if asked, want := asks()-before, 1-i%2; asked != want {
				t.Errorf("host %d: n1 was asked %d times, not %d", i, asked, want)
			}
		}
	})
}
