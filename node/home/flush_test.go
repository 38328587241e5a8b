package home

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/node/wire"
)

// TestFlush: a node that is about to leave tells all that is not told yet, what changes while a message is under way too,
// and waits for no peer longer than it may.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTown(t, 2, func(c *Config) { c.BackupEvery = time.Hour })
		host, h := w.hostOf(0, 1), w.house(0).home
		slow := func(d time.Duration) {
			w.set(func() {
				w.before = func(_, _ string, req proto.Message) error {
					if _, ok := req.(*wire.BackupRequest); ok {
						time.Sleep(d)
					}
					return nil
				}
			})
		}
		links := pages(host, 0, 40)
		if err := w.house(0).offer(links[:20]...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * w.cfg.SweepEvery) // its second copy is made
		w.copyIs(host, 1, digestOf(links[:20], nil))
		if err := w.house(0).offer(links[20:30]...); err != nil {
			t.Fatal(err)
		}
		slow(5 * time.Second)
		began, told := time.Now(), make(chan struct{})
		go func() {
			h.Flush(context.Background())
			close(told)
		}()
		time.Sleep(time.Second)
		if err := w.house(0).offer(links[30:]...); err != nil {
			t.Fatal(err)
		}
		<-told
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("two messages of 5 s took %v", d)
		}
		w.copyIs(host, 1, digestOf(links, nil))

		if err := w.house(0).offer(pages(host, 40, 41)...); err != nil {
			t.Fatal(err)
		}
		slow(time.Minute)
		began = time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		h.Flush(ctx)
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("a peer that does not answer held it up for %v", d)
		}
		slow(0)
		time.Sleep(time.Minute)
	})
}
