package frontier

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases = true
		cfg.FrontHosts, cfg.HostBudget = 2, 2
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		ctx := t.Context()
		for h := 1; h <= 3; h++ {
			l.add(pages(fmt.Sprintf("http://h%d.test", h), 0, 5)...)
		}
		if _, err := l.TakeFrom(ctx, "http://h1.test", addr1); !errors.Is(err, ErrNotReserved) {
			t.Errorf("from a server that is not reserved: %v", err)
		}
		// A batch: brought in over the bound, resolved, reserved.
		for h := 1; h <= 3; h++ {
			if err := l.Activate(ctx, fmt.Sprintf("http://h%d.test", h)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if addrs, ok := l.Placed("http://h3.test"); !ok || len(addrs) != 1 || addrs[0] != addr1 {
			t.Fatalf("h3.test is at %v, %v", addrs, ok)
		}
		l.Reserve(addr1, true)
		short, cancel := context.WithTimeout(ctx, time.Minute)
		if _, err := l.TakeFrom(short, "http://h1.test", addr1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a lease: %v", err)
		}
		cancel()
		l.Grant(addr1, time.Now().Add(3*time.Hour), 0)
		if task := l.taking(time.Minute); task != nil {
			t.Errorf("%s of a reserved server", task.URL)
		}
		if e := l.Explain("http://h1.test"); e.Wait != "batch" {
			t.Errorf("h1.test waits for %s", e.Wait)
		}
		last := time.Now().Add(-time.Hour)
		take := func(host string, want Kind) {
			t.Helper()
			task, err := l.TakeFrom(ctx, host, addr1)
			if err != nil || task.Kind != want || task.Host != host || task.Server != addr1 {
				t.Fatalf("%s: %+v, %v", host, task, err)
			}
			if gap := time.Since(last); gap < time.Second {
				t.Errorf("%s asked after %v", host, gap)
			}
			time.Sleep(100 * time.Millisecond)
			last = time.Now()
			l.finish(task, Outcome{})
		}
		take("http://h2.test", Robots)
		for range 4 {
			take("http://h2.test", Page)
		}
		time.Sleep(2 * time.Hour) // longer than the name is valid: it stays where it is
		take("http://h2.test", Page)
		if _, err := l.TakeFrom(ctx, "http://h2.test", addr1); !errors.Is(err, ErrNoURL) {
			t.Errorf("from a host without URLs: %v", err)
		}
		take("http://h3.test", Robots)
		// Two wait for one server; both are served, one after the other.
		done := make(chan *Task, 2)
		for _, host := range []string{"http://h1.test", "http://h3.test"} {
			go func() {
				task, err := l.TakeFrom(ctx, host, addr1)
				if err != nil {
					t.Error(err)
				}
				done <- task
			}()
		}
		first := <-done
		time.Sleep(time.Minute)
		select {
		case second := <-done:
			t.Errorf("%s and %s at once", first.URL, second.URL)
		default:
		}
		l.finish(first, Outcome{})
		l.finish(<-done, Outcome{})
		if _, err := l.TakeFrom(ctx, "http://h1.test", netip.MustParseAddr("192.0.2.9")); !errors.Is(err, ErrNotReserved) {
			t.Errorf("elsewhere: %v", err)
		}
		l.Reserve(netip.MustParseAddr("192.0.2.9"), true)
		if _, err := l.TakeFrom(ctx, "http://h1.test", netip.MustParseAddr("192.0.2.9")); !errors.Is(err, ErrElsewhere) {
			t.Errorf("elsewhere: %v", err)
		}
		l.Reserve(netip.MustParseAddr("192.0.2.9"), false)
		// Whoever waits when the reservation ends is told; then all may take again.
		gone := make(chan error)
		go func() {
			_, err := l.TakeFrom(ctx, "http://h1.test", addr1)
			gone <- err
		}()
		synctest.Wait()
		l.Reserve(addr1, false)
		if err := <-gone; !errors.Is(err, ErrNotReserved) {
			t.Errorf("at the end of the reservation: %v", err)
		}
		n := 0
		for task := l.taking(time.Minute); task != nil; task = l.taking(time.Minute) {
			l.Grant(addr1, time.Now().Add(time.Hour), 0)
			l.finish(task, Outcome{})
			n++
		}
		if s := l.Status(); s.Pending != 0 {
			t.Errorf("%d pending after %d more tasks", s.Pending, n)
		}
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
		synctest.Wait()
		if err := l.Activate(t.Context(), "http://h1.test"); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// What is imported meanwhile keeps a taker waiting, and does not send it away.
func TestTakeFromWaitsForAnImport(t *testing.T) {
	l := inMemory(t)(ownServers(testConfig()))
	l.placing(addr1)
	links := pages("http://h1.test", 0, 60)
	l.add(links...)
	l.Reserve(addr1, true)
	got := map[string]bool{}
	for i := range 40 {
		task, err := l.TakeFrom(t.Context(), "http://h1.test", addr1)
		if err != nil {
			t.Fatalf("task %d: %v", i, err)
		}
		if task.Kind == Page {
			if got[task.URL.Path] {
				t.Errorf("%s twice", task.URL)
			}
			got[task.URL.Path] = true
		}
		imported := make(chan error)
		go func() {
			u := links[59-i%30].URL
			_, err := l.Import(t.Context(), "http://h1.test", Chunk{Done: []uint64{u.Hash()}}, Discovered)
			imported <- err
		}()
		l.finish(task, Outcome{})
		if i%2 == 0 {
			if err := <-imported; err != nil {
				t.Fatal(err)
			}
		} else {
			defer func() { <-imported }()
		}
		if len(got) == 25 {
			break
		}
	}
}

// Hosts are ready for the pages that are due again, too, and those that have nothing else among them.
func TestReadyForRevisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := inMemory(t)(recrawlConfig())
		l.placing(addr1)
		ready := func() string {
			got := ""
			for after := ""; ; {
				hosts, next, err := l.Ready(after, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				for _, h := range hosts {
					got += fmt.Sprint(h.Host, " ", h.Pending, "; ")
				}
				if after = next; next == "" {
					return got
				}
			}
		}
		l.add(append(pages("http://h1.test", 0, 30), pages("http://h3.test", 0, 5)...)...)
		l.visit(35, func(*Task) Outcome { return asSeen(1) })
		l.add(append(pages("http://h2.test", 0, 2), pages("http://h3.test", 5, 2)...)...)
		if got := ready(); got != "http://h2.test 2; http://h3.test 2; " {
			t.Errorf("ready before any page is due: %s", got)
		}
		time.Sleep(61 * time.Minute) // no page is left alone for longer
		if got := ready(); got != "http://h1.test 30; http://h2.test 2; http://h3.test 7; " {
			t.Errorf("ready when all pages are due: %s", got)
		}
		l.Reserve(addr1, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		task, err := l.TakeFrom(ctx, "http://h1.test", addr1)
		if err != nil || task.Page == nil {
			t.Fatalf("from a reserved server comes %+v, %v", task, err)
		}
		l.finish(task, Outcome{Ending: Again, Trouble: Interrupted})
		l.Reserve(addr1, false)
		l.role("http://h1.test", Replica)
		if got := ready(); got != "http://h2.test 2; http://h3.test 7; " {
			t.Errorf("ready when one host is not owned: %s", got)
		}
	})
}

// A request that another node may still be making counts as under way: the gap begins when it must have ended, and goes with
// the lease.
func TestLingeringRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases, polite.MaxRetryAfter = true, time.Second
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		l.add(pages("http://h1.test", 0, 5)...)
		if err := l.Activate(t.Context(), "http://h1.test"); err != nil {
			t.Fatal(err)
		}
		l.Reserve(addr1, true)
		l.Grant(addr1, time.Now().Add(time.Hour), 0)
		next := func() *Task {
			task, err := l.TakeFrom(t.Context(), "http://h1.test", addr1)
			if err != nil {
				t.Fatal(err)
			}
			return task
		}
		l.finish(next(), Outcome{}) // robots.txt
		l.finish(next(), Outcome{Ending: Again, Trouble: Interrupted, Asked: true, Lingers: 40 * time.Second})
		ended := time.Now()
		if s := l.Servers(); len(s) != 1 || s[0].Wait != 40*time.Second+polite.MinGap {
			t.Errorf("servers %+v", s)
		}
		task := next()
		if gap := time.Since(ended); gap != 40*time.Second+polite.MinGap {
			t.Errorf("asked again after %v", gap)
		}
		l.finish(task, Outcome{})
	})
}

// Retry ends the waits of a host, but not the spacing of its server: what another node may still be asking for, what the last grant says, and
// a multiple of the last download time.
func TestRetryKeepsTheSpacing(t *testing.T) {
	const host = "http://h1.test"
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases = true
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		l.add(pages(host, 0, 9)...)
		l.Grant(addr1, time.Now().Add(time.Hour), 20*time.Second)
		begun := time.Now()
		if err := l.Activate(t.Context(), host); err != nil {
			t.Fatal(err)
		}
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
			if err := l.Retry(t.Context(), host); err != nil {
				t.Fatal(err)
			}
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
