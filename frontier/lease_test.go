package frontier

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However leases come and go, no task is given out without one, everything is crawled at last, and the bench forgets
// servers that it has no use for.
func TestLeasesComeAndGo(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			cfg, polite := testConfig()
			cfg.Leases, cfg.WindowURLs, cfg.FrontHosts, cfg.HostBudget = true, 5, 6, 4
			const hosts, urls = 12, 20
			l := begin(t, "", cfg, polite, Deps{})
			l.add(site(hosts, urls)...)
			var mu sync.Mutex
			until := map[netip.Addr]time.Time{}
			grant := func(a netip.Addr, end time.Time) {
				mu.Lock()
				until[a] = end
				mu.Unlock()
				if end.IsZero() && rnd.IntN(2) == 0 {
					l.Withdraw(a)
				} else {
					l.Grant(a, end, 0)
				}
			}
			wanted := make(chan netip.Addr, 100)
			var others sync.WaitGroup
			others.Go(func() {
				defer close(wanted)
				for addrs, err := l.Wanted(t.Context()); err == nil; addrs, err = l.Wanted(t.Context()) {
					for _, a := range addrs {
						wanted <- a
					}
				}
			})
			others.Go(func() { // the grantor: answers late, and takes back at times
				for {
					select {
					case a, more := <-wanted:
						if !more {
							return
						}
						time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
						grant(a, time.Now().Add(time.Duration(rnd.IntN(20_000))*time.Millisecond))
					case <-time.After(time.Duration(1+rnd.IntN(5)) * time.Second):
						grant(shared(fmt.Sprintf("h%d.test", rnd.IntN(hosts)))[0], time.Time{})
					}
				}
			})
			w := newWeb(0)
			w.answer = func(task *Task) Outcome {
				mu.Lock()
				// Withdrawn in the instant of the take: the task is told.
				if end := until[task.Server]; !end.IsZero() && !end.After(time.Now()) {
					t.Errorf("%s taken %v after the lease", task.URL, time.Since(end))
				}
				mu.Unlock()
				select {
				case <-task.Lease().Done():
					return Outcome{Ending: Again, Trouble: Interrupted}
				case <-time.After(300 * time.Millisecond):
					return Outcome{}
				}
			}
			w.crawl(l, 3, nil)
			w.allOnce(hosts * urls)
			time.Sleep(time.Hour)
			if n := len(l.Servers()) + len(l.bench.expiries); n != 0 {
				t.Errorf("seed %d: %d servers and leases are remembered for nothing", seed, n)
			}
			l.stop()
			others.Wait()
		})
	}
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
