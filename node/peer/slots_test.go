package peer

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestSlotsComeFree: a call that ends, or that found no slot in time, leaves its own slot to the peer's next, though other
// calls of the peer keep its share in use.
func TestSlotsComeFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Default()
		cfg.Calls, cfg.CallsPerPeer = 3, 2
		s, err := NewServer(cfg, ServerDeps{ID: "b", Run: "test", Secret: NewSecret([32]byte{1}), Handler: reachable{}})
		if err != nil {
			t.Fatal(err)
		}
		enter := func(peer, want string) func() {
			t.Helper()
			leave, why := s.enter(context.Background(), peer)
			if why != want {
				t.Fatalf("a call of %s: %q, want %q", peer, why, want)
			}
			return leave
		}
		long := enter("a", "")
		for range 3 {
			short := enter("a", "")
			enter("a", "too many calls of this peer at once")
			short()
		}
		c, d := enter("c", ""), enter("d", "")
		for range 3 {
			enter("a", "too many calls at once")
		}
		c()
		enter("a", "")()
		d()
		long()
		if len(s.perPeer) != 0 || !s.slots.TryAcquire(3) {
			t.Errorf("slots are taken, by %v, after the last call", s.perPeer)
		}
	})
}
