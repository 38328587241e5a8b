package frontier

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits for a host at a reserved server gets its tasks one by one, or hears why none will come.
func TestTakeFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const one, two = "http://h1.test", "http://h2.test"
		cfg, polite := testConfig()
		cfg.FrontHosts = 1
		l := crawling(t, "", cfg, polite)
		l.add(append(pages(one, 0, 3), pages(two, 0, 3)...)...)
		fails := func(host string, addr netip.Addr, want error) {
			t.Helper()
			if _, err := l.TakeFrom(t.Context(), host, addr); !errors.Is(err, want) {
				t.Errorf("%s at %s: %v, want %v", host, addr, err, want)
			}
		}
		fails(one, addr1, ErrNotReserved)
		for _, host := range []string{one, two} { // more than have room
			must(t, l.Activate(t.Context(), host))
		}
		synctest.Wait()
		if addrs, ok := l.Placed(two); !ok || !slices.Equal(addrs, []netip.Addr{addr1}) {
			t.Fatalf("%s is at %v, %v", two, addrs, ok)
		}
		other := addr1.Next()
		l.Reserve(addr1, true)
		l.Reserve(other, true)
		fails(one, other, ErrElsewhere)
		fails("http://h3.test", addr1, ErrNoURL)
		l.imported("http://h4.test", Chunk{Pending: []PendingURL{{Path: "/"}}})
		fails("http://h4.test", addr1, ErrNoURL) // a replica
		if task := l.taking(time.Minute); task != nil {
			t.Errorf("%s of a reserved server", task.URL)
		}
		tasks := make(chan *Task, 2)
		take := func(host string) {
			task, err := l.TakeFrom(t.Context(), host, addr1)
			if err != nil {
				t.Error(err)
			}
			tasks <- task
		}
		go take(one)
		go take(two)
		for range 2 { // robots.txt files
			task := <-tasks
			if time.Sleep(time.Minute); len(tasks) > 0 {
				t.Errorf("%s and another task at once", task.URL)
			}
			l.finish(task, Outcome{})
		}
		take(two)
		time.AfterFunc(time.Second, func() { l.Reserve(addr1, false) })
		fails(one, addr1, ErrNotReserved)
		l.finish(<-tasks, Outcome{})
		if got := l.work(9); len(got) != 5 {
			t.Errorf("after the reservation %q are downloaded", got)
		}
		l.Reserve(other, false)
		time.Sleep(70 * time.Minute)
		l.mu.Lock()
		defer l.mu.Unlock()
		if len(l.bench.servers)+len(l.takers) != 0 {
			t.Errorf("%d servers, %d takers are remembered for nothing", len(l.bench.servers), len(l.takers))
		}
	})
}

// The store is not closed under a caller who reads a host from it.
func TestStopWhileAHostIsActivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		var l *life
		l = begin(t, "", cfg, polite, Deps{Blocked: func(string) string { // between the record of the host and its URLs
			go l.stop()
			synctest.Wait()
			return ""
		}})
		l.add(page("http://h1.test", 0))
		if err := l.Activate(t.Context(), "http://h1.test"); err != nil {
			t.Error(err)
		}
	})
}

// What is imported meanwhile keeps a taker waiting, and does not send it away.
func TestTakeFromWaitsForAnImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		l := inMemory(t)(testConfig())
		l.placing(addr1)
		l.add(pages(host, 0, 9)...)
		l.Reserve(addr1, true)
		got := map[string]bool{}
		for i := range 4 {
			task, err := l.TakeFrom(t.Context(), host, addr1)
			if err != nil || got[task.URL.Path] {
				t.Fatalf("task %d: %v, %v", i, task, err)
			}
			got[task.URL.Path] = true
			l.finish(task, Outcome{})
			time.AfterFunc(time.Second/2, func() { // while the next taker waits for the gap
				l.imported(host, Chunk{Done: []uint64{page(host, 8-i).URL.Hash()}})
			})
		}
	})
}

// Retry ends the waits of a host, but not the spacing of its server: what another node may still be asking for, what the last grant says, and
// a multiple of the last download time.
func TestRetryKeepsTheSpacing(t *testing.T) {
	const host = "http://h1.test"
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases = true
		l := crawling(t, "", cfg, polite)
		l.add(pages(host, 0, 9)...)
		l.Grant(addr1, time.Now().Add(time.Hour), 20*time.Second)
		begun := time.Now()
		must(t, l.Activate(t.Context(), host))
		for _, c := range []struct {
			wait time.Duration
			out  Outcome
		}{
			{20 * time.Second, Outcome{}}, // robots.txt
			{polite.MinGap, Outcome{Ending: Again, Trouble: Interrupted, Lingers: 40 * time.Second}},
			{40*time.Second + polite.MinGap, Outcome{Elapsed: 10 * time.Second}},
			{10 * time.Second, Outcome{Ending: Again, Trouble: Busy, RetryAfter: time.Hour}},
			{polite.MinGap, Outcome{}},
		} {
			time.Sleep(polite.MinGap / 2)
			must(t, l.Retry(t.Context(), host))
			task := l.taking(time.Minute)
			if wait := time.Since(begun); wait != c.wait {
				t.Errorf("asked after %v, not %v", wait, c.wait)
			}
			l.finish(task, c.out)
			begun = time.Now()
		}
	})
}

// Callers that wait for a task while the disk is full, and go away, leave nothing behind.
func TestTakersGoWhileTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, free := filling(t, Deps{})
		l.placing(addr1)
		l.add(pages("http://h1.test", 0, 3)...)
		l.Reserve(addr1, true)
		free.Store(99 << 20)
		time.Sleep(time.Second)
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := l.TakeFrom(ctx, "http://h1.test", addr1); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("with a full disk: %v", err)
			}
			cancel()
		}
		l.mu.Lock()
		left := len(l.takers)
		l.mu.Unlock()
		if left > 1 { // the last one goes with the next
			t.Errorf("%d of 20 callers are left", left)
		}
	})
}

// A node that is paused gives out no task of a reserved server either.
func TestNoTakerIsServedDuringAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		l := inMemory(t)(testConfig())
		l.placing(addr1)
		l.add(pages(host, 0, 3)...)
		l.Reserve(addr1, true)
		l.Hold("operator", "by hand")
		for _, want := range []error{context.DeadlineExceeded, nil} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if task, err := l.TakeFrom(ctx, host, addr1); !errors.Is(err, want) {
				t.Errorf("a task comes, or none: %v, %v, not %v", task, err, want)
			}
			cancel()
			l.Hold("operator", "")
		}
	})
}
