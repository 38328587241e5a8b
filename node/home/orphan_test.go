package home

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// TestHomeDiesBeforeItsWord lets the home of a host die while its owner waits for its word: that the host is the owner's,
// or that it may go to a better peer. The owner is the next home and needs nobody's word; nothing waits for ever.
func TestHomeDiesBeforeItsWord(t *testing.T) {
	for _, test := range []struct {
		name string
		wish bool
	}{{"that it is the owner", false}, {"that it may hand over", true}} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTown(t, 3, nil)
				host := w.hostOf(0, 1)
				links := pages(host, 0, 30)
				if err := w.house(0).offer(links...); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second) // its second copy is made
				silence := func() {
					w.set(func() {
						w.before = func(_, to string, req proto.Message) error {
							if _, ok := req.(*wire.TransferRequest); to != w.ids[0] || ok {
								return nil
							}
							time.Sleep(10 * time.Second) // as a call takes that is not answered
							return errGone
						}
					})
				}
				if !test.wish {
					silence()
				}
				if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if test.wish {
					silence()
					time.Sleep(2 * w.cfg.RenewEvery) // a renewal is under way
					w.house(1).home.WishMove(host, w.ids[2], "better")
				}
				if !w.house(1).home.Busy() {
					t.Fatal("the owner waits for nothing")
				}
				w.believe(func() { w.left[w.ids[0]] = true })
				w.house(0).end()
				time.Sleep(w.cfg.SweepEvery)
				owner := 1
				if w.house(2).had(Received) > 0 { // a wish may fail
					owner = 2
				}
				w.is(host, owner, digestOf(links, nil))
				if n := w.house(1).had(HandedOff) + w.house(1).had(Aborted); test.wish && n != 1 {
					t.Errorf("its wish was tried %d times", n)
				}
			})
		})
	}
}

// TestDoubtBeforeTheWord lets an owner that its home has not confirmed hand the host on, and takes the answer to the
// commit away: it takes the host back by a new record, and it is that one which the home confirms.
func TestDoubtBeforeTheWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 3, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 30)
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		w.set(func() {
			w.before = func(_, to string, req proto.Message) error {
				if _, ok := req.(*wire.ClaimRequest); to == w.ids[0] && ok {
					return errGone
				}
				return nil
			}
			w.after = func(from, _ string, req, _ proto.Message) error {
				if r, ok := req.(*wire.TransferRequest); ok && r.GetCommit() && from == w.ids[1] {
					return errGone
				}
				return nil
			}
		})
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		if err := w.house(1).home.HandOff(context.Background(), host, w.ids[2], true, "test"); err == nil {
			t.Fatal("a hand-off without an answer succeeded")
		}
		w.set(func() {
			w.before = func(from, _ string, req proto.Message) error {
				if _, ok := req.(*wire.ClaimRequest); ok && from == w.ids[2] {
					return errGone // it is late
				}
				return nil
			}
			w.after = nil
		})
		time.Sleep(2 * w.cfg.RenewEvery)
		w.set(func() { w.before = nil })
		time.Sleep(w.cfg.SweepEvery)
		w.is(host, 1, digestOf(links, nil))
	})
}
