package ownership

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier"
	"proxima/node/wire"
)

// A host is queued because its replica differs, and must be handed over as well. The hand-off fails, and the replica is mended
// nevertheless.
func TestWishDoesNotTakeTheLookAway(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(9, 1, 2, 3)
		s.mustHave(host, 9, 1, 2)
		s.lose(func(l letter) bool { return l.from == 1 && l.to == 3 })
		s.node(2).spoil(host, 4)
		s.node(1).own.queue.add(host, false)
		s.node(1).own.Wish(host, idOf(3), "test")
		time.Sleep(30 * time.Second)
		s.mustHave(host, 9, 1, 2)
	})
}

// The last change before a hand-off shows that the replica differs. The hand-off fails, and the replica is mended nevertheless.
func TestHandOffThatFailsMendsTheReplica(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host := s.found(8, 1, 2, 3)
		s.mustHave(host, 8, 1, 2)
		s.node(2).spoil(host, 4)
		s.lose(func(l letter) bool { return l.from == 1 && l.to == 3 })
		s.node(1).find(link(host, 8)) // no comparison is made while a change is on its way
		if err := s.node(1).own.HandOff(t.Context(), host, idOf(3), true, "test"); err == nil {
			t.Error("it was handed over without a message")
		}
		time.Sleep(30 * time.Second)
		s.mustHave(host, 9, 1, 2)
	})
}

// A host is shipped three times at most if what arrives always differs from what is sent. Then it stays here, and is crawled as before.
func TestTransferThatNeverAgrees(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, loads := s.found(8, 1, 2, 3), 0
		s.watch(func(l letter) {
			if l.from != 1 || l.to != 3 {
				return
			}
			switch res := l.res.(type) {
			case *wire.StoreResponse:
				res.Answers[0].Step = wire.Step_STEP_DIFFERS
			case *wire.LoadResponse:
				loads++
			}
		})
		if err := s.node(1).own.HandOff(t.Context(), host, idOf(3), true, "test"); !errors.Is(err, errRefused) || loads != 3 {
			t.Errorf("it was shipped %d times: %v", loads, err)
		}
		time.Sleep(time.Second)
		if owners := s.owners(host); !slices.Equal(owners, []int{1}) || !s.node(1).mayCrawl(host) {
			t.Errorf("it is owned by %v, and crawled: %v", owners, s.node(1).mayCrawl(host))
		}
	})
}

// A round that stored nothing wakes no waiters. They would make the next round begin at once, again and again, until the replica
// answers.
func TestNothingStoredWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h.test"
		s := newStream(time.Now())
		s.take(map[string]*frontier.Change{host: {Added: []frontier.PendingURL{{Path: path(0)}}}}, time.Now())
		s.next() // it is on its way
		var late []string
		var g sync.WaitGroup
		g.Go(func() {
			late, _ = s.await(t.Context(), []string{host}, time.Now(), manyLinks, time.Minute, time.Hour)
		})
		synctest.Wait()
		<-s.wake
		s.stored()
		synctest.Wait()
		select {
		case <-s.wake:
			t.Error("it is to be sent again")
		default:
		}
		s.stored(host)
		g.Wait()
		if len(late) > 0 {
			t.Errorf("late: %v", late)
		}
	})
}

// A node has an old copy of a host, and hears of a new owner whose replica is elsewhere. It gives its copy to the owner and removes it.
func TestCopyGoesWhenTheRecordSaysSo(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(9, 1, 2, 3, 4)
		r, _, err := s.node(1).own.Record(host)
		if err != nil {
			t.Fatal(err)
		}
		d := s.node(4).disk
		d.mu.Lock()
		d.host(host).role = frontier.Replica
		d.host(host).pending[path(3)] = true
		d.mu.Unlock()
		r.Owner = idOf(3) // as far as node 4 knows
		s.node(4).own.records.put(host, r)
		s.lose(nil)
		s.node(4).find(link(host, 5)) // node 3 names the home, and the home names the owner
		time.Sleep(2 * s.cfg.TakeAfter)
		s.mustHave(host, 9, 1, 2)
	})
}

// A host whose step fails rests longer each time, up to FenceAfter. An urgent one, for which the end of the crawl waits, is tried again
// soon, however often it has failed.
func TestPausesOfAHost(t *testing.T) {
	cfg := Default()
	for _, k := range []struct {
		tries  int
		urgent bool
		rests  time.Duration
	}{{1, false, cfg.RenewEvery / 4}, {1, true, cfg.RenewEvery / 4}, {4, true, cfg.RenewEvery}, {5, true, cfg.RenewEvery},
		{5, false, 5 * cfg.RenewEvery / 4}, {16, false, cfg.FenceAfter}, {100, false, cfg.FenceAfter}} {
		if d := cfg.pause(k.tries, k.urgent); d != k.rests {
			t.Errorf("after %d tries, urgent %v, it rests for %v, not %v", k.tries, k.urgent, d, k.rests)
		}
	}
}

// A node that removes its copy keeps the record if it is the witness, because both disks may be lost.
func TestWitnessKeepsTheRecord(t *testing.T) {
	onStage(t, []int{1, 2, 3, 4}, func(s *stage) {
		host := s.found(9, 1, 2, 3, 4)
		s.hand(host, 1, 3)
		time.Sleep(3 * s.cfg.TakeAfter)
		s.mustHave(host, 9, 3, 1)
		if r, ok, err := s.node(2).own.Record(host); err != nil || !ok || r.Owner != idOf(3) {
			t.Errorf("the witness knows %+v, %v, %v", r, ok, err)
		}
	})
}

// A witness is told the latest record, also if that came while it was told the one before.
func TestWitnessHearsTheLatestRecord(t *testing.T) {
	onStage(t, []int{1, 2, 3}, func(s *stage) {
		host, own := s.hostOf(1, 2, 3), s.node(1).own
		s.watch(func(l letter) {
			if l.from == 1 && l.to == 3 && is[*wire.StoreRequest](l) {
				s.node(1).put(Record{Host: host, Epoch: 2, Owner: idOf(1)})
			}
		})
		s.node(1).find(link(host, 0))
		time.Sleep(5 * time.Second)
		r, _, err := s.node(3).own.Record(host)
		own.mu.Lock()
		defer own.mu.Unlock()
		if err != nil || r.Epoch != 2 || len(own.unwitnessed) > 0 {
			t.Errorf("the witness knows %+v, %v; to be told: %v", r, err, own.unwitnessed)
		}
	})
}
