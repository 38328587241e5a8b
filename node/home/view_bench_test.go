package home

import (
	"context"
	"fmt"
	"testing"

	"proxima/frontier"
)

// BenchmarkView measures for how long a change of the settled members makes everything else wait at a node with a million
// records.
func BenchmarkView(b *testing.B) {
	const hosts = 1_000_000
	cfg := frontier.Default()
	cfg.MinFreeMiB = 0
	f, err := frontier.Open(b.TempDir(), cfg, frontier.DefaultPoliteness(), frontier.Deps{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- f.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}()
	var ids []string
	for i := range 9 {
		ids = append(ids, fmt.Sprintf("%032x", i+1))
	}
	shelf := f.Shelf('r')
	for i := 0; i < hosts; i += 1000 {
		if err := shelf.Batch(func(set func(k, v []byte), _ func([]byte)) {
			for j := i; j < i+1000; j++ {
				r := Record{Host: fmt.Sprintf("https://www.host-%d.example", j), Epoch: 2, Owner: ids[j%8], Assigned: true}
				set([]byte(r.Host), appendRecord(nil, r))
			}
		}); err != nil {
			b.Fatal(err)
		}
	}
	h, err := New(Default(), Deps{Frontier: f, Records: shelf, Warn: func(err error) { b.Error(err) }})
	if err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		if err := h.SetView(View{Self: ids[0], Settled: ids[:8+n%2], Alive: ids[:1], Majority: true}); err != nil {
			b.Fatal(err)
		}
	}
}
