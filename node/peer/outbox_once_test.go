package peer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/node/netsim"
	"proxima/node/peer"
	"proxima/node/wire"
)

// Whatever peers answer, however often answers are lost, links move and the node restarts: each link gets one final
// answer.
func TestEveryLinkIsAnsweredOnce(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { everyLinkOnce(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func everyLinkOnce(t *testing.T, r *rand.Rand) {
	cfg := peer.Default()
	cfg.OutboxMessageLinks = 1 + r.IntN(20)
	cfg.OutboxMessageBytes = 1 << 10
	peers := []string{"a", "b", "c", "d"}
	var mu sync.Mutex
	final := map[string]int{} // final answers that the sender got
	calm := false
	lot := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	deliver := func(ctx context.Context, to string, req *wire.DeliverRequest) (*wire.DeliverResponse, error) {
		if d := lot(400); d > 0 {
			select {
			case <-time.After(time.Duration(d) * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		mu.Lock()
		defer mu.Unlock()
		fail := r.IntN(10)
		if calm {
			fail = 9
		}
		switch fail {
		case 0:
			return nil, peer.ErrUnavailable // never came
		case 1:
			return &wire.DeliverResponse{}, nil // nonsense
		}
		res := &wire.DeliverResponse{}
		for range req.Links {
			v := wire.Verdict(1 + r.IntN(6)) // one that is not known, too
			if calm {
				v = wire.Verdict_VERDICT_DUPLICATE
			}
			d := verdict(v)
			if v == wire.Verdict_VERDICT_MOVED {
				d.Record = &wire.Record{Host: "h", Epoch: 2, Owner: peers[r.IntN(len(peers))]}
			}
			res.Answers = append(res.Answers, d)
		}
		if fail == 2 {
			return nil, peer.ErrUnavailable // the answer was lost
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		for i, d := range res.Answers {
			switch d.Verdict {
			case wire.Verdict_VERDICT_ACCEPTED, wire.Verdict_VERDICT_DUPLICATE, wire.Verdict_VERDICT_REFUSED:
				final[req.Links[i].Url]++
			}
		}
		return res, nil
	}
	shelf := new(netsim.Shelf)
	gone := ""
	deps := peer.OutboxDeps{Shelf: shelf, Deliver: deliver,
		Route: func(*wire.Link) string { return []string{"a", "b", "c", "d", ""}[lot(5)] },
		Gone:  func(id string) bool { mu.Lock(); defer mu.Unlock(); return id == gone },
	}
	added := 0
	for life := range 6 {
		o, stop := running(t, cfg, deps)
		for range 30 {
			n := 1 + lot(50)
			add(t, o, peers[lot(4)], linksOf(fmt.Sprintf("s%d", added), n))
			added += n
			time.Sleep(time.Duration(lot(300)) * time.Millisecond)
			mu.Lock()
			gone = []string{"a", "b", "", "", ""}[r.IntN(5)]
			mu.Unlock()
		}
		if life == 5 {
			mu.Lock()
			calm, gone = true, ""
			mu.Unlock()
			for begin := time.Now(); o.Pending() > 0 && time.Since(begin) < time.Hour; {
				time.Sleep(time.Second)
			}
			if o.Pending() != 0 || shelf.Len() != 0 {
				t.Errorf("%d pending, %d keys", o.Pending(), shelf.Len())
			}
		}
		stop()
	}
	once := 0
	for url, n := range final {
		if n == 1 {
			once++
		} else {
			t.Errorf("%s: %d final answers", url, n)
		}
	}
	if once != added {
		t.Errorf("%d links of %d have a final answer", once, added)
	}
}
