package node_test

import (
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
			first := map[string]visit{}
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
