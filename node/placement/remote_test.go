package placement

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

func TestRemoteFetchThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "bb", 1)
		want := estimateOf(t, "x?y=1")
		var got RemoteFetch
		b.work = func(j *Work) (time.Duration, Result) {
			got = j.RemoteFetch
			if j.From != "a" {
				t.Errorf("asked by %q", j.From)
			}
			r := page200(400 * time.Millisecond)
			r.Timing.TLS, r.RetryAfter = 30*time.Millisecond, 5*time.Second
			return 400 * time.Millisecond, r
		}
		begin := time.Now()
		r, err := a.Do(t.Context(), "bb", want)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the peer got %v, want %v", got, want)
		}
		if r.Status != 200 || !r.HTML || r.Timing.TLS != 30*time.Millisecond || r.Timing.Bytes != 12_345 || r.RetryAfter != 5*time.Second ||
			!r.Timing.Fresh || r.Timing.Total != 400*time.Millisecond {
			t.Errorf("result %+v", r)
		}
		if r.Coord != coordinateOf("bb") {
			t.Errorf("coordinate %v", r.Coord)
		}
		// The request, the download and the answer follow one another without a pause.
		if took := time.Since(begin); took > 600*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

func TestRemoteFetchBySelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, "a", 1)
		a.SetAlive(nil)
		r, err := a.Do(t.Context(), "a", estimateOf(t, ""))
		if err != nil || r.Status != 200 || r.Coord != coordinateOf("a") {
			t.Fatalf("%+v %v", r, err)
		}
		synctest.Wait()
		if a.Busy() {
			t.Error("busy with nothing")
		}
	})
}

func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 1)
		cut := true
		n.lose = func() (bool, bool) { return false, cut }
		begin := time.Now()
		r, err := a.Do(t.Context(), "b", estimateOf(t, "late"))
		if !errors.Is(err, ErrUnanswered) || errors.Is(err, ErrGone) || time.Since(begin) != time.Minute || r.Lingers != 0 {
			t.Fatalf("%+v, %v after %v", r, err, time.Since(begin))
		}
		n.mu.Lock()
		cut = false
		n.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if b.started["http://example.org/late"] != 1 {
			t.Errorf("downloaded %v", b.started)
		}
		if a.Busy() || b.Busy() {
			t.Error("busy with nothing")
		}
	})
}

func TestGivenBackUnmade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 0)
		begin := time.Now()
		r, err := a.Do(t.Context(), "b", estimateOf(t, ""))
		took := time.Since(begin)
		if err != nil || !r.Unmade || r.Asked || r.HTML || r.Ending != frontier.Again || r.Trouble != frontier.Interrupted {
			t.Fatalf("%+v %v", r, err)
		}
		if took < 20*time.Second || took > 21*time.Second {
			t.Errorf("given back after %v", took)
		}
		if _, ok := b.Start(<-b.jobs); ok {
			t.Error("what was given back began all the same")
		}
		if _, ok := b.Start("no job"); ok {
			t.Error("a foreign tag began")
		}
		b.Finished("no job", Result{})
		if b.Busy() {
			t.Error("busy with what was given back")
		}
	})
}

func TestAskThatComesTwiceIsCarriedOutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 1)
		asks := 0
		n.lose = func() (bool, bool) {
			asks++
			return false, asks <= 3 // handled, but the answer is lost
		}
		e := estimateOf(t, "once")
		e.Assigned = true
		b.work = func(*Work) (time.Duration, Result) { return 3 * time.Second, page200(3 * time.Second) }
		if a.Busy() || b.Busy() {
			t.Error("busy with nothing")
		}
		time.AfterFunc(2*time.Second, func() {
			if !a.Busy() || !b.Busy() {
				t.Error("not busy with a remote fetch")
			}
		})
		if _, err := a.Do(t.Context(), "b", e); err != nil {
			t.Fatal(err)
		}
		// A call that comes when the work has ended gets its result again.
		req := &wire.FetchRequest{Number: a.number, Page: encodeFetch(e), WithinMs: 1000}
		if res, err := b.Fetch(t.Context(), "a", req); err != nil || res.GetResult() == nil {
			t.Errorf("%v %v", res, err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if b.started["http://example.org/once"] != 1 || asks != 4 {
			t.Errorf("downloaded %v after %d asks", b.started, asks)
		}
	})
}

func TestDeadPeers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 0)
		var r Result
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err = a.Do(t.Context(), "b", estimateOf(t, ""))
		}()
		for _, alive := range [][]string{{"a"}, {"a", "b"}} { // it was taken for dead for a moment
			time.Sleep(time.Second)
			a.SetAlive(alive)
		}
		time.Sleep(time.Second)
		begin := time.Now()
		a.SetAlive([]string{"a", "c"})
		<-done
		if !errors.Is(err, ErrGone) || !errors.Is(err, ErrUnanswered) || time.Since(begin) != a.back() {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if want := a.wait - a.call() - a.back() - 3*time.Second; r.Lingers != want {
			t.Errorf("it may go on for %v, want %v", r.Lingers, want)
		}
		if r, err := a.Do(t.Context(), "b", estimateOf(t, "")); !errors.Is(err, ErrGone) || r.Lingers != 0 {
			t.Errorf("asked the dead: %v, %v", r.Lingers, err)
		}
		// The other node takes a for dead, so what a asked for is not downloaded.
		b.SetAlive([]string{"b"})
		if _, ok := b.Start(<-b.jobs); ok {
			t.Error("began for the dead")
		}
		if b.Busy() {
			t.Error("busy for the dead")
		}
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a := n.add(t, "a", 1)
		b := n.add(t, "b", 0, func(d *RemoteDeps) {
			d.Check = func(addr netip.Addr) error {
				if addr.IsLoopback() {
					return errors.New("loopback")
				}
				return nil
			}
			d.Blocked = func(u identity.URL, _ netip.Addr) string {
				if u.Name() == "evil.example" {
					return "evil.example"
				}
				return ""
			}
		})
		refused := func(e RemoteFetch) string {
			begin := time.Now()
			res, err := a.Do(t.Context(), "b", e)
			var r *RefusedError
			if !errors.As(err, &r) || r.Peer != "b" || res.Lingers != 0 {
				t.Fatalf("%v: %v, lingers %v", e.URL, err, res.Lingers)
			}
			if took := time.Since(begin); took > time.Second {
				t.Errorf("refused after %v", took)
			}
			return r.Reason
		}
		e := estimateOf(t, "")
		e.Server = netip.MustParseAddr("127.0.0.1")
		// This is a result, so that the asker notes that the peer cannot reach the server. A refusal may be for the moment.
		if r, err := a.Do(t.Context(), "b", e); err != nil || r.Ending != frontier.Again || r.Trouble != frontier.Forbidden || r.Asked ||
			r.Reason != "forbidden address: loopback" || !ownTrouble("a", "b", r) {
			t.Errorf("%+v, %v", r, err)
		}
		e = estimateOf(t, "")
		e.URL = mustURL(t, "http://evil.example/")
		if got := refused(e); got != "blocked: evil.example" {
			t.Error(got)
		}
		e = estimateOf(t, "")
		e.URL = mustURL(t, "http://192.0.2.8/")
		if got := refused(e); got != "malformed: server 192.0.2.7 is not that of 192.0.2.8" {
			t.Error(got)
		}
		b.Remote.mu.Lock()
		b.open += maxOpen
		b.Remote.mu.Unlock()
		if got := refused(estimateOf(t, "")); got != "too many remote fetches" {
			t.Error(got)
		}
		time.Sleep(2 * time.Minute)
	})
}

// An asker may allow a download less time than Wait, and never more. Without any time left it is refused.
func TestTimeOfAFetchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		b := n.add(t, "b", 0)
		wait := b.wait
		for i, c := range []struct{ within, want time.Duration }{
			{wait - time.Second, wait - time.Second}, {wait, wait}, {wait + time.Second, wait}, {time.Hour, wait},
			{0, 0}, {-time.Second, 0},
		} {
			w, why := b.take("a", &wire.FetchRequest{Number: uint64(i), Page: encodeFetch(estimateOf(t, "")), WithinMs: c.within.Milliseconds()})
			if c.want == 0 {
				if w != nil || why.GetRefused() != "it comes too late" {
					t.Errorf("with %v left it is taken, %q", c.within, why.GetRefused())
				}
			} else if w == nil || time.Until(w.Until) != c.want {
				t.Errorf("with %v left: %+v, %v, want %v", c.within, w, why, c.want)
			}
		}
		if len(b.jobs) != 4 {
			t.Errorf("%d are queued, want 4", len(b.jobs))
		}
		time.Sleep(time.Minute)
	})
}

func TestAnswersThatAreLostAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 2)
		cutUntil := time.Now().Add(15 * time.Second)
		n.lose = func() (bool, bool) { return false, time.Now().Before(cutUntil) }
		begin := time.Now()
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "1")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < 15*time.Second || took > 17*time.Second {
			t.Errorf("answered after %v", took)
		}
		n.mu.Lock()
		cutUntil = time.Now().Add(time.Hour)
		n.mu.Unlock()
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "2")); !errors.Is(err, ErrUnanswered) {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		if b.Busy() || len(b.Remote.work) > 0 {
			t.Error("busy with an answer that nobody waits for")
		}
	})
}

// A call waits for a long download, but only so many calls of one peer may wait at once.
func TestAskersWaitInBoundedNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 2*maxHeldPeer)
		b.work = func(*Work) (time.Duration, Result) { return 20 * time.Second, page200(20 * time.Second) }
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "alone")); err != nil || n.calls != 4 {
			t.Errorf("%v after %d messages", err, n.calls)
		}
		var g sync.WaitGroup
		for i := range 2 * maxHeldPeer {
			g.Go(func() {
				if _, err := a.Do(t.Context(), "b", estimateOf(t, fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		b.Remote.mu.Lock()
		if b.holds != maxHeldPeer {
			t.Errorf("%d calls wait", b.holds)
		}
		b.Remote.mu.Unlock()
		g.Wait()
		if b.holds != 0 || len(b.held) != 0 {
			t.Errorf("%d calls wait", b.holds)
		}
	})
}

// A node that stops gives back what it has not begun, and ends its own waits.
func TestStopGivesBackAndEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 0)
		asked, asking := make(chan Result), make(chan error)
		go func() {
			r, err := a.Do(t.Context(), "b", estimateOf(t, ""))
			if err != nil {
				t.Error(err)
			}
			asked <- r
		}()
		go func() {
			_, err := b.Do(context.Background(), "nobody", estimateOf(t, ""))
			asking <- err
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		b.stop()
		if err := <-asking; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if r := <-asked; !r.Unmade || time.Since(begin) > time.Second {
			t.Errorf("%+v after %v", r, time.Since(begin))
		}
		if _, err := b.Do(t.Context(), "a", estimateOf(t, "")); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// Many fetches go through networks that lose none to most of their messages. Downloads are slow and peers are busy. Every Do returns in
// time, no page is downloaded twice or after its asker has stopped waiting, and at the end no node is busy.
func TestNothingIsLostOrMadeTwice(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			n := newNetwork()
			luck := rand.New(rand.NewPCG(seed, 2)) // for the network
			n.lose = func() (bool, bool) { return luck.IntN(6) < int(seed), luck.IntN(6) < int(seed) }
			ids := []string{"a", "b", "c", "d"}
			waits := make(map[string]time.Time) // URL -> until when its asker waits
			var mu sync.Mutex
			for _, id := range ids {
				x := n.add(t, id, 4)
				x.work = func(j *Work) (time.Duration, Result) {
					mu.Lock()
					defer mu.Unlock()
					d := time.Duration(rnd.IntN(int(20*time.Second))) << (3 * rnd.IntN(20) / 19) // one in twenty is very slow
					if end := time.Now().Add(min(d, time.Until(j.Until))); end.After(waits[j.URL.String()]) {
						t.Errorf("seed %d: %s is downloaded until %v after its asker has stopped waiting", seed, j.URL, end.Sub(waits[j.URL.String()]))
					}
					return d, page200(d + time.Millisecond)
				}
			}
			ends := make(map[string]int)
			var g sync.WaitGroup
			for i := range 400 {
				g.Go(func() {
					mu.Lock()
					from, to := ids[rnd.IntN(4)], ids[rnd.IntN(4)]
					pause := time.Duration(rnd.IntN(int(5 * time.Minute)))
					mu.Unlock()
					time.Sleep(pause)
					e := estimateOf(t, fmt.Sprintf("%s/%d", to, i))
					e.Assigned = i%3 == 0
					mu.Lock()
					waits[e.URL.String()] = time.Now().Add(RemoteWait)
					mu.Unlock()
					begin := time.Now()
					r, err := n.nodes[from].Do(t.Context(), to, e)
					if took := time.Since(begin); took > RemoteWait {
						t.Errorf("seed %d: %s took %v", seed, e.URL, took)
					}
					var refused *RefusedError
					mu.Lock()
					defer mu.Unlock()
					switch {
					case errors.As(err, &refused):
						ends["refused"]++
					case errors.Is(err, ErrUnanswered):
						ends["unanswered"]++
					case err != nil:
						t.Error(err)
					case r.Unmade:
						ends["unmade"]++
					default:
						ends["answered"]++
					}
				})
			}
			g.Wait()
			time.Sleep(5 * time.Minute)
			synctest.Wait()
			made := 0
			for id, x := range n.nodes {
				for u, times := range x.started {
					if made++; times != 1 {
						t.Errorf("seed %d: %s was downloaded %d times", seed, u, times)
					}
				}
				if x.Busy() {
					t.Errorf("seed %d: %s is busy at the end", seed, id)
				}
			}
			if ends["answered"] < 150 || ends["answered"] > made {
				t.Errorf("seed %d: %d were made; ends %v", seed, made, ends)
			}
			t.Logf("seed %d: %d made, %v", seed, made, ends)
		})
	}
}

// A node is busy until its fetcher has finished the work, however long that takes. The crawl must not end meanwhile.
func TestBusyRemembersWhatIsHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork()
		a, b := n.add(t, "a", 1), n.add(t, "b", 0)
		if _, err := a.Do(t.Context(), "b", estimateOf(t, "stuck")); err != nil {
			t.Fatal(err)
		}
		go a.Do(t.Context(), "b", estimateOf(t, "slow"))
		<-b.jobs // the one that was given back
		work, ok := b.Start(<-b.jobs)
		if !ok {
			t.Fatal("not begun")
		}
		time.Sleep(3 * time.Minute)
		if !b.Busy() {
			t.Error("not busy with a page that a fetcher has")
		}
		b.Finished(work, page200(time.Second))
		time.Sleep(time.Minute)
		if b.Busy() {
			t.Error("busy with what is finished and answered")
		}
	})
}
