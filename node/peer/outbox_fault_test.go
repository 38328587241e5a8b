package peer_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

// A peer that breaks down over one link gets all the others, and that one when it has been mended.
func TestOutboxGoesRoundALinkThatBreaksItsPeer(t *testing.T) {
	const poison = "http://poison.example/"
	answers := func(more int) func([]*wire.Link) (*wire.DeliverResponse, error) {
		return func(links []*wire.Link) (*wire.DeliverResponse, error) {
			return accepts(make([]*wire.Link, max(0, len(links)+more))), nil
		}
	}
	for name, broken := range map[string]func([]*wire.Link) (*wire.DeliverResponse, error){
		"panic":               func([]*wire.Link) (*wire.DeliverResponse, error) { panic("index out of range") },
		"internal":            func([]*wire.Link) (*wire.DeliverResponse, error) { return nil, errors.New("read record: damaged") },
		"no answers":          answers(-1000),
		"one answer too few":  answers(-1),
		"one answer too many": answers(1),
	} {
		t.Run(name, func(t *testing.T) {
			betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
				var sent atomic.Int64
				var mended atomic.Bool
				b.handler.OnDeliver = func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
					if mended.Load() || !slices.ContainsFunc(r.Links, func(l *wire.Link) bool { return l.Url == poison }) {
						return accepts(r.Links), nil
					}
					sent.Add(1)
					return broken(r.Links)
				}
				shelf := new(netsim.Shelf)
				o, _ := running(t, peer.Default(), peer.OutboxDeps{Shelf: shelf, Deliver: a.client.Deliver})
				add(t, o, "b", linksOf("b", 200))
				add(t, o, "b", append(linksOf("c", 299), &wire.Link{Url: poison}))
				for range 20 {
					add(t, o, "b", linksOf("d", 100))
					sleep(time.Second)
				}
				if n := o.Stats().Accepted; n < 1500 {
					t.Errorf("%d of 2,499 links were accepted after 20 s", n)
				}
				sleep(3 * time.Minute)
				is(t, o, shelf, peer.OutboxStats{Accepted: 2499}, 1, 1)
				if n := sent.Load(); n > 60 {
					t.Errorf("the peer was broken %d times", n)
				}
				mended.Store(true)
				sleep(time.Minute)
				is(t, o, shelf, peer.OutboxStats{Accepted: 2500}, 0, 0)
			})
		})
	}
}

// Many such links, those of one host perhaps, take turns with the others.
func TestLinksThatBreakTheirPeerTakeTurns(t *testing.T) {
	betweenTwo(t, func(t *testing.T, w *world, a, b *testNode) {
		b.handler.OnDeliver = func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
			if slices.ContainsFunc(r.Links, func(l *wire.Link) bool { return l.Depth == 9 }) {
				return nil, errors.New("read record: damaged")
			}
			return accepts(r.Links), nil
		}
		o, _ := running(t, peer.Default(), peer.OutboxDeps{Deliver: a.client.Deliver})
		for range 30 {
			add(t, o, "b", []*wire.Link{{Url: "http://poison.example/", Depth: 9}})
		}
		for range 300 {
			add(t, o, "b", linksOf("b", 10))
			sleep(time.Second)
		}
		sleep(10 * time.Second)
		if n := o.Stats().Accepted; n < 2900 || o.Stats().SetAside != 0 {
			t.Errorf("%d of 3,000 links were accepted, %+v", n, o.Stats())
		}
	})
}
