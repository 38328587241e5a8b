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
	"proxima/node/bell"
	"proxima/node/wire"
)

// A fetch by a peer, or by this node itself, arrives as it was asked for, and so does its result.
func TestRemoteFetchThereAndBack(t *testing.T) {
	for _, to := range []string{"a", "b"} {
		inNetwork(t, 1, func(t *testing.T, n *network, a, _ *node) {
			f, want := estimateOf(t, "x?y=1"), page200(400*time.Millisecond)
			want.Timing.TLS, want.RetryAfter = 30*time.Millisecond, 5*time.Second
			n.nodes[to].work = func(w *Work) (time.Duration, Result) {
				if fmt.Sprint(w.RemoteFetch) != fmt.Sprint(f) || w.From != "a" {
					t.Errorf("%q asked for %v, want %v", w.From, w.RemoteFetch, f)
				}
				return 400 * time.Millisecond, want
			}
			a.SetAlive([]string{"b"})
			begin := time.Now()
			r, err := a.Do(t.Context(), to, f)
			want.Coord = coordinateOf(to)
			if err != nil || fmt.Sprint(r) != fmt.Sprint(want) {
				t.Errorf("%v, %v, want %v", r, err, want)
			}
			// The request, the download and the answer follow one another without a pause.
			if synctest.Wait(); time.Since(begin) > 600*time.Millisecond || a.Busy() {
				t.Errorf("took %v; busy: %v", time.Since(begin), a.Busy())
			}
		})
	}
}

// An answer that is lost is asked for again, for a minute, and the page is downloaded once.
func TestAnswersThatAreLost(t *testing.T) {
	for cut, answered := range map[time.Duration]bool{15 * time.Second: true, time.Hour: false} {
		inNetwork(t, 1, func(t *testing.T, n *network, a, b *node) {
			begin := time.Now()
			n.lose = func() (request, answer bool) { return false, time.Since(begin) < cut }
			r, err := a.Do(t.Context(), "b", estimateOf(t, "page"))
			took := time.Since(begin)
			if answered && (err != nil || took < cut || took > cut+2*time.Second) {
				t.Errorf("cut for %v: %v after %v", cut, err, took)
			}
			if !answered && (!errors.Is(err, errUnanswered) || errors.Is(err, errGone) || took != time.Minute || r.Lingers != 0) {
				t.Errorf("cut for %v: %+v, %v after %v", cut, r, err, took)
			}
			time.Sleep(2 * time.Minute)
			if work, _ := b.remembered(); work > 0 || a.Busy() || b.Busy() || b.started["http://example.org/page"] != 1 {
				t.Errorf("cut for %v: %d are remembered, downloaded %v", cut, work, b.started)
			}
		})
	}
}

// The page is downloaded once, too, if an answer is lost and so are all calls after it, for however long the asker waits.
func TestSilenceAfterALostAnswer(t *testing.T) {
	for _, silence := range []time.Duration{15 * time.Second, 25 * time.Second, 35 * time.Second, 55 * time.Second} {
		inNetwork(t, 1, func(t *testing.T, n *network, a, b *node) {
			begin := time.Now()
			n.lose = func() (request, answer bool) {
				return n.calls > 1 && time.Since(begin) < silence, n.calls == 1
			}
			r, err := a.Do(t.Context(), "b", estimateOf(t, "page"))
			if took := time.Since(begin); err != nil || r.Status != 200 || took > silence+2*time.Second {
				t.Errorf("silence of %v: %+v, %v after %v", silence, r, err, took)
			}
			time.Sleep(time.Minute)
			if work, _ := b.remembered(); work > 0 || b.started["http://example.org/page"] != 1 {
				t.Errorf("silence of %v: %d are remembered, downloaded %v", silence, work, b.started)
			}
		})
	}
}

func TestDeadPeers(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, a, b *node) {
		var r Result
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err = a.Do(t.Context(), "b", estimateOf(t, ""))
		}()
		for _, alive := range [][]string{{"a"}, {"a", "c"}, {"a", "b"}} { // it was taken for dead for a moment
			time.Sleep(time.Second)
			a.SetAlive(alive)
		}
		time.Sleep(time.Second)
		begin := time.Now()
		a.SetAlive([]string{"a", "c"})
		<-done
		if !errors.Is(err, errGone) || !errors.Is(err, errUnanswered) || time.Since(begin) != a.goneFor() {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if want := (Result{Outcome: frontier.Outcome{Lingers: a.wait - a.callFor() - a.goneFor() - 4*time.Second}}); fmt.Sprint(r) != fmt.Sprint(want) {
			t.Errorf("it may go on for %v, want %v", r, want)
		}
		if r, err := a.Do(t.Context(), "b", estimateOf(t, "")); !errors.Is(err, errGone) || r.Lingers != 0 {
			t.Errorf("asked the dead: %v, %v", r.Lingers, err)
		}
		// The other node takes a for dead, so what a asked for is not downloaded.
		b.SetAlive([]string{"b"})
		if _, ok := b.Start(<-b.jobs); ok || b.Busy() {
			t.Errorf("began for the dead: %v; busy: %v", ok, b.Busy())
		}
	})
}

// A call waits for a long download, but only so many calls of one peer may wait at once.
func TestAskersWaitInBoundedNumbers(t *testing.T) {
	inNetwork(t, 2*maxHeldPeer, func(t *testing.T, n *network, a, b *node) {
		b.takes(20 * time.Second)
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
		during, busy := b.holds, a.Busy()
		b.Remote.mu.Unlock()
		g.Wait()
		if during != maxHeldPeer || b.holds != 0 || len(b.held) != 0 || !busy || a.Busy() {
			t.Errorf("%d calls wait, and %d in the end; busy meanwhile: %v", during, b.holds, busy)
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
					mu.Lock()
					defer mu.Unlock()
					switch {
					case errors.Is(err, errRefused):
						ends["refused"]++
					case errors.Is(err, errUnanswered):
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

// answers is a peer that answers two calls after a while without a result, and the third with one.
type answers struct {
	after  time.Duration
	calls  []time.Time
	within []time.Duration // how long the download may take, as each call says
}

func (a *answers) Fetch(ctx context.Context, _ string, req *wire.FetchRequest) (*wire.FetchResponse, error) {
	a.calls, a.within = append(a.calls, time.Now()), append(a.within, time.Duration(req.GetWithinMs())*time.Millisecond)
	if len(a.calls) < 3 {
		return &wire.FetchResponse{}, bell.Sleep(ctx, a.after)
	}
	return &wire.FetchResponse{Result: encodeResult(page200(time.Second))}, nil
}

// A peer that has let this node wait for a quarter of a call is asked again at once. Another one, and one that does not answer for a whole
// call, is asked after a pause.
func TestPausesBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call, quarter = RemoteWait / 6, RemoteWait / 24
		for after, pauses := range map[time.Duration]bool{quarter - 1: true, quarter: false, quarter + 1: false, time.Hour: true} {
			peer := &answers{after: after}
			a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) { d.Fetch = peer.Fetch })
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "")); err != nil || len(peer.calls) != 3 {
				t.Fatalf("%d calls, %v", len(peer.calls), err)
			}
			for i := range 2 {
				if pause := peer.calls[i+1].Sub(peer.calls[i]) - min(after, call); (pause > 0) != pauses || pause > time.Second {
					t.Errorf("an answer after %v: a pause of %v", after, pause)
				}
			}
		}
	})
}

// Each call says how long the download may still take: until a call before this node stops waiting, and as long as the lease of the server
// lasts, which may have been renewed meanwhile.
func TestTimeThatIsLeftForADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const call = RemoteWait / 6 // the message may take that long, too
		for leased, shrinks := range map[time.Duration]bool{time.Hour: true, 25 * time.Second: false} {
			peer := &answers{after: call / 2}
			a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) {
				d.Fetch, d.LeasedUntil = peer.Fetch, func(netip.Addr) time.Time { return time.Now().Add(leased) }
			})
			if _, err := a.Do(t.Context(), "b", estimateOf(t, "")); err != nil {
				t.Error(err)
			}
			for i, within := range peer.within {
				want := min(leased, RemoteWait-call) - call
				if shrinks {
					want -= time.Duration(i) * call / 2
				}
				if within != want {
					t.Errorf("leased for %v: call %d leaves %v, want %v", leased, i, within, want)
				}
			}
		}
	})
}

// Nobody is asked for a page of a server that this node does not hold.
func TestServerThatIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, to := range []string{"a", "b"} {
			peer := &answers{}
			a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) {
				d.Fetch, d.LeasedUntil = peer.Fetch, func(netip.Addr) time.Time { return time.Time{} }
			})
			if _, err := a.Do(t.Context(), to, estimateOf(t, "")); len(peer.calls) > 0 || !errors.Is(err, errRefused) {
				t.Errorf("%s is asked %d times and given %v, %v", to, len(peer.calls), peer.within, err)
			}
		}
	})
}

// A page is asked for if its lease lasts for a millisecond when the message arrives, which may take a call.
func TestLeaseThatIsAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, asked := range map[time.Duration]bool{time.Millisecond - 1: false, time.Millisecond: true} {
			for _, to := range []string{"a", "b"} {
				peer := &answers{}
				a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) {
					d.Fetch = peer.Fetch
					d.LeasedUntil = func(netip.Addr) time.Time {
						if to == "b" {
							return time.Now().Add(RemoteWait/6 + left)
						}
						return time.Now().Add(left)
					}
				})
				_, err := a.Do(t.Context(), to, estimateOf(t, ""))
				if (len(peer.calls) > 0) != asked || errors.Is(err, errRefused) == asked {
					t.Errorf("%v left at %s: %d calls, %v", left, to, len(peer.calls), err)
				}
			}
		}
	})
}
