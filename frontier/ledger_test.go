package frontier

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What a request writes for its caller must not be written once the caller has its answer.
func TestNoRequestRunsAfterItsCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		life := begin(t, t.TempDir(), cfg, polite, Deps{})
		defer life.stop()
		l := life.ledger
		release := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(map[string]bool)
		ask := func(ctx context.Context, name string, wait <-chan struct{}) chan error {
			answer := make(chan error, 1)
			go func() {
				answer <- l.do(ctx, alone, func(*batch) error {
					<-wait
					ran[name] = true
					return nil
				})
			}()
			synctest.Wait()
			return answer
		}
		begun := ask(ctx, "begun", release)
		waiting := ask(ctx, "waiting", release)
		cancel()
		synctest.Wait()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the request that waited ends with %v", err)
		}
		select {
		case err := <-begun:
			t.Errorf("the caller of a request that has begun left it, with %v", err)
		default:
		}
		close(release)
		if err := <-begun; err != nil || !ran["begun"] {
			t.Errorf("the request that had begun: %v, run: %t", err, ran["begun"])
		}
		if err := <-ask(t.Context(), "after", release); err != nil || !ran["after"] || ran["waiting"] {
			t.Errorf("ran %v, %v", ran, err)
		}
	})
}

// The end of a page that was on its way to the ledger when its host was dropped changes nothing.
func TestEndOfADroppedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		life := inMemory(t)(testConfig())
		life.add(page(host, 1))
		l := life.ledger
		err := l.onHost(t.Context(), alone, host, func(b *batch, h *hostEntry) error {
			p := &pending{entry: entry{hash: page(host, 1).URL.Hash()}, ref: &blockRef{seq: l.seq, n: 1}}
			_, err := l.decideDrop(b, h, "test", time.Time{})
			return errors.Join(err, l.decideFinish(b, &finished{host: host, pending: p}))
		})
		if d := life.digest(host); err != nil || d != (Digest{Drops: 1}) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
