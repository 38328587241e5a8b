package node_test

import (
	"slices"
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
		for home := range b.nodes {
			b.site(b.homed(home), address(home), beside(b.nodes[2].at), 150, 5000)
		}
		b.startAll(80 * time.Second)
		for _, s := range b.sites {
			b.owned(s, 2, 10, 10*time.Minute)
		}
		b.await("the last node settled", time.Minute, func() bool { return b.since(time.Now()) > 160*time.Second })
		// A page that is under way is broken off, and asked for again: the node is stopped when no server has been at work
		// for a while, and what still reaches one later does not count.
		for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			all := b.Visits(nil)
			if !slices.ContainsFunc(all, func(v visit) bool { return v.End.IsZero() || time.Since(v.End) < 50*time.Millisecond }) {
				break
			}
			if time.Now().After(limit) {
				t.Fatal("something is always under way")
			}
		}
		leaver := b.nodes[2]
		asked := time.Now()
		leaver.stop()
		<-leaver.done
		if leaver.err != nil || leaver.end.Reason != "stopped" {
			t.Errorf("it ended as %q: %v", leaver.end.Reason, leaver.err)
		}
		took := time.Since(asked)
		if took > 5*time.Second {
			t.Errorf("it took %v to leave", took)
		}
		leaver.dead.Store(true) // it is not waited for any more
		left := time.Now()
		b.awaitEnd(30 * time.Minute)
		b.complete(150, true)
		for _, s := range b.sites {
			all := b.pagesOf(s)
			first := map[string]visit{}
			for _, v := range all {
				// What a peer was downloading for it does not count: nobody is there to be told.
				if f, again := first[v.Path]; again && f.From == b.name(2) && f.Start.Before(asked) {
					t.Errorf("%s was downloaded by %s at %v, and by %s at %v", v.URL(), f.From, b.since(f.Start), v.From, b.since(v.Start))
				} else if !again {
					first[v.Path] = v
				}
			}
			i := slices.IndexFunc(all, func(v visit) bool { return v.Start.After(asked) })
			if i < 0 {
				t.Errorf("%s was finished too early for the test", s)
				continue
			}
			t.Logf("%s goes on at %s %v after the node had left, for which it took %v", s, all[i].From, all[i].Start.Sub(left), took)
		}
	})
}
