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
)

// web is a world for a frontier: hosts with addresses, pages that take time, and watchers of the rules of politeness.
type web struct {
	*life
	address func(name string) []netip.Addr // nil if there is no such name
	answer  func(task *Task) Outcome       // nil ends each task well
	took    time.Duration                  // by a request
	// patience is beyond which wait the crawl ends; 0 is a minute.
	patience time.Duration

	// mu guards what follows.
	mu      sync.Mutex
	busy    map[netip.Addr]bool
	ended   map[netip.Addr]time.Time
	robots  map[string]bool // the hosts whose robots.txt has come
	fetched map[string]int  // the downloads of each page
}

func newWeb(took time.Duration) *web {
	return &web{took: took, address: shared, robots: map[string]bool{}, fetched: map[string]int{}}
}

func testConfig() (Config, Politeness) {
	cfg, polite := Default(), DefaultPoliteness()
	cfg.MemoryMiB, cfg.MinFreeMiB, cfg.Compactors = 16, 0, 0
	polite.MinGap, polite.Factor = time.Second, 1
	return cfg, polite
}

// crawl works with some fetchers until a frontier is idle, or until stop says so. It runs in a bubble of the caller.
func (w *web) crawl(l *life, fetchers int, stop func() bool) {
	w.life, w.busy, w.ended = l, map[netip.Addr]bool{}, map[netip.Addr]time.Time{}
	ctx, end := l.untilIdle(max(w.patience, time.Minute))
	defer end()
	var workers sync.WaitGroup
	for range 2 {
		workers.Go(func() { l.resolve(ctx, w.address) })
	}
	for range fetchers {
		workers.Go(func() { w.fetch(ctx, end, stop) })
	}
	workers.Wait()
}

func (w *web) fetch(ctx context.Context, end func(), stop func() bool) {
	for {
		task, err := w.Take(ctx)
		if err != nil {
			return
		}
		w.begin(task)
		time.Sleep(w.took)
		out := Outcome{Ending: Done}
		if w.answer != nil {
			out = w.answer(task)
		}
		out.Elapsed = w.took
		w.over(task, out)
		if stop != nil && stop() {
			end()
			return // as a crash would: the task is never finished
		}
		w.finish(task, out)
	}
}

func (w *web) begin(task *Task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy[task.Server] {
		w.t.Errorf("two requests at once to %s", task.Server)
	}
	w.busy[task.Server] = true
	if last, ok := w.ended[task.Server]; ok && time.Since(last) < w.bench.rules.MinGap {
		w.t.Errorf("%s asked again after %v", task.Server, time.Since(last))
	}
	if task.Kind != Robots && !w.robots[task.Host] {
		w.t.Errorf("%s asked for before the robots.txt of its host", task.URL)
	}
}

func (w *web) over(task *Task, out Outcome) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[task.Server] = false
	w.ended[task.Server] = time.Now()
	switch {
	case out.Trouble != NoTrouble:
	case task.Kind == Robots:
		w.robots[task.Host] = true
	default:
		w.fetched[task.URL.String()]++
	}
}

// allOnce checks that n pages were downloaded, and each once.
func (w *web) allOnce(n int) {
	w.t.Helper()
	if len(w.fetched) != n {
		w.t.Errorf("%d of %d pages downloaded", len(w.fetched), n)
	}
	for u, n := range w.fetched {
		if n != 1 {
			w.t.Errorf("%s downloaded %d times", u, n)
		}
	}
}

// site is pages of a number of hosts h0.test, h1.test and so on.
func site(hosts, pagesEach int) (links []Link) {
	for h := range hosts {
		links = append(links, pages(fmt.Sprintf("http://h%d.test", h), 0, pagesEach)...)
	}
	return links
}

// shared puts each 3 hosts on one address.
func shared(name string) []netip.Addr {
	var n int
	fmt.Sscanf(name, "h%d.test", &n)
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(n / 3)})}
}

// Each URL is downloaded once, and the books balance. However many URLs wait, the workbench holds no more than a window of each host.
func TestCrawlTakesEachURLOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.FrontHosts, cfg.WindowURLs, cfg.HostBudget = 7, 5, 4
		seeds := append(site(20, 30), pages("http://h1.test", 30, 500)...)
		l := begin(t, "", cfg, polite, Deps{})
		l.add(append(seeds, seeds...)...)
		w := newWeb(100 * time.Millisecond)
		w.answer = func(*Task) Outcome {
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, h := range l.bench.hosts {
				if n := h.windowed(); n > cfg.WindowURLs+maxBlockURLs {
					t.Errorf("%d URLs of %s are in memory", n, h.name)
				}
			}
			return Outcome{}
		}
		w.crawl(l, 8, nil)
		w.allOnce(len(seeds))
		if s := l.Status(); s.Pending != 0 || s.Accepted != uint64(len(seeds)) || s.Duplicate != s.Accepted || s.Done != s.Accepted {
			t.Errorf("books do not balance: %+v", s.Totals)
		}
	})
}

// A crash is a frontier that is left with tasks unfinished; what comes after must repeat those at most.
func TestCrashRepeatsOnlyWhatWasInFlight(t *testing.T) {
	const fetchers = 4
	dir, seeds, w := t.TempDir(), site(9, 40), newWeb(50*time.Millisecond)
	rnd := rand.New(rand.NewPCG(3, 4))
	crashes, pending := 0, int64(1)
	for range 100 {
		if pending == 0 {
			break
		}
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.WindowURLs = 10
			polite.MinGap, polite.Factor = 10*time.Millisecond, 0
			l := begin(t, dir, cfg, polite, Deps{})
			l.add(seeds...)
			var mu sync.Mutex
			left := 5 + rnd.IntN(30)
			w.crawl(l, fetchers, func() bool {
				mu.Lock()
				defer mu.Unlock()
				left--
				return left <= 0
			})
			if left <= 0 {
				crashes++
			}
			pending = l.Status().Pending
			l.stop()
		})
	}
	repeats := -len(seeds)
	for _, n := range w.fetched {
		repeats += n
	}
	if len(w.fetched) != len(seeds) || pending != 0 {
		t.Errorf("%d of %d URLs fetched, %d pending", len(w.fetched), len(seeds), pending)
	}
	if repeats > crashes*fetchers || crashes < 5 {
		t.Errorf("%d downloads repeated after %d crashes with %d fetchers", repeats, crashes, fetchers)
	}
}

// The count of URLs that are offered to a host does not start anew after 2^32, which a large host reaches by refused links alone.
func TestHostStaysFull(t *testing.T) {
	const host = "http://h1.test"
	cfg, polite := testConfig()
	cfg.MaxHostURLs = 5
	l := begin(t, "", cfg, polite, Deps{})
	l.add(pages(host, 0, 5)...)
	err := l.ledger.do(t.Context(), alone, func(*batch) error { l.ledger.seen.count(host, math.MaxUint32-5); return nil })
	if v := l.add(pages(host, 5, 10)...); err != nil || !allAre(v, HostFull) {
		t.Errorf("a host that is full takes %v, %v", v, err)
	}
}

// Pages that name many hosts, each as long as a name may be or short, fit into the transactions of the smallest store.
func TestManyHostsAtOnce(t *testing.T) {
	label := strings.Repeat("x", 60) + "."
	for _, c := range []struct {
		name, path string
		tracked    bool
		callers    int
	}{
		{strings.Repeat(label, 3) + "h%d-%d.test", strings.Repeat("y", 180), false, 8},
		{strings.Repeat(label, 3) + "h%d-%d.test", strings.Repeat("y", 180), true, 8},
		{"%d.%d", "", false, 26},
	} {
		l := inMemory(t)(testConfig())
		var adding sync.WaitGroup
		for k := range c.callers {
			adding.Go(func() {
				var links []Link
				for i := range 500 {
					link := page(fmt.Sprintf("http://"+c.name, k, i), i)
					link.URL.Path += c.path
					links = append(links, link)
					if c.tracked {
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
	must(t, second(l.DropHost(t.Context(), "http://h1.test", "to be counted")))
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
