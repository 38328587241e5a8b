package frontier

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

// web is a world for the frontier: hosts with addresses, pages that take time, and watchers of the rules.
type web struct {
	t       *testing.T
	f       *Frontier
	polite  Politeness
	address func(host string) []netip.Addr
	// answer says what becomes of a task; nil ends each well.
	answer func(task *Task) Outcome
	// took is how long a request takes.
	took time.Duration
	// patience is beyond which wait the crawl ends; 0 is a minute.
	patience time.Duration

	// mu guards what follows.
	mu       sync.Mutex
	busy     map[netip.Addr]int
	ended    map[netip.Addr]time.Time
	robots   map[string]bool
	fetched  map[string]int
	inFlight int
	gaps     []time.Duration
}

func testConfig() (Config, Politeness) {
	cfg, polite := Default(), DefaultPoliteness()
	cfg.MemoryMiB, cfg.MinFreeMiB = 16, 0
	polite.MinGap, polite.Factor = time.Second, 1
	return cfg, polite
}

// crawl opens a frontier in dir ("" for memory), adds seeds, works with some fetchers until idle or until stop says
// so, and closes it again. It runs in a bubble of the caller.
func (w *web) crawl(dir string, cfg Config, polite Politeness, fetchers int, seeds []Link, stop func() bool) {
	w.t.Helper()
	f, err := Open(dir, cfg, polite, Deps{Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.f, w.polite = f, polite
	w.busy, w.ended = map[netip.Addr]int{}, map[netip.Addr]time.Time{}
	if w.fetched == nil {
		w.fetched, w.robots = map[string]int{}, map[string]bool{}
	}
	root, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() {
		defer cancel()
		if err := f.Run(root); err != nil {
			w.t.Error(err)
		}
	})
	ctx, end := context.WithCancel(root)
	if _, err := f.Add(ctx, seeds); err != nil {
		w.t.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { w.resolve(ctx) })
	}
	for range fetchers {
		workers.Go(func() { w.fetch(ctx, root, end, stop) })
	}
	workers.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-f.Quiet():
			case <-time.After(time.Second):
			}
			if idle, _ := f.Idle(max(w.patience, time.Minute)); idle {
				end()
			}
		}
	})
	workers.Wait()
	cancel()
	run.Wait()
}

func (w *web) resolve(ctx context.Context) {
	for {
		u, err := w.f.Resolve(ctx)
		if err != nil {
			return
		}
		if addrs := w.address(u.Name); addrs != nil {
			w.f.Place(u, addrs, time.Hour, 0)
		} else if _, err := w.f.Lost(ctx, u, "no such name", false, true); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *web) fetch(ctx, root context.Context, end func(), stop func() bool) {
	for {
		task, err := w.f.Take(ctx)
		if err != nil {
			return
		}
		w.begin(task)
		time.Sleep(w.took)
		out := Outcome{Ending: Done}
		if w.answer != nil {
			out = w.answer(task)
		}
		out.Asked, out.Elapsed = true, w.took
		if task.Kind == Robots && out.Robots == nil && out.Trouble == NoTrouble {
			out.Robots = &RobotsOutcome{Lifetime: time.Hour}
		}
		w.over(task, out)
		if stop != nil && stop() {
			end()
			return // as a crash would: the task is never finished
		}
		if _, err := w.f.Finish(root, task, out); err != nil {
			w.t.Errorf("finish %s: %v", task.URL, err)
		}
	}
}

func (w *web) begin(task *Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[task.Server]++
	w.inFlight++
	if n := w.busy[task.Server]; n > 1 {
		w.t.Errorf("%d requests at once to %s", n, task.Server)
	}
	if last, ok := w.ended[task.Server]; ok {
		gap := time.Since(last)
		w.gaps = append(w.gaps, gap)
		if gap < w.polite.MinGap {
			w.t.Errorf("%s asked again after %v", task.Server, gap)
		}
	}
	origin := task.Host
	if task.Kind == Robots {
		return
	}
	if !w.robots[origin] {
		w.t.Errorf("%s asked for before the robots.txt of its origin", task.URL)
	}
	w.fetched[task.URL.String()]++
}

func (w *web) over(task *Task, out Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[task.Server]--
	w.inFlight--
	w.ended[task.Server] = time.Now()
	if out.Robots != nil && out.Robots.Lifetime > 0 {
		w.robots[task.Host] = true
	}
}

func page(host string, i int) Link {
	return Link{URL: identity.URL{Host: host, Path: fmt.Sprintf("/page/%d.html", i)}}
}

// shared puts each 3 hosts on one address.
func shared(host string) []netip.Addr {
	var n int
	fmt.Sscanf(host, "http://h%d.test", &n)
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(n / 3)})}
}

func TestCrawlTakesEachURLOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.FrontHosts, cfg.WindowURLs, cfg.HostBudget = 7, 5, 4
		var seeds []Link
		for h := range 20 {
			for i := range 30 {
				seeds = append(seeds, page(fmt.Sprintf("http://h%d.test", h), i))
			}
		}
		w := &web{t: t, took: 100 * time.Millisecond, address: shared}
		w.crawl("", cfg, polite, 8, append(seeds, seeds...), nil)
		if len(w.fetched) != len(seeds) {
			t.Errorf("%d of %d URLs fetched", len(w.fetched), len(seeds))
		}
		for u, n := range w.fetched {
			if n != 1 {
				t.Errorf("%s fetched %d times", u, n)
			}
		}
		s := w.f.Status()
		if s.Pending != 0 || s.Accepted != uint64(len(seeds)) || s.Duplicate != uint64(len(seeds)) || s.Done != s.Accepted {
			t.Errorf("books do not balance: %+v", s.Totals)
		}
	})
}

// A crash is a frontier that is left with tasks unfinished; what comes after must repeat those at most.
func TestCrashRepeatsOnlyWhatWasInFlight(t *testing.T) {
	dir := t.TempDir()
	rnd := rand.New(rand.NewPCG(3, 4))
	var seeds []Link
	for h := range 9 {
		for i := range 40 {
			seeds = append(seeds, page(fmt.Sprintf("http://h%d.test", h), i))
		}
	}
	const fetchers = 4
	w := &web{took: 50 * time.Millisecond, address: shared}
	crashes := 0
	for round := range 100 {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.WindowURLs = 10
			polite.MinGap, polite.Factor = 10*time.Millisecond, 0
			left := 5 + rnd.IntN(30)
			var mu sync.Mutex
			down := false
			w.t = t
			w.crawl(dir, cfg, polite, fetchers, seeds, func() bool {
				mu.Lock()
				defer mu.Unlock()
				left--
				down = down || left <= 0
				return down
			})
			if down {
				crashes++
			}
		})
		if len(w.fetched) == len(seeds) && w.f.Status().Pending == 0 {
			t.Logf("done after %d rounds, %d crashes", round+1, crashes)
			break
		}
	}
	if len(w.fetched) != len(seeds) {
		t.Fatalf("%d of %d URLs fetched", len(w.fetched), len(seeds))
	}
	repeats := 0
	for _, n := range w.fetched {
		repeats += n - 1
	}
	if repeats > crashes*fetchers {
		t.Errorf("%d downloads repeated after %d crashes with %d fetchers", repeats, crashes, fetchers)
	}
	if crashes < 5 {
		t.Errorf("only %d crashes: the test does not test", crashes)
	}
}

// The count of URLs that are offered to a host does not start anew after 2^32, which a large host reaches by refused links alone.
func TestHostStaysFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		cfg.MaxHostURLs = 5
		l := begin(t, "", cfg, polite, Deps{})
		l.add(pages(host, 0, 5)...)
		err := l.ledger.do(t.Context(), alone, func(*batch) error { l.ledger.seen.count(host, math.MaxUint32-5); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if v := l.add(pages(host, 5, 10)...); !allAre(v, HostFull) {
			t.Errorf("a host that is full takes %v", v)
		}
	})
}

// Pages that name many hosts, each as long as a name may be, fit into the transactions of the smallest store.
func TestManyLongHostsAtOnce(t *testing.T) {
	for _, tracked := range []bool{false, true} {
		l := inMemory(t)(testConfig())
		label := strings.Repeat("x", 60) + "."
		var adding sync.WaitGroup
		for k := range 8 {
			adding.Go(func() {
				var links []Link
				for i := range 500 {
					link := page(fmt.Sprintf("http://%sh%d-%d.test", strings.Repeat(label, 3), k, i), i)
					link.URL.Path += strings.Repeat("y", 180)
					links = append(links, link)
					if tracked {
						if err := l.SetRole(t.Context(), link.URL.Host, Owned); err != nil {
							t.Error(err)
							return
						}
					}
				}
				verdicts, err := l.Add(t.Context(), links)
				if err != nil || !allAre(verdicts, Accepted) {
					t.Errorf("%d verdicts, %v", len(verdicts), err)
				}
			})
		}
		adding.Wait()
		l.stop()
	}
}

// A URL whose host had to be counted exactly is in the set that was read for that: it is not accepted again.
func TestAcceptedOnceWhereTheHostIsCounted(t *testing.T) {
	cfg, polite := testConfig()
	cfg.MaxHostURLs, cfg.TrackDepth = 3, true
	l := begin(t, "", cfg, polite, Deps{})
	l.add(pages("http://h1.test", 0, 3)...)
	if _, err := l.DropHost(t.Context(), "http://h1.test", "to be counted"); err != nil {
		t.Fatal(err)
	}
	want := []Verdict{Accepted, Duplicate, Accepted, Accepted, HostFull, Duplicate}
	var got []Verdict
	for _, i := range []int{10, 10, 11, 12, 13, 12} {
		got = append(got, l.add(page("http://h1.test", i))...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

// Verdicts come in the order of the links, however many requests these take.
func TestVerdictsAreInOrder(t *testing.T) {
	l := inMemory(t)(testConfig())
	l.add(page("http://h1.test", 7))
	for i, v := range l.add(pages("http://h1.test", 0, 2*maxRequestURLs)...) {
		if (v == Duplicate) != (i == 7) {
			t.Errorf("link %d is %v", i, v)
		}
	}
}
