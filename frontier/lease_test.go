package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var addr1 = netip.MustParseAddr("192.0.2.1")

// placing puts all names at an address until the frontier ends.
func (l *life) placing(addr netip.Addr) {
	go func() {
		for {
			u, err := l.Resolve(context.Background())
			if err != nil {
				return
			}
			l.Place(u, []netip.Addr{addr}, time.Hour, 0)
		}
	}()
}

// taking returns the next task within a time, or nil.
func (l *life) taking(within time.Duration) *Task {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	task, err := l.Take(ctx)
	if err != nil {
		return nil
	}
	return task
}

func (l *life) finish(task *Task, out Outcome) Finished {
	l.t.Helper()
	if task.Kind == Robots && out.Robots == nil && out.Trouble == NoTrouble {
		out.Robots = &RobotsOutcome{Lifetime: 24 * time.Hour}
	}
	out.Asked = true
	res, err := l.Finish(context.Background(), task, out)
	if err != nil {
		l.t.Fatal(err)
	}
	return res
}

func TestNothingIsAskedWithoutALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases = true
		var mu sync.Mutex
		wanted := 0
		l := begin(t, "", cfg, polite, Deps{})
		go func() {
			for {
				addrs, err := l.Wanted(t.Context())
				if err != nil {
					return
				}
				mu.Lock()
				wanted += len(addrs)
				mu.Unlock()
				for _, addr := range addrs {
					if addr != addr1 {
						t.Errorf("%s is wanted", addr)
					}
				}
			}
		}()
		wants := func(want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if wanted != want {
				t.Errorf("the server was wanted %d times, not %d", wanted, want)
			}
		}
		l.placing(addr1)
		l.add(pages("http://h1.test", 0, 20)...)
		l.add(pages("http://h2.test", 0, 20)...)
		if task := l.taking(time.Minute); task != nil {
			t.Fatalf("%s without a lease", task.URL)
		}
		wants(1)
		s := l.Servers()
		if len(s) != 1 || !s[0].Wanted || s[0].Addr != addr1 || !s[0].Until.IsZero() || len(s[0].Hosts) != 2 || s[0].AllHosts != 2 {
			t.Errorf("servers: %+v", s)
		}
		if e := l.Explain("http://h1.test"); e.Wait != "lease" {
			t.Errorf("h1.test waits for %s: %s", e.Wait, e.Sentence)
		}

		// Not before the wait that came with it, and politely.
		begun := time.Now()
		l.Grant(addr1, time.Now().Add(10*time.Second), 3*time.Second)
		task := l.taking(time.Minute)
		if d := time.Since(begun); task == nil || d != 3*time.Second {
			t.Fatalf("after %v: %v", d, task)
		}
		if again := l.taking(time.Second / 2); again != nil {
			t.Error("two tasks at once")
		}
		l.finish(task, Outcome{})
		n := 0
		for {
			task := l.taking(time.Minute)
			if task == nil {
				break
			}
			if time.Since(begun) >= 10*time.Second {
				t.Errorf("taken %v after a lease of 10 s began", time.Since(begun))
			}
			l.finish(task, Outcome{})
			n++
		}
		if n < 5 {
			t.Errorf("%d tasks in ten seconds", n)
		}
		wants(2)

		// Extended, it goes on; the task that is out when it ends is told, once.
		l.Grant(addr1, time.Now().Add(time.Second), 0)
		l.Grant(addr1, time.Now().Add(5*time.Second), 0)
		task = l.taking(time.Minute)
		var expired atomic.Int32
		context.AfterFunc(task.Lease(), func() { expired.Add(1) })
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if expired.Load() != 0 {
			t.Error("told though the lease was extended")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		l.Grant(addr1, time.Now().Add(time.Second), 0)
		l.Grant(addr1, time.Now().Add(-time.Second), 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := expired.Load(); n != 1 {
			t.Errorf("told %d times", n)
		}
		if task.Lease().Err() == nil {
			t.Error("whoever asks late is not told")
		}
		l.finish(task, Outcome{Ending: Again, Trouble: Interrupted})

		// Withdrawn, it ends at once; a task that was over before is not told.
		l.Grant(addr1, time.Now().Add(time.Minute), 0)
		task = l.taking(time.Minute)
		before := task.Lease()
		l.finish(task, Outcome{})
		task = l.taking(time.Minute)
		l.Grant(addr1, time.Time{}, 0)
		if task.Lease().Err() == nil || before.Err() != nil {
			t.Errorf("withdrawn: the task that is out is told %v, that before it %v", task.Lease().Err(), before.Err())
		}
		if s := l.Servers(); len(s) != 1 || !s[0].Wanted || s[0].InFlight != 1 {
			t.Errorf("servers: %+v", s)
		}
		l.finish(task, Outcome{})
		if task := l.taking(time.Minute); task != nil {
			t.Error("taken after the lease was withdrawn")
		}
	})
}

// A server is wanted once after its lease was withdrawn, however often it is withdrawn.
func TestAServerWithdrawnTwiceIsWantedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Leases = true
		l := begin(t, "", cfg, polite, Deps{})
		wanted := func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			addrs, _ := l.Wanted(ctx)
			return len(addrs) > 0
		}
		l.placing(addr1)
		l.add(pages("http://h1.test", 0, 20)...)
		if l.taking(time.Minute) != nil || !wanted() { // a fetcher that starves brings the host onto the workbench
			t.Fatal("it is not wanted at first")
		}
		for _, before := range []string{"granted", "granted again"} {
			l.Grant(addr1, time.Now().Add(time.Hour), 0)
			if wanted() {
				t.Errorf("%s: wanted with a lease", before)
			}
			l.Withdraw(addr1)
			if !wanted() {
				t.Errorf("%s: not wanted after it was withdrawn", before)
			}
			l.Withdraw(addr1)
			if wanted() {
				t.Errorf("%s: wanted again after a second withdrawal", before)
			}
		}
	})
}

// However leases come and go, no task is given out without one, everything is crawled at last, and the bench forgets
// servers that it has no use for.
func TestLeasesComeAndGo(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			cfg, polite := testConfig()
			cfg.Leases, cfg.WindowURLs, cfg.FrontHosts, cfg.HostBudget = true, 5, 6, 4
			var mu sync.Mutex
			until := map[netip.Addr]time.Time{}
			wanted := make(chan netip.Addr, 100)
			l := begin(t, "", cfg, polite, Deps{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				for {
					addrs, err := l.Wanted(ctx)
					if err != nil {
						return
					}
					for _, a := range addrs {
						wanted <- a
					}
				}
			}()
			var all sync.WaitGroup
			const hosts, urls = 12, 20
			for h := range hosts {
				l.add(pages(fmt.Sprintf("http://h%d.test", h), 0, urls)...)
			}
			all.Go(func() {
				for {
					u, err := l.Resolve(ctx)
					if err != nil {
						return
					}
					l.Place(u, shared(u.Name), time.Minute, 0)
				}
			})
			all.Go(func() { // the grantor: answers late, and takes back at times
				for {
					select {
					case <-ctx.Done():
						return
					case a := <-wanted:
						time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
						mu.Lock()
						until[a] = time.Now().Add(time.Duration(rnd.IntN(20_000)) * time.Millisecond)
						end := until[a]
						mu.Unlock()
						l.Grant(a, end, 0)
					case <-time.After(time.Duration(1+rnd.IntN(5)) * time.Second):
						a := shared(fmt.Sprintf("http://h%d.test", rnd.IntN(hosts)))[0]
						mu.Lock()
						until[a] = time.Time{}
						mu.Unlock()
						l.Grant(a, time.Time{}, 0)
					}
				}
			})
			fetched := map[string]int{}
			for range 3 {
				all.Go(func() {
					for {
						task, err := l.Take(ctx)
						if err != nil {
							return
						}
						mu.Lock()
						// Withdrawn in the instant of the take: the task is told.
						if end := until[task.Server]; !end.IsZero() && !end.After(time.Now()) {
							t.Errorf("%s taken %v after the lease", task.URL, time.Since(end))
						}
						if task.Kind == Page {
							fetched[task.URL.String()]++
						}
						mu.Unlock()
						out := Outcome{}
						select {
						case <-task.Lease().Done():
							out = Outcome{Ending: Again, Trouble: Interrupted}
							mu.Lock()
							if task.Kind == Page {
								fetched[task.URL.String()]--
							}
							mu.Unlock()
						case <-time.After(300 * time.Millisecond):
						}
						l.finish(task, out)
					}
				})
			}
			for begun := time.Now(); ; time.Sleep(time.Second) {
				if idle, _ := l.Idle(time.Minute); idle {
					break
				}
				if time.Since(begun) > 4*time.Hour {
					t.Errorf("seed %d: not done after four hours: %+v", seed, l.Status())
					break
				}
			}
			cancel()
			all.Wait()
			if len(fetched) != hosts*urls {
				t.Errorf("%d of %d pages", len(fetched), hosts*urls)
			}
			for u, n := range fetched {
				if n != 1 {
					t.Errorf("%s fetched %d times", u, n)
				}
			}
			time.Sleep(time.Hour)
			l.mu.Lock()
			if n := len(l.bench.servers) + len(l.bench.expiries); n != 0 {
				t.Errorf("%d servers and leases are remembered for nothing", n)
			}
			l.mu.Unlock()
		})
	}
}

// A host is crawled only while Suspend allows it.
func TestSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.Shared = true
		l := begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		l.add(append(pages("http://h1.test", 0, 30), pages("http://h2.test", 0, 30)...)...)
		crawled := func(n int) map[string]int {
			got := map[string]int{}
			for range n {
				task := l.taking(time.Minute)
				if task == nil {
					break
				}
				got[task.Host]++
				l.finish(task, Outcome{})
			}
			return got
		}
		if got := crawled(1); len(got) != 0 {
			t.Errorf("crawled %v before anybody was asked", got)
		}
		var asked []string
		for len(asked) < 2 {
			names, err := l.Unchecked(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			asked = append(asked, names...)
		}
		if slices.Sort(asked); !slices.Equal(asked, []string{"http://h1.test", "http://h2.test"}) || len(l.Active()) != 2 {
			t.Errorf("asked about %v, active are %v", asked, l.Active())
		}
		l.Suspend(map[string]string{"http://h1.test": "", "http://h2.test": "its home is silent", "http://h3.test": ""})
		if got := crawled(5); got["http://h1.test"] != 5 {
			t.Errorf("crawled %v", got)
		}
		if e := l.Explain("http://h2.test"); e.Wait != "suspended" || e.Sentence != "its home is silent" {
			t.Errorf("h2.test: %+v", e)
		}
		l.Suspend(map[string]string{"http://h1.test": "no majority"})
		if got := crawled(5); len(got) != 0 {
			t.Errorf("crawled %v", got)
		}
		if idle, _ := l.Idle(time.Minute); idle {
			t.Error("idle with suspended hosts")
		}
		if s := l.Status(); s.Hosts["suspended"] != 2 {
			t.Errorf("%+v", s.Hosts)
		}
		l.Suspend(map[string]string{"http://h1.test": "", "http://h2.test": ""})
		if got := crawled(100); got["http://h1.test"] != 26 || got["http://h2.test"] != 31 {
			t.Errorf("crawled %v after they were let go", got)
		}
		if idle, _ := l.Idle(0); !idle {
			t.Error("not idle at the end")
		}
	})
}

// Each call is told of servers of its own: the next news does not change what it got.
func TestWantedServersAreOnesOwn(t *testing.T) {
	l := inMemory(t)(testConfig())
	var got [2][]netip.Addr
	for i, addr := range []netip.Addr{addr1, addr1.Next()} {
		l.update(func(time.Time) { l.bench.wants = append(l.bench.wants, addr) })
		got[i], _ = l.Wanted(t.Context())
	}
	if !slices.Equal(slices.Concat(got[0], got[1]), []netip.Addr{addr1, addr1.Next()}) {
		t.Errorf("told of %v", got)
	}
}
