package peer_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/peer"
	"proxima/node/wire"
)

// slowShelf takes its time for each step, and counts them.
type slowShelf struct {
	*memShelf

	mu          sync.Mutex
	steps, gets int
}

func (s *slowShelf) counts() (steps, gets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps, s.gets
}

func (s *slowShelf) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	s.gets++
	s.mu.Unlock()
	return s.memShelf.Get(key)
}

func (s *slowShelf) Batch(fill func(set func(key, value []byte), del func(key []byte))) error {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	s.steps++
	s.mu.Unlock()
	return s.memShelf.Batch(fill)
}

// Pages that end at the same time share a step of the store, and what was just written is not read again.
func TestAddsShareSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf, peers := &slowShelf{memShelf: newShelf()}, &answerer{}
		o, stop := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: peers.deliver})
		defer stop()
		var adders sync.WaitGroup
		for i := range 64 {
			adders.Go(func() {
				if err := o.Add(t.Context(), map[string][]*wire.Link{fmt.Sprintf("peer%d", i%3): linksOf(fmt.Sprint(i), 4)}); err != nil {
					t.Error(err)
				}
			})
		}
		adders.Wait()
		if steps, _ := shelf.counts(); steps > 2 {
			t.Errorf("%d steps for 64 adds at once, want 2", steps)
		}
		time.Sleep(10 * time.Second)
		if n := o.Pending(); n != 0 || o.Stats().Accepted != 256 {
			t.Errorf("%d links are left, %+v", n, o.Stats())
		}
		if _, gets := shelf.counts(); gets > 0 {
			t.Errorf("%d blocks were read again", gets)
		}
	})
}

// A step that fails fails for all whose links it had, and the next one is tried.
func TestAddsShareErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shelf := &slowShelf{memShelf: newShelf()}
		o, err := peer.NewOutbox(peer.Default(), peer.OutboxDeps{Shelf: shelf})
		if err != nil {
			t.Fatal(err)
		}
		add := func(want error) {
			t.Helper()
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
		shelf.BreakAfter(0)
		add(errBroken)
		if o.Pending() != 0 {
			t.Errorf("%d links wait that are on no disk", o.Pending())
		}
		shelf.BreakAfter(-1)
		add(nil)
		if o.Pending() != 32 {
			t.Errorf("%d links wait, want 32", o.Pending())
		}
	})
}
