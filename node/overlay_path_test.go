package node_test

import (
	"slices"
	"testing"
	"time"

	"proxima/node/netsim"
)

// inFive runs a test with five nodes that have crawled 20 sites of 200 pages for three minutes.
func inFive(t *testing.T, test func(b *bed)) {
	t.Helper()
	at := append(square(), point{50, 50, 1})
	inBed(t, at, func(b *bed) {
		for i := range 20 {
			b.site(b.homed(i%5), address(i), beside(at[(i*3+i/5)%5]), 200, 5000)
		}
		b.startAll(0)
		time.Sleep(3 * time.Minute)
		test(b)
	})
}

// apart breaks the connections of a node with all others.
func (b *bed) apart(i int) {
	for k := range b.nodes {
		b.net.Reset(netsim.Place(i), netsim.Place(k))
	}
}

// TestOverlayBrokenPaths: two nodes that do not reach each other any more, though all others reach both, work on as before; so does one whose port
// closes, as behind a new firewall, when it has found out.
func TestOverlayBrokenPaths(t *testing.T) {
	inFive(t, func(b *bed) {
		b.net.Cut(netsim.Place(0), netsim.Place(1))
		cut := time.Now()
		time.Sleep(time.Minute)
		b.net.Shield(netsim.Place(3), true, true)
		b.apart(3)
		b.await("it knows that its port is closed", 4*time.Minute, func() bool { return b.nodes[3].node.Status().Overlay.Reach.Reach == "outbound" })
		b.awaitEnd(10 * time.Minute)
		t.Logf("ended %v after the cut", time.Since(cut))
		b.complete(200, true)
	})
}

// mute keeps a node of five from reaching anybody by streams, and anybody from reaching it, though its packets arrive; or ends that.
func (b *bed) mute(i int, on bool) {
	b.t.Helper()
	b.nodes[i].mute.Store(on)
	b.net.Shield(netsim.Place(i), on, false)
	b.apart(i)
}

// TestOverlayMute: a mute node holds up nobody for long: others become homes and grantors in its place, take its hosts over, and ask
// it for no downloads. The crawl ends when it is back.
func TestOverlayMute(t *testing.T) {
	muted(t, func(b *bed) {
		b.mute(0, false)
		b.awaitEnd(10 * time.Minute)
	})
}

// TestOverlayEndsWithoutMute: if the mute node does not come back, the others end without it. It is the one that asks who is idle.
func TestOverlayEndsWithoutMute(t *testing.T) {
	muted(t, func(b *bed) {
		b.await("the others end", 13*time.Minute, func() bool {
			return !slices.ContainsFunc(b.nodes[1:], func(n *bedNode) bool { return !n.hasEnded() })
		})
		if b.nodes[0].hasEnded() {
			t.Error("the mute node has ended, too, although it has work")
		}
		b.kill(0)
		b.awaitEnd(time.Second)
	})
}

// muted runs a test when the first of five nodes has been mute until the others have all pages.
func muted(t *testing.T, test func(b *bed)) {
	inFive(t, func(b *bed) {
		b.mute(0, true)
		took := b.await("the others have all pages", 12*time.Minute, func() bool { return len(b.got()) >= 20*201 })
		t.Logf("all pages %v after the cut", took)
		test(b)
		b.complete(200, true)
	})
}
