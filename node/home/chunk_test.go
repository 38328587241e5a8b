package home

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/fetch/robots"
	"proxima/frontier"
	"proxima/node/peer"
	"proxima/node/wire"
)

// TestLargestChunk packs what a chunk may hold at most: it fits into the smallest message that a node may be configured
// for, whether the URLs are long or many.
func TestLargestChunk(t *testing.T) {
	least := peer.Default()
	least.OutboxMessageKiB = 1
	for least.MessageMiB = 1; least.Validate() != nil; least.MessageMiB++ {
	}
	for _, length := range []int{1, 30, 8192} {
		host, cfg := "http://long.example", Default()
		cfg.ChunkURLs = 50_000
		if err := cfg.Validate(); err != nil {
			t.Fatal(err)
		}
		store := frontier.Default()
		store.FilterMiB, store.MemtableMiB, store.MinFreeMiB = 1, 4, 0
		f, err := frontier.Open("", store, frontier.DefaultPoliteness(), frontier.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		file := strings.Repeat("#", robots.MaxBytes+1)
		whole := frontier.Chunk{State: &frontier.HostState{Robots: &frontier.RobotsFile{Body: []byte(file), Valid: time.Hour}}}
		for n := range min(cfg.ChunkURLs, 2*chunkBytes/length) {
			whole.Pending = append(whole.Pending, frontier.PendingURL{Path: fmt.Sprintf("/%0*d", length, n), Sitemap: true,
				Depth: 255, Hops: 255})
		}
		err = f.SetHold(ctx, host, frontier.Arriving)
		for part := range slices.Chunk(whole.Pending, 50) {
			if err == nil {
				_, err = f.Import(ctx, host, frontier.Chunk{State: whole.State, Pending: part}, frontier.Discovered)
			}
			whole.State = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		c, _, _, err := f.Export(ctx, host, frontier.Cursor{}, cfg.ChunkURLs, chunkBytes)
		if err != nil {
			t.Fatal(err)
		}
		req := &wire.TransferRequest{Record: Record{Host: host, Epoch: 1, Owner: fuzzSelf}.wire(), Chunk: chunkToWire(c)}
		if n := proto.Size(req); n > least.MessageMiB<<20 || c.State.Robots == nil {
			t.Errorf("%d URLs of %d bytes and a robots.txt make a message of %d bytes; message_mib may be %d", len(c.Pending), length,
				n, least.MessageMiB)
		} else {
			t.Logf("%d URLs of %d bytes: %d bytes", len(c.Pending), length, n)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// TestLongURLs hands a host over whose URLs are as long as they may be. As many as a chunk
// may hold are more than a message may: they go in more chunks, and so does the second copy.
func TestLongURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, func(c *Config) { c.ChunkURLs = Default().ChunkURLs })
		host := w.hostOf(0, 1)
		w.set(func() {
			w.before = func(_, _ string, req proto.Message) error {
				if n := proto.Size(req); n > 2*chunkBytes {
					return fmt.Errorf("a message of %d bytes is refused", n)
				}
				return nil
			}
		})
		var links []frontier.Link
		for n := range 1500 {
			l := link(host, n)
			l.URL.Path += "/" + strings.Repeat("long", 480)
			links = append(links, l)
		}
		if err := w.house(0).offer(links...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.copyIs(host, 1, digestOf(links, nil))
		if err := w.house(0).home.HandOff(context.Background(), host, w.ids[1], true, "test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		w.is(host, 1, digestOf(links, nil))
	})
}
