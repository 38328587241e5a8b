package lease

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/assign"
)

// await says how long it takes until a node has a server, at most two windows.
func await(w *world, n *fakeNode, addr netip.Addr) time.Duration {
	begin := time.Now()
	for !n.has(addr) && time.Since(begin) < 2*(w.cfg.Time+w.cfg.Skew) {
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(begin)
}

// TestNewGrantorAsksTheMembers: a node that becomes a grantor, because it is new, knows what is leased as soon as all members
// have said so, and grants the rest.
func TestNewGrantorAsksTheMembers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		two := ids[:2]
		for _, n := range all {
			n.see(two, true)
		}
		time.Sleep(2 * (w.cfg.Window()))
		free := grantedBy(t, ids[2], ids)
		leased := free
		for leased == free || assign.Rendezvous(leased.String(), ids) != ids[2] {
			leased = netip.AddrFrom4([4]byte{192, 0, 9, leased.As4()[3] + 1})
		}
		all[0].want(true, leased)
		if d := await(w, all[0], leased); d > time.Second {
			t.Fatal(d)
		}
		for _, n := range all {
			n.see(ids, true) // the third has settled
		}
		all[1].want(true, free, leased)
		if d := await(w, all[1], free); d > 5*time.Second {
			t.Errorf("a server that nobody had was granted after %v", d)
		}
		for range 100 {
			if who := w.askers(leased); !slices.Equal(who, ids[:1]) {
				t.Fatalf("%v may ask what the first has", who)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestInquiryIsTriedAgain: where a member sees the change a little later, the grantor does not wait until it is asked again.
func TestInquiryIsTriedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		for _, n := range all {
			n.see(ids[:2], true)
		}
		time.Sleep(2 * (w.cfg.Window()))
		addr := grantedBy(t, ids[2], ids)
		all[0].see(ids, true)
		all[2].see(ids, true)
		all[0].want(true, addr)
		time.Sleep(500 * time.Millisecond)
		all[1].see(ids, true)
		if d := await(w, all[0], addr); d > 1400*time.Millisecond {
			t.Errorf("granted after another %v", d)
		}
	})
}

// TestInquiryNeedsAll: while a member does not answer, has another view, or is gone for less than a lease and the skew, a new
// grantor waits until all leases have run out.
func TestInquiryNeedsAll(t *testing.T) {
	window := Default().Time + Default().Skew
	for name, spoil := range map[string]func(w *world, ids []string, all []*fakeNode){
		"cut off": func(w *world, ids []string, _ []*fakeNode) { w.part(ids[1], ids[3]) },
		"frozen":  func(_ *world, _ []string, all []*fakeNode) { all[1].freeze() },
		"dead":    func(_ *world, _ []string, all []*fakeNode) { all[1].kill() },
		"behind":  func(_ *world, ids []string, all []*fakeNode) { all[1].see(ids[:3], true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, Default(), 1)
				defer w.shutdown()
				ids := names(4)
				all := w.startAll(ids...)
				time.Sleep(2 * window)
				for _, n := range all {
					n.see(ids[:3], true)
				}
				time.Sleep(2 * window)
				addr := grantedBy(t, ids[3], ids)
				for i, n := range all {
					if i != 1 {
						n.see(ids, true)
					}
				}
				if spoil(w, ids, all); name != "behind" && name != "dead" && name != "frozen" {
					all[1].see(ids, true)
				}
				if name == "dead" {
					for i, n := range all {
						if i != 1 {
							n.see(ids, true)
						}
					}
				}
				all[0].want(true, addr)
				if d := await(w, all[0], addr); d < window-time.Second || d > window+w.cfg.retryMax()+time.Second {
					t.Errorf("granted after %v", d)
				}
			})
		})
	}
}

// TestRestartIsQuick: a node that restarts is a grantor, and has its servers, again within seconds, as its peers say what
// they hold and what they do for it.
func TestRestartIsQuick(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		own, others := grantedBy(t, ids[0], ids), grantedBy(t, ids[1], ids)
		all[0].want(true, own, others)
		await(w, all[0], own)
		await(w, all[0], others)
		all[0].kill()
		time.Sleep(2 * time.Second)
		n := w.start(ids[0])
		n.see(ids, true)
		n.want(true, own, others)
		begin := time.Now()
		await(w, n, own)
		await(w, n, others)
		if d := time.Since(begin); d > 5*time.Second {
			t.Errorf("it had its servers after %v", d)
		}
	})
}

// TestRestartedHolderWaitsForItsPeers: a node that crashed asks no server that a peer still asks for its former life, who
// ever is the grantor; and what its former life had asked for is not begun any more.
func TestRestartedHolderWaitsForItsPeers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, w *world, ids []string, all []*fakeNode) {
		for i, grantor := range ids {
			addr := grantedBy(t, grantor, ids)
			n := w.nodes[ids[0]]
			n.want(true, addr)
			await(w, n, addr)
			until := time.Now().Add(35 * time.Second)
			all[2].mu.Lock()
			all[2].remote = []Remote{{Server: addr, Holder: ids[0], Until: until}}
			all[2].mu.Unlock()
			if !all[2].holder.FromLife(ids[0], n.boot, func() {}) {
				t.Error("a message of the life that lives is refused")
			}
			n.kill()
			time.Sleep(2 * time.Second)
			n = w.start(ids[0])
			n.see(ids, true)
			n.want(true, addr)
			for time.Now().Before(until) {
				if who := w.askers(addr); len(who) > 0 {
					t.Fatalf("grantor %d: %v may ask %v before the peer has ended", i, who, time.Until(until))
				}
				time.Sleep(100 * time.Millisecond)
			}
			if d := await(w, n, addr); d > w.cfg.Skew+5*time.Second {
				t.Errorf("grantor %d: it got the server only %v after the peer had ended", i, d)
			}
			if all[2].holder.FromLife(ids[0], n.boot-1, func() {}) {
				t.Error("a message of the former life is not refused")
			}
			all[2].mu.Lock()
			all[2].remote = nil
			all[2].mu.Unlock()
		}
	})
}
