package peer_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

var errBroken = errors.New("shelf is broken")

// Pages that end at the same time share a step of the store, and what was just written is not read again.
func TestAddsShareSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps, gets atomic.Int64
		peers, shelf := &answerer{}, &netsim.Shelf{Before: func(step string) error {
			if step == "Get" {
				gets.Add(1)
				return nil
			}
			steps.Add(1)
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: peers.deliver})
		var adders sync.WaitGroup
		for i := range 64 {
			adders.Go(func() {
				if err := o.Add(t.Context(), map[string][]*wire.Link{fmt.Sprintf("peer%d", i%3): linksOf(fmt.Sprint(i), 4)}); err != nil {
					t.Error(err)
				}
			})
		}
		adders.Wait()
		if n := steps.Load(); n > 1+2 { // one reads the shelf
			t.Errorf("%d steps for 64 adds at once, want 2", n-1)
		}
		time.Sleep(10 * time.Second)
		is(t, o, shelf, peer.OutboxStats{Accepted: 256}, 0, 0)
		for i := range 10 { // more than is ever kept in memory at once
			add(t, o, "peer0", linksOf(strings.Repeat("x", 4000)+fmt.Sprint(i), 128))
			time.Sleep(10 * time.Second)
		}
		is(t, o, shelf, peer.OutboxStats{Accepted: 256 + 1280}, 0, 0)
		if n := gets.Load(); n > 0 {
			t.Errorf("%d blocks were read again", n)
		}
	})
}

// Nothing goes on for a peer when all its links are answered.
func TestNothingIsLeftOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := new(netsim.Shelf)
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: new(answerer).deliver})
		synctest.Wait()
		before := runtime.NumGoroutine()
		for i := range 10 {
			add(t, o, "b", linksOf(fmt.Sprint(i), 4))
			time.Sleep(10 * time.Second)
		}
		is(t, o, shelf, peer.OutboxStats{Accepted: 40}, 0, 0)
		if synctest.Wait(); runtime.NumGoroutine() > before {
			t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	})
}

// A step that fails fails for all whose links it had, and the next one is tried. If Run cannot read the shelf it says so, and a new outbox finds
// all links.
func TestBrokenShelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver}
		o := opened(t, peer.Default(), deps)
		for pending, want := range map[int]error{0: errBroken, 32: nil} {
			shelf.Before = func(string) error { time.Sleep(10 * time.Millisecond); return want }
			before := o.Pending()
			var adders sync.WaitGroup
			for i := range 8 {
				adders.Go(func() {
					if err := o.Add(t.Context(), map[string][]*wire.Link{"b": linksOf(fmt.Sprint(i), 4)}); !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
				})
			}
			adders.Wait()
			if n := o.Pending() - before; n != pending {
				t.Errorf("error %v: %d links wait, want %d", want, n, pending)
			}
		}
		shelf.Before = func(string) error { return errBroken }
		if err := o.Run(t.Context()); !errors.Is(err, errBroken) || o.Pending() != 32 {
			t.Errorf("%v, %d links wait, want 32", err, o.Pending())
		}
		shelf.Before = nil
		o, _ = running(t, peer.Default(), deps)
		sleep(2 * time.Second)
		is(t, o, shelf, peer.OutboxStats{Accepted: 32}, 0, 0)
	})
}

func TestDamagedBlocksAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{err: func(string, []*wire.Link) error { return peer.ErrUnavailable }}, new(netsim.Shelf)
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver}
		o, stop := running(t, peer.Default(), deps)
		add(t, o, "b", linksOf("b", 7))
		add(t, o, "b", linksOf("c", 5))
		stop()
		var keys [][]byte
		if err := shelf.Scan(nil, func(k, v []byte) error {
			keys = append(keys, k)
			return shelf.Batch(func(set func(key, value []byte), _ func([]byte)) {
				set(k, v[:min(len(v), len(v)-1+len(keys)-1)]) // the first loses a byte
			})
		}); err != nil {
			t.Fatal(err)
		}
		a.err = nil
		o, _ = running(t, peer.Default(), deps)
		sleep(2 * time.Second)
		is(t, o, shelf, peer.OutboxStats{SetAside: 7, Accepted: 5}, 0, 1)
	})
}

// TestLongQueue: of the links for a peer that takes none for long, a bounded part is in memory. The others lie on disk, over a
// restart, too, and all go out when the peer is back, each once.
func TestLongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each, most = 7, 150, 100
		cfg := peer.Default()
		cfg.OutboxLinks, cfg.OutboxMessageLinks = most, 30
		back, trouble := time.Now().Add(time.Hour), errors.New("it is away")
		got := map[string]int{}
		a := &answerer{trip: time.Millisecond,
			err: func(string, []*wire.Link) error {
				if time.Now().Before(back) {
					return trouble
				}
				return nil
			},
			answer: func(_ string, l *wire.Link) *wire.Delivered {
				if got[l.Url]++; got[l.Url] == 1 && len(l.Url)%5 == 0 { // some have to wait further
					return verdict(wire.Verdict_VERDICT_LATER)
				}
				return verdict(wire.Verdict_VERDICT_ACCEPTED)
			}}
		shelf := new(netsim.Shelf)
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver}
		o, stop := running(t, cfg, deps)
		sum, deepest := 0, 0
		fill := func(name string) {
			var g sync.WaitGroup
			for w := range writers {
				for _, l := range linksOf(fmt.Sprint(name, w), each) {
					sum++
					g.Go(func() {
						time.Sleep(rand.N(time.Second))
						add(t, o, "b", []*wire.Link{l})
					})
				}
			}
			g.Wait()
			deepest = max(deepest, o.InMemory("b"))
		}
		fill("x")
		if o.Pending() != sum || o.PendingOf("b") != sum || deepest > most+writers {
			t.Errorf("%d of %d links wait, %d in memory, want %d at most", o.Pending(), sum, deepest, most)
		}
		stop()
		o, stop = running(t, cfg, deps)
		if o.Pending() != sum || o.InMemory("b") > most+writers {
			t.Errorf("%d of %d links wait after a restart, %d in memory", o.Pending(), sum, o.InMemory("b"))
		}
		time.Sleep(time.Until(back))
		o.Review()
		for n := range 4 { // while it goes out
			time.Sleep(5 * time.Millisecond)
			fill(fmt.Sprint("y", n))
		}
		time.Sleep(10 * time.Minute)
		stop()
		if o.Pending() != 0 || len(got) != sum {
			t.Errorf("%d wait, %d of %d arrived", o.Pending(), len(got), sum)
		}
		for url, n := range got {
			if want := 1 + (5-len(url)%5)/5; n != want {
				t.Errorf("%s was sent %d times, want %d", url, n, want)
			}
		}
	})
}

// A link that another peer sends here is as old as it was, also where it comes to the end of a long queue.
func TestOldLinkInALongQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := peer.Default()
		cfg.OutboxLinks, cfg.OutboxMessageLinks = 2, 1
		long := time.Now().Add(time.Minute)
		a := &answerer{
			err: func(to string, _ []*wire.Link) error {
				if to == "b" {
					return errors.New("it is away")
				}
				return nil
			},
			answer: func(string, *wire.Link) *wire.Delivered {
				if time.Now().Before(long) {
					return verdict(wire.Verdict_VERDICT_LATER)
				}
				return verdict(wire.Verdict_VERDICT_MOVED)
			}}
		o, _ := running(t, cfg, peer.OutboxDeps{Shelf: new(netsim.Shelf), Deliver: a.deliver, Route: func(*wire.Link) string { return "b" }})
		add(t, o, "c", linksOf("old", 1))
		old := time.Now()
		time.Sleep(10 * time.Second)
		add(t, o, "b", linksOf("new", 5))
		time.Sleep(5 * time.Minute)
		if o.PendingOf("b") != 6 || o.PendingOf("c") != 0 {
			t.Fatalf("%d links wait for the peer that is away, %d for the other", o.PendingOf("b"), o.PendingOf("c"))
		}
		if o.Settled(old) {
			t.Error("a link that nobody has taken counts as settled")
		}
	})
}
