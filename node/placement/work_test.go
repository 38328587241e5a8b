package placement

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// ask sends a call for a page to a node.
func (x *node) ask(t *testing.T, number uint64, within time.Duration) *wire.FetchResponse {
	t.Helper()
	resp, err := x.Fetch(t.Context(), "a", &wire.FetchRequest{Number: number, Page: encodeFetch(estimateOf(t, "")), WithinMs: within.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// remembered counts the work that a node remembers.
func (x *node) remembered() int {
	x.Remote.mu.Lock()
	defer x.Remote.mu.Unlock()
	return len(x.Remote.work)
}

// linksKept returns the bytes of links that a node keeps.
func (x *node) linksKept() int {
	x.Remote.mu.Lock()
	defer x.Remote.mu.Unlock()
	return x.Remote.links
}

// A result that nobody has asked for is kept for a minute. One that was answered is kept for two calls more, since the answer may be lost.
func TestHowLongResultsAreKept(t *testing.T) {
	for answered, kept := range map[bool]time.Duration{false: time.Minute, true: 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			b := newNetwork().add(t, "b", 0)
			b.ask(t, 1, 30*time.Second)
			w, ok := b.Start(<-b.jobs)
			if !ok {
				t.Fatal("it cannot begin")
			}
			b.Finished(w, page200(time.Second))
			if answered {
				if resp := b.ask(t, 1, time.Second); resp.GetResult() == nil {
					t.Errorf("answered %v", resp)
				}
			}
			time.Sleep(kept - 1)
			synctest.Wait()
			if n := b.remembered(); n != 1 {
				t.Errorf("answered %v: %d are remembered just before %v", answered, n, kept)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if n := b.remembered(); n != 0 {
				t.Errorf("answered %v: %d are remembered after %v", answered, n, kept)
			}
		})
	}
}

// Work that no fetcher has begun is given back after 20 seconds, or when its time is over.
func TestWhenWorkIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i, c := range []struct{ within, back time.Duration }{{12 * time.Second, 12 * time.Second}, {time.Minute, 20 * time.Second}} {
			b := newNetwork().add(t, "b", 0)
			begin := time.Now()
			b.ask(t, uint64(i), c.within) // which waits for 5 s
			time.Sleep(time.Until(begin.Add(c.back - 1)))
			synctest.Wait()
			if !b.Busy() {
				t.Errorf("given back before %v", c.back)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if b.Busy() {
				t.Errorf("not given back after %v", c.back)
			}
		}
	})
}

// A node takes 2,000 pages that have not ended, and remembers 16,000. When it stops, it takes no more.
func TestWorkIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			open, known int
			refused     string
		}{
			"one more":          {1999, 0, ""},
			"too many are open": {2000, 0, "too many remote fetches"},
			"one more is known": {0, 15_999, ""},
			"too many are":      {0, 16_000, "too many remote fetches"},
		} {
			b := newNetwork().add(t, "b", 0)
			b.Remote.mu.Lock()
			b.open = c.open
			for i := range c.known {
				b.Remote.work[workKey{"c", 1, uint64(i)}] = &Work{state: ended}
			}
			b.Remote.mu.Unlock()
			if resp := b.ask(t, 1, time.Second); resp.GetRefused() != c.refused {
				t.Errorf("%s: %q, want %q", name, resp.GetRefused(), c.refused)
			}
			b.stop()
			if resp := b.ask(t, 2, time.Second); resp.GetRefused() != "the node stops" {
				t.Errorf("%s: a node that stops says %q", name, resp.GetRefused())
			}
		}
		time.Sleep(2 * time.Minute)
	})
}

// 128 calls may wait at once, 16 of one peer.
func TestCallsThatWait(t *testing.T) {
	r := NewRemote(RemoteWait, RemoteDeps{})
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

// A page is asked for if its lease lasts for a millisecond when the message arrives, which may take a call.
func TestLeaseThatIsAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for left, asked := range map[time.Duration]bool{time.Millisecond - 1: false, time.Millisecond: true} {
			for _, to := range []string{"a", "b"} {
				peer := &answers{}
				a := newNetwork().add(t, "a", 0, func(d *RemoteDeps) {
					d.Peers = peer
					d.LeasedUntil = func(netip.Addr) time.Time {
						if to == "b" {
							return time.Now().Add(RemoteWait/6 + left)
						}
						return time.Now().Add(left)
					}
				})
				_, err := a.Do(t.Context(), to, estimateOf(t, ""))
				if refused := new(RefusedError); (len(peer.calls) > 0) != asked || errors.As(err, &refused) == asked {
					t.Errorf("%v left at %s: %d calls, %v", left, to, len(peer.calls), err)
				}
			}
		}
	})
}

// The bounds of messages and of memory are the same on all nodes.
func TestBoundsOfRemoteFetches(t *testing.T) {
	for name, c := range map[string][2]int{
		"labels": {maxLabels, 16}, "bytes of a name": {maxName, 128}, "bytes of a reason": {maxReason, 300}, "links of a page": {maxPageLinks, 100_000},
		"bytes of an answer": {maxPortion, 1_048_576}, "bytes of links": {maxLinks, 33_554_432}, "a stage": {int(maxStage), int(time.Hour)},
		"retry after": {int(maxRetryAfter), int(8760 * time.Hour)}, "hosts": {maxHosts, 1000}, "pages of a round": {maxRound, 20}, "networks": {mostNetworks, 1000},
		"neighbours": {mostNeighbours, 3}, "noticed": {newWalk().most, 100_000}, "looked at": {newWalk().scan, 5000}, "at once": {stride, 500},
	} {
		if c[0] != c[1] {
			t.Errorf("%s: %d, want %d", name, c[0], c[1])
		}
	}
}

// A call that waits for a page ends when the node stops, though a fetcher still has the page.
func TestStopEndsTheWaitsOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNetwork().add(t, "b", 0)
		answered := make(chan time.Time)
		go func() {
			if resp := b.ask(t, 1, 30*time.Second); resp.GetResult() != nil || resp.GetRefused() != "" {
				t.Errorf("answered %v", resp)
			}
			answered <- time.Now()
		}()
		w, ok := b.Start(<-b.jobs)
		if !ok {
			t.Fatal("it cannot begin")
		}
		time.Sleep(time.Second)
		stopped := time.Now()
		b.stop()
		if at := <-answered; !at.Equal(stopped) {
			t.Errorf("answered %v after the stop", at.Sub(stopped))
		}
		b.Finished(w, page200(time.Second))
		time.Sleep(2 * time.Minute)
	})
}

// As many links go into an answer as fit, and one always does.
func TestPortionsOfLinks(t *testing.T) {
	link := func(bytes int) frontier.Link {
		const host = "http://example.org"
		return frontier.Link{URL: identity.URL{Host: host, Path: "/" + strings.Repeat("x", bytes-len(host)-41)}}
	}
	for _, c := range []struct {
		sizes     []int
		had, want int
		more      bool
	}{
		{[]int{1<<20 - 100, 100}, 0, 2, false},
		{[]int{1<<20 - 100, 101}, 0, 1, true},
		{[]int{1<<20 - 100, 101}, 1, 1, false},
		{[]int{1<<20 + 1, 100}, 0, 1, true},
		{[]int{100}, 1, 0, false},
		{[]int{100}, 2, 0, false},
	} {
		var links []frontier.Link
		for _, size := range c.sizes {
			links = append(links, link(size))
		}
		if got, more := encodeLinks(links, c.had); len(got) != c.want || more != c.more {
			t.Errorf("of links of %v bytes, %d had: %d, more %v", c.sizes, c.had, len(got), more)
		}
	}
}

// The links of results that wait for their askers take 32 MiB. A result beyond that is lost, unless it is the only one.
func TestResultsAtTheBoundOfLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		links, huge := manyLinks(10), manyLinks(1)
		size := linkBytes(links)
		huge[0].URL.Path = strings.Repeat("/", 33<<20)
		for _, c := range []struct {
			waiting int
			links   []frontier.Link
			kept    bool
		}{{0, links, true}, {0, huge, true}, {32<<20 - size, links, true}, {32<<20 - size + 1, links, false}, {32<<20 + 1, nil, true}} {
			b := newNetwork().add(t, "b", 0)
			b.ask(t, 1, 30*time.Second)
			w, _ := b.Start(<-b.jobs)
			b.Remote.mu.Lock()
			b.Remote.links = c.waiting
			b.Remote.mu.Unlock()
			r := page200(time.Second)
			r.Links = c.links
			b.Finished(w, r)
			kept := c.waiting + linkBytes(w.result.Links)
			if n := b.linksKept(); w.result.HTML != c.kept || n != kept || !w.result.Asked {
				t.Errorf("%d bytes wait: %d links are kept, %d bytes are counted", c.waiting, len(w.result.Links), n)
			}
			time.Sleep(2 * time.Minute)
			if n := b.linksKept(); n != c.waiting {
				t.Errorf("%d bytes are counted in the end, want %d", n, c.waiting)
			}
		}
	})
}

// A result may expire while a call for it is under way. What its links took is freed once.
func TestResultExpiresDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newNetwork().add(t, "b", 0)
		b.ask(t, 1, 30*time.Second)
		w, ok := b.Start(<-b.jobs)
		if !ok {
			t.Fatal("it cannot begin")
		}
		res := page200(time.Second)
		res.Links = []frontier.Link{{URL: mustURL(t, "http://a.example/x")}}
		b.Finished(w, res)
		b.deps.FromLife = func(_ string, _ uint64, take func()) bool {
			take()
			time.Sleep(2 * time.Minute)
			return true
		}
		b.ask(t, 1, time.Second)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := b.linksKept(); n != 0 {
			t.Errorf("%d bytes of links are kept", n)
		}
	})
}
