package node_test

import (
	"errors"
	"testing"
	"time"

	"proxima/node"
)

// TestOverlayOwnerLeaves: a node that is stopped in order tells the second copies of its hosts what it did last before it
// leaves. The others take its hosts at once, and download no page again.
func TestOverlayOwnerLeaves(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		// Much is not told yet at any moment.
		b.cfg = func(_ int, c *node.Config) { c.Ownership.ReplicateEvery = 10 * time.Second }
		b.crawledBy(2)
		leaver := b.nodes[2]
		asked := time.Now()
		b.leave(2)
		if leaver.err != nil || leaver.end.Reason != "stopped" {
			t.Errorf("it ended as %q: %v", leaver.end.Reason, leaver.err)
		}
		left := time.Now()
		took := left.Sub(asked)
		if took > 5*time.Second {
			t.Errorf("it took %v to leave", took)
		}
		b.awaitEnd(30 * time.Minute)
		b.complete(150, true)
		for _, s := range b.sites {
			first := map[string]Visit{}
			for _, v := range b.pagesOf(s) {
				// What a peer was downloading for it does not count: nobody is there to be told. Nor does what was broken off.
				if f, again := first[v.Path]; again && f.From == b.name(2) && f.Start.Before(asked) && f.End.Before(asked.Add(time.Second)) {
					t.Errorf("%s was downloaded by %s at %v, and by %s at %v", v.URL(), f.From, b.since(f.Start), v.From, b.since(v.Start))
				} else if !again {
					first[v.Path] = v
				}
			}
			v := b.goesOn(s, asked)
			t.Logf("%s goes on at %s %v after the node had left, for which it took %v", s, v.From, v.Start.Sub(left), took)
		}
	})
}

// TestOverlayFalseEnd: a node says that the crawl is over, and leaves. The others have work all the same. After a while they take its hosts, and
// finish the crawl.
func TestOverlayFalseEnd(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { c.Politeness.MinGap = 5 * time.Second }
		b.sitesBeside(4, 120, 1)
		b.startAll(80 * time.Second)
		b.owned("s2.example", 2, 10, 10*time.Minute)
		b.await("the last node settled", time.Minute, func() bool { return b.since(time.Now()) > 160*time.Second })
		must(t, b.nodes[2].node.SayOver())
		time.Sleep(time.Second)
		b.leave(2)
		took := b.await("the end of the crawl", time.Hour, b.ended)
		b.complete(120, true)
		t.Logf("the others ended %v after it had left", took)
	})
}

// awaitDrained waits until a node has handed over all its hosts and stopped. It is not waited for any more.
func (b *bed) awaitDrained(i int) {
	b.t.Helper()
	n := b.nodes[i]
	b.await("the drain", 10*time.Minute, n.hasEnded)
	if n.end.Reason != "drained" || n.err != nil {
		b.t.Errorf("it ended as %q: %v", n.end.Reason, n.err)
	}
	n.dead.Store(true)
}

// Nodes that are drained, two at once, stop when each of their hosts is another node's: their disks can go, and still every page is crawled, once.
func TestOverlayDrains(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.sitesBeside(12, 60, 1)
		b.startAll(2 * time.Second)
		b.awaitPages(140)
		if _, err := b.operator(1).Move(b.t.Context(), "nobody.example", "0", "ann"); !errors.Is(err, node.ErrNotHere) && !errors.Is(err, node.ErrNotNow) {
			b.t.Errorf("an unknown host is moved: %v", err)
		}
		for range 2 { // the second time it is so already
			must(b.t, errors.Join(b.operator(1).Drain("ann"), b.operator(2).Drain("ann")))
		}
		b.awaitDrained(1)
		b.awaitDrained(2)
		b.awaitEnd(2 * time.Hour)
		b.complete(60, false)
	})
}

// A node that is drained leaves its share of the limit to the others: they ask for exactly as many pages as it says.
func TestOverlayDrainsItsShare(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxPages = 500 }, func(b *bed) {
		b.awaitPages(140)
		must(b.t, b.operator(1).Drain("ann"))
		b.awaitDrained(1)
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n != 500 {
			t.Errorf("%d pages are asked for, not 500", n)
		}
	})
}

// A node that is drained while another one dies waits until its hosts are somewhere else, and one that is killed meanwhile leaves nothing behind
// that is nowhere.
func TestOverlayDrainsInTrouble(t *testing.T) {
	inBed(t, append(square(), point{50, 50, 1}), func(b *bed) {
		b.sitesBeside(10, 60, 1)
		b.startAll(2 * time.Second)
		b.awaitPages(140)
		for _, i := range []int{1, 3} {
			must(b.t, b.operator(i).Drain("ann"))
		}
		b.kill(2) // some of their hosts were to go there
		time.Sleep(300 * time.Millisecond)
		b.kill(3) // in the middle of its own
		b.start(2)
		b.start(3)
		b.awaitDrained(1)
		b.awaitEnd(3 * time.Hour)
		b.complete(60, true)
	})
}
