package home

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/wire"
)

// TestEndlessList lets an owner send a list of its hosts that does not end. What the home remembers of it is bounded, and
// a list that it could not remember takes no host from its owner.
func TestEndlessList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		owner, h := w.ids[1], w.house(0).home
		w.house(1).end() // the test speaks for it
		claim := func(req *wire.ClaimRequest, hosts ...string) {
			t.Helper()
			for _, host := range hosts {
				req.Records = append(req.Records, Record{Host: host, Epoch: 1, Owner: owner}.wire())
			}
			if _, err := h.Claim(context.Background(), owner, req); err != nil {
				t.Fatal(err)
			}
		}
		host := w.hostOf(0, 1)
		claim(&wire.ClaimRequest{}, host)
		time.Sleep(2*w.cfg.RenewEvery + time.Second) // it is no longer news, and may be missed
		members := h.horizon.now.digest()
		for range 3 {
			claim(&wire.ClaimRequest{First: true}, "http://first.example")
			h.mu.Lock()
			for n := range uint64(maxListed) { // what many messages would leave
				h.fences.claimed[owner][n] = struct{}{}
			}
			h.mu.Unlock()
			claim(&wire.ClaimRequest{}, host, "http://last.example")
			h.mu.Lock()
			if n := len(h.fences.claimed[owner]); n > maxListed {
				t.Errorf("%d hosts of the list are remembered", n)
			}
			h.mu.Unlock()
			claim(&wire.ClaimRequest{Last: true, Members: members})
		}
		time.Sleep(time.Second)
		if r, _, err := h.Record(host); err != nil || r.Owner != owner {
			t.Errorf("the host is taken: %+v, %v", r, err)
		}
		for range 2 {
			claim(&wire.ClaimRequest{First: true, Last: true, Members: members})
		}
		time.Sleep(time.Second)
		if r, _, err := h.Record(host); err != nil || r.Owner != w.ids[0] {
			t.Errorf("by short lists without it the host is not taken: %+v, %v", r, err)
		}
	})
}
