package node_test

import (
	"testing"
	"time"

	"proxima/node/netsim"
)

// TestOverlayBrokenPath: two nodes that do not reach each other any more, though all others reach both, work on as before.
func TestOverlayBrokenPath(t *testing.T) {
	at := append(square(), point{50, 50, 1})
	inBed(t, at, func(b *bed) {
		for i := range 20 {
			b.site(b.homed(i%5), address(i), beside(at[(i*3+i/5)%5]), 200, 5000)
		}
		b.startAll(0)
		b.await("all hosts are assigned", 5*time.Minute, func() bool { return b.since(time.Now()) > 3*time.Minute })
		b.net.Cut(netsim.Place(0), netsim.Place(1))
		cut := time.Now()
		b.awaitEnd(30 * time.Minute)
		t.Logf("ended %v after the cut", time.Since(cut))
		b.complete(200, true)
	})
}
