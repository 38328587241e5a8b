package home

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// TestRestComesDuringADownload brings what a former owner has left of a host while a page of it is downloaded. It waits
// for the page; the page's links, and hosts that are given up meanwhile, must not wait for it.
func TestRestComesDuringADownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, nil)
		host := w.hostOf(0, 1)
		links := pages(host, 0, 5)
		if err := w.house(0).offer(links[:4]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second) // its second copy is made
		ctx := context.Background()
		l := w.house(0).life
		task, err := l.Take(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := l.home.Record(host)
		if err != nil {
			t.Fatal(err)
		}
		done := links[4].URL
		merged := make(chan error)
		go func() {
			res, err := l.home.Transfer(ctx, w.ids[1], &wire.TransferRequest{Record: r.wire(), Merge: true, Commit: true,
				Chunk: chunkToWire(frontier.Chunk{Done: []uint64{done.Hash()}})})
			if err == nil && res.GetStep() != wire.Step_STEP_COMMITTED {
				t.Errorf("it is answered by %v", res)
			}
			merged <- err
		}()
		synctest.Wait()
		select {
		case <-merged:
			t.Fatal("it did not wait for the page")
		default:
		}
		if !l.home.gate.TryLock() {
			t.Error("while it waits no host can be frozen, and then no link is routed")
		} else {
			l.home.gate.Unlock()
			if err := l.offer(pageOf(host, 0)); err != nil {
				t.Error(err)
			}
		}
		if _, err := l.Finish(ctx, task, frontier.Outcome{Asked: true, Robots: &frontier.RobotsOutcome{Lifetime: time.Hour}}); err != nil {
			t.Fatal(err)
		}
		if err := <-merged; err != nil {
			t.Error(err)
		}
		time.Sleep(3 * time.Second)
		d := digestOf(links, nil)
		d.Done, d.DoneXor = 1, done.Hash()
		w.is(host, 0, d)
	})
}
