package peer_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"proxima/node/peer"
	"proxima/node/wire"
)

// loopback connects two nodes by TCP; b accepts every link.
func loopback(b *testing.B, accepted *atomic.Int64) *peer.Client {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	h := &fakeHandler{}
	h.OnDeliver = func(_ context.Context, _ string, r *wire.DeliverRequest) (*wire.DeliverResponse, error) {
		accepted.Add(int64(len(r.Links)))
		return accepts(r.Links), nil
	}
	server, err := peer.NewServer(peer.Default(), peer.ServerDeps{ID: "b", Run: "bench", Secret: secretOf(1), Listener: l,
		Handler: h.carriesOut()})
	must(b, err)
	client, err := peer.NewClient(peer.Default(), peer.ClientDeps{ID: "a", Boot: 1, Run: "bench", Secret: secretOf(1),
		Addr: func(string) (string, bool) { return l.Addr().String(), true }})
	must(b, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Run(ctx) }()
	b.Cleanup(func() {
		client.Close()
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return client
}

func benchLinks(n int) []*wire.Link {
	links := make([]*wire.Link, n)
	for i := range links {
		links[i] = &wire.Link{Url: fmt.Sprintf("https://www.example-%d.org/articles/2009/%d/page-%x.html?id=%d",
			i%20, i%12, i*2654435761, i), Depth: uint32(i % 7)}
	}
	return links
}

// Messages of 1,000 links, one after the other.
func BenchmarkDeliver(b *testing.B) {
	var accepted atomic.Int64
	client, links := loopback(b, &accepted), benchLinks(1000)
	b.ResetTimer()
	for b.Loop() {
		if _, err := client.Deliver(context.Background(), "b", &wire.DeliverRequest{Links: links}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(accepted.Load())/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(float64(client.Counts().Procedures["Deliver"].BytesSent)/float64(accepted.Load()), "B/link")
}

// The same through the outbox, with its shelf in memory: added in blocks of 50, as pages bring them.
func BenchmarkOutbox(b *testing.B) {
	var accepted atomic.Int64
	client, links := loopback(b, &accepted), benchLinks(50)
	o, stop := running(b, peer.Default(), peer.OutboxDeps{Deliver: client.Deliver})
	b.ResetTimer()
	for b.Loop() {
		for range 20 {
			if err := o.Add(b.Context(), map[string][]*wire.Link{"b": links}); err != nil {
				b.Fatal(err)
			}
		}
		for o.Pending() > 100_000 {
			time.Sleep(time.Millisecond)
		}
	}
	for o.Pending() > 1000 { // the last message may wait for company
		time.Sleep(time.Millisecond)
	}
	b.ReportMetric(float64(accepted.Load())/b.Elapsed().Seconds(), "links/s")
	stop()
}
