package peer_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

func TestDamagedBlocksAreSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{err: func(string, []*wire.Link) error { return peer.ErrUnavailable }}, new(netsim.Shelf)
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver}
		o, stop := running(t, peer.Default(), deps)
		add(t, o, "b", linksOf("b", 7))
		add(t, o, "b", linksOf("c", 5))
		stop()
		var keys [][]byte
		if err := shelf.Scan(nil, func(k, v []byte) error {
			keys = append(keys, k)
			return shelf.Batch(func(set func(key, value []byte), _ func([]byte)) {
				set(k, v[:min(len(v), len(v)-1+len(keys)-1)]) // the first loses a byte
			})
		}); err != nil {
			t.Fatal(err)
		}
		a.err = nil
		o, _ = running(t, peer.Default(), deps)
		sleep(2 * time.Second)
		if s := o.Stats(); s.SetAside != 7 || s.Accepted != 5 || o.Pending() != 0 || len(keys) != 2 {
			t.Errorf("%+v, %d pending of %d keys", s, o.Pending(), len(keys))
		}
	})
}

func TestOutboxTellsABrokenShelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, shelf := &answerer{}, new(netsim.Shelf)
		deps := peer.OutboxDeps{Shelf: shelf, Deliver: a.deliver, Route: func(*wire.Link) string { return "" }}
		o, err := peer.NewOutbox(peer.Default(), deps)
		if err != nil {
			t.Fatal(err)
		}
		add(t, o, "b", linksOf("b", 10))
		shelf.Before = func(string) error { return errBroken }
		if err := o.Add(context.Background(), map[string][]*wire.Link{"b": linksOf("c", 1)}); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		if err := o.Run(context.Background()); !errors.Is(err, errBroken) {
			t.Error(err)
		}
		shelf.Before = nil
		o, _ = running(t, peer.Default(), deps)
		sleep(2 * time.Second)
		if s := o.Stats(); s.Accepted != 10 || o.Pending() != 0 {
			t.Errorf("%+v, %d pending", s, o.Pending())
		}
	})
}
