package ownership

import (
	"context"
	"fmt"
	"testing"
	"time"

	"proxima/frontier"
	"proxima/node/view"
)

// BenchmarkView changes the settled members of a node with a million records. It measures how long it takes at most, in ms, to find the
// owner of a link while the node counts its records again.
//
//	go test ./node/ownership -run '^$' -bench View -benchtime 5x
func BenchmarkView(b *testing.B) {
	const hosts = 1_000_000
	cfg := frontier.Default()
	cfg.MinFreeMiB = 0
	f, err := frontier.Open(b.TempDir(), cfg, frontier.DefaultPoliteness(), frontier.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 2)
	go func() { ended <- f.Run(ctx) }()
	var ids []string
	for i := range 9 {
		ids = append(ids, fmt.Sprintf("%032x", i+1))
	}
	host := func(i int) string { return fmt.Sprintf("https://www.host-%d.example", i) }
	shelf := f.Shelf('r')
	for i := 0; i < hosts; i += 1000 {
		if err := shelf.Batch(func(put func(k, v []byte), _ func([]byte)) {
			for j := i; j < i+1000; j++ {
				r := Record{Host: host(j), Epoch: 2, Owner: ids[j%8], Assigned: true}
				put([]byte(r.Host), r.encode())
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	o := New(Default(), Deps{Frontier: f, Records: shelf, Warn: func(err error) { b.Error(err) }})
	counting, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- o.runRecounts(counting) }()
	var most, least time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		o.SetView(view.View{Self: ids[0], Settled: ids[:8+n%2], Alive: ids[:1], Majority: true})
		for i, busy := 0, true; busy; i++ {
			asked := time.Now()
			if _, err := o.whereTo(host(i * 7919 % hosts)); err != nil {
				b.Fatal(err)
			}
			most = max(most, time.Since(asked))
			o.mu.Lock()
			busy = o.tallies.counting
			o.mu.Unlock()
		}
		least = max(least, time.Since(began))
	}
	b.ReportMetric(float64(most.Microseconds())/1000, "ms_waited_at_most")
	b.ReportMetric(float64(least.Milliseconds()), "ms_to_count")
	stop()
	cancel()
	for _, c := range []chan error{ended, over} {
		if err := <-c; err != nil {
			b.Error(err)
		}
	}
}
