package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"proxima/node/journal"
	"proxima/node/member"
	"proxima/node/netsim"
	"proxima/node/view"
)

// behindNAT are nodes of a bed that cannot be dialled.
func behindNAT(nodes ...int) map[int][2]bool {
	shield := map[int][2]bool{}
	for _, i := range nodes {
		shield[i] = [2]bool{true, true}
	}
	return shield
}

// reaches are how nodes say that they are reached.
func (b *bed) reaches(most time.Duration, want map[int]view.Reach) {
	b.t.Helper()
	b.await("all know how they are reached", most, func() bool {
		for i, n := range b.nodes {
			if n.node == nil || n.dead.Load() {
				continue
			}
			s := n.node.Status().Overlay.Reach
			if s.Reach != want[i].String() || (len(s.Relays) > 0) != (want[i] == view.Outbound) {
				return false
			}
		}
		return true
	})
}

// deaths are how often nodes were taken for dead by others.
func (b *bed) deaths() map[string]int {
	n := map[string]int{}
	for i := range b.nodes {
		for _, m := range logged[journal.Member](b, i, journal.LogMember) {
			if m.Change == member.EventDeath && m.Reason == "" {
				n[m.Peer]++
			}
		}
	}
	return n
}

// TestOverlayBehindNAT: of eight nodes three cannot be dialled. They find that out, own the hosts beside them like any other, and
// two relays of theirs die: every page comes, no server is asked by two at once, and no node behind the NAT is taken for dead.
func TestOverlayBehindNAT(t *testing.T) {
	at := []point{{0, 0, 1}, {100, 0, 1}, {0, 100, 1}, {100, 100, 1}, {50, 50, 1}, {50, 0, 1}, {0, 50, 1}, {100, 50, 1}}
	inBed(t, at, func(b *bed) {
		b.shield = behindNAT(2, 4, 6)
		for i, p := range at {
			b.site(fmt.Sprintf("s%d.test", i), address(i), beside(p), 240, 5000)
		}
		b.startAll(80 * time.Second)
		b.reaches(time.Minute, map[int]view.Reach{2: view.Outbound, 4: view.Outbound, 6: view.Outbound})
		for _, i := range []int{2, 4, 6} {
			b.owned(fmt.Sprintf("s%d.test", i), i, 10, 10*time.Minute)
		}
		b.await("the last node settled", 2*time.Minute, func() bool { return b.since(time.Now()) > 160*time.Second })
		for killed := range 2 {
			if killed > 0 {
				time.Sleep(4 * time.Minute) // until all have two copies again
			}
			relays := b.nodes[4].node.Status().Overlay.Reach.Relays
			for _, i := range []int{1, 3, 5} { // the one that all join by lives, and the one with the seeds
				if !b.nodes[i].dead.Load() && slices.Contains(relays, netsim.ID(i)) {
					t.Logf("%s, a relay of n4, is killed at %v", b.name(i), b.since(time.Now()))
					b.kill(i)
					break
				}
			}
		}
		b.reaches(time.Minute, map[int]view.Reach{2: view.Outbound, 4: view.Outbound, 6: view.Outbound})
		b.awaitEnd(30 * time.Minute)
		b.complete(240, true)
		again := 0
		for _, n := range b.got() {
			again += n - 1
		}
		t.Logf("ended after %v, %d pages came again", b.since(time.Now()), again)
		for id, n := range b.deaths() {
			if slices.Contains([]string{netsim.ID(2), netsim.ID(4), netsim.ID(6)}, id) {
				t.Errorf("%s was taken for dead %d times", id, n)
			}
		}
	})
}

// TestOverlayWithoutUDP: an overlay in which no datagram arrives, anywhere, crawls all the same.
func TestOverlayWithoutUDP(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		want := map[int]view.Reach{}
		b.shield = map[int][2]bool{}
		for i := range b.nodes {
			b.shield[i] = [2]bool{false, true}
			if i > 0 {
				want[i] = view.Streams
			}
			b.site(fmt.Sprintf("s%d.test", i), address(i), beside(b.nodes[i].at), 80, 5000)
		}
		want[0] = view.Streams
		b.startAll(80 * time.Second)
		b.reaches(3*time.Minute, want)
		b.awaitEnd(30 * time.Minute)
		b.complete(80, false)
		t.Logf("ended after %v", b.since(time.Now()))
	})
}
