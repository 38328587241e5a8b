package frontier

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// After its end the frontier answers all calls with ErrClosed: those that come then, those that wait, and the ends of what was out.
func TestCallsAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host, fresh = "http://h1.test", "http://h9.test"
		ctx := t.Context()
		l := inMemory(t)(ownServers(testConfig()))
		l.add(pages(host, 0, 3)...)
		l.Place(l.unplaced(host), []netip.Addr{addr1}, time.Hour, 0)
		l.finish(l.taking(time.Minute), Outcome{}) // robots.txt
		page, failed, dropped := l.taking(time.Minute), l.taking(time.Minute), l.taking(time.Minute)
		lost, refused := l.unplaced("http://h2.test"), l.unplaced("http://h3.test")
		taken := make(chan error, 1)
		go func() { taken <- second(l.Take(ctx)) }()
		synctest.Wait()
		l.stop()
		links, shelf := pages(fresh, 0, 1), l.Shelf('x')
		for what, err := range map[string]error{
			"a page": second(l.Finish(ctx, page, Outcome{Links: links})), "a page that failed": second(l.Finish(ctx, failed, Outcome{Ending: Failed})),
			"a page that was dropped": second(l.Finish(ctx, dropped, Outcome{Ending: Dropped})), "take": second(l.Take(ctx)), "take before": <-taken,
			"lost": l.Lost(ctx, lost, "no such name", false, false), "refused": l.Refuse(ctx, refused, "private", false),
			"resolve": second(l.Resolve(ctx)), "activate": l.Activate(ctx, fresh), "add": second(l.Add(ctx, links)), "role": third(l.RoleOf(ctx, host)),
			"export": fourth(l.Export(ctx, host, Cursor{}, 10, 1<<20)), "sync": l.Sync(ctx), "get": second(shelf.Get([]byte("k"))),
			"put": shelf.Put([]byte("k"), nil), "scan": shelf.Scan(nil, nil),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// What was given to a caller in the moment in which it gave up is not lost: the caller gets it. Nothing is given afterwards.
func TestAnswersToCallersThatGiveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := &front{ledger: &ledger{closed: make(chan struct{})}}
	for range 100 { // a caller that finds both looks at either first
		w := newWaiter[int]()
		w.answer <- 7
		if answer, err := w.wait(ctx, f); answer != 7 || err != nil {
			t.Fatalf("it gets %d, %v", answer, err)
		}
	}
	w := newWaiter[int]()
	if _, err := w.wait(ctx, f); !errors.Is(err, context.Canceled) || !w.gone {
		t.Errorf("it is gone: %v, %v", w.gone, err)
	}
}

// Whoever waits for something that does not come stops with its context: a node ends those that wait before its frontier.
func TestThoseThatWaitGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(testConfig())
		for what, wait := range map[string]func(context.Context) error{
			"take":      func(ctx context.Context) error { return second(l.Take(ctx)) },
			"resolve":   func(ctx context.Context) error { return second(l.Resolve(ctx)) },
			"wanted":    func(ctx context.Context) error { return second(l.Wanted(ctx)) },
			"unchecked": func(ctx context.Context) error { return second(l.Unchecked(ctx)) },
		} {
			ctx, cancel := context.WithCancel(t.Context())
			over := make(chan error, 1)
			go func() { over <- wait(ctx) }()
			synctest.Wait()
			early := len(over)
			cancel()
			if synctest.Wait(); early > 0 || len(over) == 0 {
				t.Errorf("%s: it waits %v, and after the end of its context %v", what, early == 0, len(over) == 0)
			} else if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// A disk that takes nothing any more does not hold up the end for ever, although Badger tries again for ever.
func TestEndWithoutDisk(t *testing.T) {
	for name, end := range map[string]func(l *life) error{"stopped": (*life).halt, "by itself": (*life).ends} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "store")
			cfg, polite := testConfig()
			l := beginWith(t, dir, cfg, polite, Deps{}, func(f *Frontier) { f.store.patience = 10 * time.Millisecond })
			l.add(page("http://h1.test", 1))
			lock, err := os.Open(dir)
			must(t, err)
			defer lock.Close()
			must(t, os.Rename(dir, dir+" gone"))
			if err := end(l); err == nil || !strings.Contains(err.Error(), "close store") {
				t.Errorf("it ends with %v", err)
			}
			must(t, os.Rename(dir+" gone", dir))
			must(t, unix.Flock(int(lock.Fd()), unix.LOCK_EX)) // Badger closes now
			_ = lock.Close()
			l = begin(t, dir, cfg, polite, Deps{})
			if v, err := l.Add(t.Context(), pages("http://h1.test", 0, 2)); err != nil || count(v, Duplicate) != 1 {
				t.Errorf("afterwards: %v, %v", v, err)
			}
		})
	}
}

// A store closes when its last user has gone. Meanwhile it takes no other.
func TestCloseWaitsForUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := openStore("", 4, 2)
		if err != nil || !s.enter() {
			t.Fatal("it cannot be used", err)
		}
		closed := make(chan error, 1)
		go func() { closed <- s.close() }()
		synctest.Wait()
		if len(closed) > 0 || s.enter() {
			t.Error("it is closed while in use, or takes another user")
		}
		s.exit()
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
