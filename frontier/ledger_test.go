package frontier

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What a request writes for its caller must not be written once the caller has its answer.
func TestNoRequestRunsAfterItsCallerHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig()).ledger
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
		if len(begun) > 0 {
			t.Errorf("the caller of a request that has begun left it, with %v", <-begun)
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
			return errors.Join(err, l.decideFinish(b, &taskEnd{host: host, pending: p}))
		})
		if d := life.digest(host); err != nil || d != (Digest{Drops: 1}) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// What drops or removes a host knows of all that was handed in before, although it has just been decided with others.
func TestDropKnowsWhatWasJustAdded(t *testing.T) {
	const host = "http://h1.test"
	for name, end := range map[string]func(l *life) error{
		"drop":   func(l *life) error { return second(l.DropHost(context.Background(), host, "why")) },
		"remove": func(l *life) error { return l.Remove(context.Background(), host) },
	} {
		synctest.Test(t, func(t *testing.T) {
			l := inMemory(t)(testConfig())
			l.add(page(host, 0))
			hold, ended := make(chan struct{}), make(chan error)
			for _, request := range []func(){
				func() { l.ledger.do(context.Background(), together, func(*batch) error { <-hold; return nil }) }, //nolint:errcheck // it waits
				func() { l.add(page(host, 1)) },
				func() { ended <- end(l) },
			} {
				go request()
				synctest.Wait()
			}
			close(hold)
			if err, s := <-ended, l.Status(); err != nil || s.Pending != 0 {
				t.Errorf("%s: %v, %d URLs are left", name, err, s.Pending)
			}
		})
	}
}

// A link to another host than the one before may make a record. So fewer links to many hosts go into one request than to one host.
func TestPortionsLeaveRoomForRecords(t *testing.T) {
	one, many := make([]Link, maxRequestURLs), make([]Link, maxRequestURLs)
	for i := range one {
		one[i].URL.Host, many[i].URL.Host = "http://h", fmt.Sprintf("http://h%d", i)
	}
	most := maxRequestBytes/recordCost + 1 // the last may exceed the bound
	if a, b := portion(one), portion(many); a != maxRequestURLs || b == 0 || b > most {
		t.Errorf("%d links to one host in a request, and %d to as many hosts, want %d and at most %d", a, b, maxRequestURLs, most)
	}
}
