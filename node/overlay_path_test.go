package node_test

import (
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
		if err := b.net.Shield(netsim.Place(3), true, true); err != nil {
			t.Fatal(err)
		}
		b.apart(3)
		b.await("it knows that its port is closed", 4*time.Minute, func() bool { return b.nodes[3].node.Status().Overlay.Reach.Reach == "outbound" })
		b.awaitEnd(10 * time.Minute)
		t.Logf("ended %v after the cut", time.Since(cut))
		b.complete(200, true)
	})
}

// TestOverlayMute: a node that reaches nobody by streams, and nobody reaches it, holds up nobody for long, though its packets arrive: others
// become homes and grantors in its place, and take its hosts over. The crawl ends when it is back.
func TestOverlayMute(t *testing.T) {
	inFive(t, func(b *bed) {
		mute := func(on bool) {
			b.nodes[0].mute.Store(on)
			if err := b.net.Shield(netsim.Place(0), on, false); err != nil {
				t.Fatal(err)
			}
			b.apart(0)
		}
		mute(true)
		cut := time.Now()
		b.await("the others have all pages", 20*time.Minute, func() bool { return len(b.got()) >= 20*201 })
		t.Logf("all pages %v after the cut", time.Since(cut))
		mute(false)
		b.awaitEnd(10 * time.Minute)
		b.complete(200, true)
	})
}
