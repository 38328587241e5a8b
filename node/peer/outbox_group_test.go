package peer_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

var errBroken = errors.New("shelf is broken")

// Pages that end at the same time share a step of the store, and what was just written is not read again.
func TestAddsShareSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var steps, gets atomic.Int64
		peers, shelf := &answerer{}, &netsim.Shelf{Before: func(step string) error {
			if step == "Get" {
				gets.Add(1)
				return nil
			}
			steps.Add(1)
			time.Sleep(10 * time.Millisecond)
			return nil
		}}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: peers.deliver})
		var adders sync.WaitGroup
		for i := range 64 {
			adders.Go(func() {
				if err := o.Add(t.Context(), map[string][]*wire.Link{fmt.Sprintf("peer%d", i%3): linksOf(fmt.Sprint(i), 4)}); err != nil {
					t.Error(err)
				}
			})
		}
		adders.Wait()
		if n := steps.Load(); n > 1+2 { // one reads the shelf
			t.Errorf("%d steps for 64 adds at once, want 2", n-1)
		}
		time.Sleep(10 * time.Second)
		if n := o.Pending(); n != 0 || o.Stats().Accepted != 256 {
			t.Errorf("%d links are left, %+v", n, o.Stats())
		}
		if n := gets.Load(); n > 0 {
			t.Errorf("%d blocks were read again", n)
		}
	})
}

// A step that fails fails for all whose links it had, and the next one is tried.
func TestAddsShareErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := new(netsim.Shelf)
		o, err := peer.NewOutbox(peer.Default(), peer.OutboxDeps{Shelf: shelf})
		if err != nil {
			t.Fatal(err)
		}
		add := func(want error) {
			t.Helper()
			shelf.Before = func(string) error { time.Sleep(10 * time.Millisecond); return want }
			var adders sync.WaitGroup
			for i := range 8 {
				adders.Go(func() {
					if err := o.Add(t.Context(), map[string][]*wire.Link{"peer": linksOf(fmt.Sprint(i), 4)}); !errors.Is(err, want) {
						t.Errorf("error %v, want %v", err, want)
					}
				})
			}
			adders.Wait()
		}
		add(errBroken)
		if o.Pending() != 0 {
			t.Errorf("%d links wait that are on no disk", o.Pending())
		}
		add(nil)
		if o.Pending() != 32 {
			t.Errorf("%d links wait, want 32", o.Pending())
		}
	})
}
