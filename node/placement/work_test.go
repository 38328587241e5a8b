package placement

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
	"proxima/node/lease"
	"proxima/node/wire"
)

// Work that is queued or has begun is under way. Work that has ended, was given back, or comes from an earlier life of its asker is
// not.
func TestUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNetwork().add(t, "b", 0, func(d *RemoteDeps) {
			d.FromLife = func(_ string, boot uint64, take func()) bool {
				if boot < 2 {
					return false
				}
				take()
				return true
			}
		})
		fetch := func(boot, number uint64) *wire.FetchResponse {
			req := &wire.FetchRequest{Header: &wire.Header{Boot: boot}, Number: number, Page: encodeFetch(estimateOf(t, "")), WithinMs: 30_000}
			resp, err := b.Fetch(t.Context(), "a", req)
			must(t, err)
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
		if resp := fetch(2, 1); resp.GetRefused() != "" || resp.GetResult() != nil || time.Since(asked) != b.callFor()/2 {
			t.Errorf("answered %v after %v", resp, time.Since(asked))
		}
		underWay("queued", true)
		w := b.begin(t)
		underWay("begun", true)
		if _, again := b.Start(w); again {
			t.Error("it began twice")
		}
		time.Sleep(3 * time.Minute)
		underWay("slow", true) // the crawl must not end, however long its fetcher takes
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
		if n, _ := b.remembered(); n > 0 {
			t.Errorf("%d are remembered", n)
		}
	})
}

// Work that waits for a fetcher is given back when a later life of its asker is known: nobody would ask for the page. What that life has
// asked for begins.
func TestWorkOfAnEarlierLifeIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := uint64(1)
		b := newNetwork().add(t, "b", 0, func(d *RemoteDeps) {
			d.FromLife = func(_ string, boot uint64, take func()) bool {
				if boot == known {
					take()
				}
				return boot == known
			}
		})
		for range 2 {
			req := &wire.FetchRequest{Header: &wire.Header{Boot: known}, Number: 1, Page: encodeFetch(estimateOf(t, "")), WithinMs: 30_000}
			if _, err := b.Fetch(t.Context(), "a", req); err != nil {
				t.Fatal(err)
			}
			known++
		}
		known--
		if _, ok := b.Start(<-b.jobs); ok || len(b.UnderWay()) != 1 {
			t.Errorf("it began: %v; under way are %v", ok, b.UnderWay())
		}
		b.Finished(b.begin(t), page200(time.Second))
		if b.Busy() || len(b.UnderWay()) > 0 {
			t.Errorf("busy: %v; under way are %v", b.Busy(), b.UnderWay())
		}
	})
}

func TestRefusals(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, a, b *node) {
		b.deps.Check = func(addr netip.Addr) error {
			if addr.IsLoopback() {
				return errors.New("loopback")
			}
			return nil
		}
		b.deps.Blocked = func(u identity.URL, _ netip.Addr) string {
			if u.Name() == "evil.example" {
				return "evil.example"
			}
			return ""
		}
		for url, want := range map[string]string{
			"http://evil.example/": "blocked: evil.example", "http://192.0.2.8/": "malformed: server 192.0.2.7 is not that of 192.0.2.8",
		} {
			e, begin := estimateOf(t, ""), time.Now()
			e.URL = mustURL(t, url)
			res, err := a.Do(t.Context(), "b", e)
			if !errors.Is(err, errRefused) || !strings.HasSuffix(err.Error(), ": node b refused the remote fetch: "+want) || res.Lingers != 0 || time.Since(begin) > time.Second {
				t.Errorf("%s: %v after %v, lingers %v", url, err, time.Since(begin), res.Lingers)
			}
		}
		// This is a result, so that the asker notes that the peer cannot reach the server. A refusal may be for the moment.
		e := estimateOf(t, "")
		e.Server = netip.MustParseAddr("127.0.0.1")
		if r, err := a.Do(t.Context(), "b", e); err != nil || r.Asked || r.Reason != "forbidden address: loopback" || !othersTrouble("a", "b", r) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// An asker may allow a download less time than Wait, and never more. Without any time left it is refused.
func TestTimeOfAFetchIsBounded(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
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
	})
}

// A result is kept for a minute, also if it was answered, since the answer may be lost.
func TestHowLongResultsAreKept(t *testing.T) {
	for _, answered := range []bool{false, true} {
		inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
			b.ask(t, 1, 30*time.Second)
			b.Finished(b.begin(t), page200(time.Second))
			if answered {
				if resp := b.ask(t, 1, time.Second); resp.GetResult() == nil {
					t.Errorf("answered %v", resp)
				}
			}
			for i, after := range []time.Duration{time.Minute - 1, 1} {
				time.Sleep(after)
				synctest.Wait()
				if n, _ := b.remembered(); n != 1-i {
					t.Errorf("answered %v: %d are remembered, want %d", answered, n, 1-i)
				}
			}
		})
	}
}

// Work that no fetcher has begun is given back after 20 seconds, or when its time is over. Then it does not begin any more.
func TestWhenWorkIsGivenBack(t *testing.T) {
	for within, back := range map[time.Duration]time.Duration{12 * time.Second: 12 * time.Second, time.Minute: 20 * time.Second} {
		inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
			begin := time.Now()
			b.ask(t, 1, within) // which waits for 5 s
			w := <-b.jobs
			b.Finished(w, Result{}) // it has not begun
			time.Sleep(time.Until(begin.Add(back - 1)))
			synctest.Wait()
			if !b.Busy() {
				t.Errorf("given back before %v", back)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if b.Busy() {
				t.Errorf("not given back after %v", back)
			}
			for _, tag := range []any{w, "no work"} {
				if _, ok := b.Start(tag); ok {
					t.Errorf("%v began", tag)
				}
				b.Finished(tag, Result{})
			}
			if r := b.ask(t, 1, within).GetResult(); !r.GetUnmade() || r.GetAsked() || r.GetReason() != "it waited too long for a fetcher" {
				t.Errorf("answered %v", r)
			}
		})
	}
}

// A node takes 2,000 pages that have not ended, and remembers 16,000. When it stops, it takes no more.
func TestWorkIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		open, known int
		back        string // why it is given back
	}{
		"one more":          {1999, 0, "it waited too long for a fetcher"},
		"too many are open": {2000, 0, "too many remote fetches"},
		"one more is known": {0, 15_999, "it waited too long for a fetcher"},
		"too many are":      {0, 16_000, "too many remote fetches"},
	} {
		inNetwork(t, 0, func(t *testing.T, _ *network, _, b *node) {
			b.Remote.mu.Lock()
			b.open = c.open
			for i := range c.known {
				b.Remote.work[workKey{"c", 1, uint64(i)}] = &Work{state: ended}
			}
			b.Remote.mu.Unlock()
			resp := b.ask(t, 1, time.Second)
			if back := resp.GetResult(); resp.GetRefused() != "" || back.GetReason() != c.back || !back.GetUnmade() {
				t.Errorf("%s: %v, want %q", name, resp, c.back)
			}
			b.stop()
			if resp := b.ask(t, 2, time.Second); resp.GetRefused() != "the node stops" {
				t.Errorf("%s: a node that stops says %q", name, resp.GetRefused())
			}
			time.Sleep(time.Minute)
		})
	}
}

// 128 calls may wait at once, 16 of one peer.
func TestCallsThatWait(t *testing.T) {
	r := NewRemote(RemoteWait, RemoteDeps{Clock: lease.NewClock(nil)})
	for peer := range 8 {
		for i := range 17 {
			if got, want := r.hold(fmt.Sprint(peer), 1), i < 16; got != want {
				t.Errorf("call %d of peer %d waits: %v", i, peer, got)
			}
		}
	}
	if r.hold("another", 1) {
		t.Error("129 calls wait")
	}
	r.hold("0", -1)
	if !r.hold("another", 1) || r.hold("another", 1) {
		t.Error("not exactly one call may wait when one has ended")
	}
}

// The bounds of messages and of memory are the same on all nodes.
func TestBoundsOfRemoteFetches(t *testing.T) {
	for name, c := range map[string][2]int{
		"labels": {maxLabels, 16}, "bytes of a name": {maxName, 128}, "bytes of a reason": {maxReason, 300}, "links of a page": {maxPageLinks, 100_000},
		"bytes of an answer": {maxPortion, 1_048_576}, "bytes of links": {maxLinks, 33_554_432}, "a stage": {int(maxStage), int(time.Hour)},
		"retry after": {int(maxRetryAfter), int(8760 * time.Hour)}, "hosts": {maxHosts, 1000}, "pages of a round": {maxRound, 20},
		"networks": {mostNetworks, 1000}, "neighbours": {mostNeighbours, 3}, "noticed": {newWalk().most, 100_000}, "looked at": {newWalk().scan, 5000},
		"at once": {stride, 500},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
}

// A node that stops ends its own waits, gives back what it has not begun, and lets no call wait for a page that a fetcher still has.
func TestStopEndsAllWaits(t *testing.T) {
	inNetwork(t, 0, func(t *testing.T, _ *network, a, b *node) {
		b.ask(t, 1_000, 30*time.Second)
		begun := b.begin(t)
		ended := make(chan string, 3)
		go func() {
			resp, err := b.Fetch(t.Context(), "a", &wire.FetchRequest{Number: 1_000})
			ended <- fmt.Sprint("the call for a page: ", resp.GetResult() != nil, err)
		}()
		go func() {
			r, err := a.Do(t.Context(), "b", estimateOf(t, ""))
			ended <- fmt.Sprint("the queued page: ", r.Unmade, err)
		}()
		go func() {
			_, err := b.Do(t.Context(), "nobody", estimateOf(t, ""))
			ended <- fmt.Sprint("its own: ", errors.Is(err, errClosed))
		}()
		time.Sleep(time.Second)
		stopped := time.Now()
		b.stop()
		got := map[string]bool{<-ended: true, <-ended: true, <-ended: true}
		if !got["the call for a page: false <nil>"] || !got["the queued page: true <nil>"] || !got["its own: true"] || time.Since(stopped) > time.Second {
			t.Errorf("%v after %v", got, time.Since(stopped))
		}
		if _, err := b.Do(t.Context(), "a", estimateOf(t, "")); !errors.Is(err, errClosed) {
			t.Error(err)
		}
		b.Finished(begun, page200(time.Second))
		time.Sleep(2 * time.Minute)
	})
}
