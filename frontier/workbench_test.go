package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testBench makes a workbench with hosts that have URLs of each origin, known robots.txt and no gaps.
func testBench(now time.Time, hosts, urls int, which ...Origin) *workbench {
	cfg, polite := testConfig()
	polite.MinGap, polite.Factor = 0, 0
	w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
	seq := uint64(0)
	for _, o := range which {
		for i := range hosts {
			h := w.enter(fmt.Sprintf("http://h%d-%v.test", i, o))
			var entries []entry
			for k := range urls {
				entries = append(entries, entry{PendingURL: PendingURL{Path: fmt.Sprintf("/%d", k)}})
			}
			seq++
			h.take(&blockRef{seq: seq, n: urls, origin: o}, entries)
			w.loadedHost(h, record{hostState: hostState{robotsUntil: now.Add(time.Hour)}}, now)
			u := w.nextUnresolved(now)
			w.placeHost(u, []netip.Addr{netip.AddrFrom4([4]byte{10, byte(o), byte(i >> 8), byte(i)})}, time.Hour, now)
		}
	}
	return w
}

// The three queues are drawn with their probabilities while all have URLs that may be asked for.
func TestQueuesAreDrawnByTheirShares(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	w := testBench(now, 2000, 3, Discovered, Estimate, Assigned)
	count := map[Origin]int{}
	const n = 1500
	for range n {
		task := w.take(now)
		if task == nil {
			t.Fatal("nothing to take")
		}
		count[task.Origin]++
	}
	for o, share := range map[Origin]float64{Assigned: 0.8, Estimate: 0.1, Discovered: 0.1} {
		if got := float64(count[o]) / n; got < share-0.04 || got > share+0.04 {
			t.Errorf("%v: %.3f of the tasks, want %.2f", o, got, share)
		}
	}
}

// A queue that runs low is filled from disk, even if another queue of its host is full.
func TestEachQueueIsFilled(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	w := testBench(now, 1, 64, Discovered)
	h := w.hosts["http://h0-discovered.test"]
	if w.settle(h, now); len(w.refills) != 0 {
		t.Fatal("it reads though nothing is on disk")
	}
	h.known[Assigned] = 9
	if w.settle(h, now); !slices.Equal(w.refills, []*host{h}) {
		t.Error("the assigned URLs stay on disk")
	}
	h.reading, h.suspended, h.window[Discovered] = false, "it is suspended", fifo[pending]{}
	if w.settle(h, now); w.hosts[h.name] == nil {
		t.Error("a suspended host leaves, and its URLs stay on disk")
	}
	h.known[Assigned], h.suspended, h.nextDue, w.refills = 0, "", stampOf(now), nil
	h.take(&blockRef{seq: 10, n: 1}, make([]entry, 1))
	for _, on := range []bool{false, true} { // of pages that are due
		w.recrawl.Enabled = on
		if w.settle(h, now); (len(w.refills) > 0) != on {
			t.Errorf("with revisits %v, %d hosts are read", on, len(w.refills))
		}
	}
}

// However many URLs wait, the workbench holds no more than a window of each host.
func TestWindowBoundsMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.WindowURLs = 10
		var seeds []Link
		for i := range 5000 {
			seeds = append(seeds, page("http://h1.test", i))
		}
		most := 0
		w := &web{t: t, took: time.Millisecond, address: shared}
		w.answer = func(*Task) Outcome {
			w.f.mu.Lock()
			for _, h := range w.f.bench.hosts {
				most = max(most, h.windowed())
			}
			w.f.mu.Unlock()
			return Outcome{Ending: Done}
		}
		polite.MinGap, polite.Factor = 0, 0
		w.crawl("", cfg, polite, 2, seeds, nil)
		if len(w.fetched) != 5000 {
			t.Errorf("%d of 5000 fetched", len(w.fetched))
		}
		if most > cfg.WindowURLs+maxBlockURLs {
			t.Errorf("a window held %d URLs", most)
		}
	})
}

// After a drop, blocks up to it must not be read, and later ones must.
func TestForgetKeepsLaterBlocks(t *testing.T) {
	for _, test := range []struct{ loaded, known, wantLoaded, wantKnown uint64 }{
		{3, 4, 7, 7}, // all before the drop
		{3, 9, 7, 9}, // a block after it waits on disk
		{8, 9, 8, 9}, // one after it is in the window already
	} {
		h := new(host)
		h.loaded[0], h.known[0] = test.loaded, test.known
		h.delayed, h.nextDue, h.lastDue = []pending{{}}, 5, &duePage{}
		h.forget(7)
		if h.loaded[0] != test.wantLoaded || h.known[0] != test.wantKnown {
			t.Errorf("read up to %d of %d: then up to %d of %d, want %d of %d", test.loaded, test.known, h.loaded[0], h.known[0], test.wantLoaded, test.wantKnown)
		}
		for seq := range uint64(9) { // what was read before the drop
			h.take(&blockRef{seq: seq, n: 1}, make([]entry, 1))
		}
		if h.windowed() != 1 || len(h.delayed) > 0 || h.nextDue != 0 || h.lastDue != nil || !h.givenUp {
			t.Errorf("%d URLs in the window, %d delayed, the next page due at %d, given up %v", h.windowed(), len(h.delayed), h.nextDue, h.givenUp)
		}
	}
}

// A block that is offered goes into the window if the window has room and all blocks before it have been read. Else it is known to be on
// disk, and is read later.
func TestBlocksThatAreOffered(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		urls       int // in the window
		reading    bool
		seq, known uint64
		wantURLs   int
		wantKnown  uint64
	}{
		{1, false, 8, 7, 2, 8}, {1, false, 7, 7, 1, 7}, {63, false, 9, 7, 64, 9}, {64, false, 9, 7, 64, 9}, {9, true, 9, 7, 9, 9}, {9, true, 8, 9, 9, 9}, {9, false, 9, 8, 9, 9},
	} {
		w := testBench(now, 1, c.urls, Discovered)
		h := w.hosts["http://h0-discovered.test"]
		h.reading, h.inFlight, h.loaded[0], h.known[0] = c.reading, 1, 7, c.known
		w.offer(h, block{&blockRef{seq: c.seq, n: 1}, make([]entry, 1)}, now)
		if n, known := h.window[0].len(), max(h.loaded[0], h.known[0]); n != c.wantURLs || known != c.wantKnown {
			t.Errorf("%+v: %d URLs, known up to %d", c, n, known)
		}
	}
}

// A block that a reading finds on disk before the workbench is told of it is not put into the window twice.
func TestBlockReadBeforeItIsOffered(t *testing.T) {
	cfg, polite := ownServers(testConfig())
	var l *life
	var asked, told sync.Once
	armed, committed, activated := make(chan struct{}), make(chan struct{}), make(chan struct{})
	isArmed := func() bool {
		select {
		case <-armed:
			return true
		default:
			return false
		}
	}
	var adding sync.WaitGroup
	deps := Deps{
		Blocked: func(string) string { // between the record of the host and its URLs
			if isArmed() {
				asked.Do(func() {
					adding.Go(func() {
						if _, err := l.Add(t.Context(), pages("http://h1.test", 1, 1)); err != nil {
							t.Error(err)
						}
					})
					<-committed
				})
			}
			return ""
		},
	}
	l = beginWith(t, "", cfg, polite, deps, func(f *Frontier) {
		tell := f.ledger.tell
		f.ledger.tell = func(all []news) { // after the commit
			if isArmed() && len(all) > 0 {
				told.Do(func() {
					close(committed)
					<-activated
				})
			}
			tell(all)
		}
	})
	l.add(page("http://h1.test", 0))
	close(armed)
	if err := l.Activate(t.Context(), "http://h1.test"); err != nil {
		t.Fatal(err)
	}
	close(activated)
	adding.Wait()
	l.placing(addr1)
	if got := l.work(3); len(got) != 2 {
		t.Errorf("2 pages, downloaded: %v", got)
	}
	if s := l.Status(); s.Done != 2 || s.Pending != 0 {
		t.Errorf("books: %+v", s.Totals)
	}
}

// On a full workbench, hosts that cannot be reached wait on disk, and are given up after their last try.
func TestHostsThatFailAreGivenUpOnAFullWorkbench(t *testing.T) {
	for _, c := range []struct {
		name    string
		address func(string) []netip.Addr
	}{
		{"no such name", func(string) []netip.Addr { return nil }},
		{"no connection", shared},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			cfg.FrontHosts = 2
			waits := []time.Duration{20 * time.Second, 10 * time.Minute, time.Hour}
			polite.RetryName, polite.RetryConnect = waits, waits
			tries := map[string][]time.Time{}
			var mu sync.Mutex
			try := func(host string) {
				mu.Lock()
				defer mu.Unlock()
				if tries[host] = append(tries[host], time.Now()); len(tries[host]) > 4 {
					panic(c.name + ": tried without end") // it would never be idle
				}
			}
			w := &web{t: t, took: time.Millisecond, patience: 2 * time.Hour}
			w.address = func(name string) []netip.Addr {
				addrs := c.address(name)
				if addrs == nil {
					try(name)
				}
				return addrs
			}
			w.answer = func(task *Task) Outcome {
				try(task.Host)
				return Outcome{Ending: Again, Trouble: Unreachable, Reason: c.name}
			}
			var seeds []Link
			for h := range 7 {
				seeds = append(seeds, page(fmt.Sprintf("http://h%d.test", 3*h), 0))
			}
			w.crawl("", cfg, polite, 2, seeds, nil)
			if s := w.f.Status(); s.Pending != 0 || s.Reasons[c.name] != 7 {
				t.Errorf("%s: books %+v", c.name, s.Totals)
			}
			for host, at := range tries {
				if len(at) != 4 {
					t.Errorf("%s: %s was tried %d times", c.name, host, len(at))
					continue
				}
				for i, wait := range waits {
					if gap := at[i+1].Sub(at[i]); gap < wait*3/4 {
						t.Errorf("%s: %s was tried again after %v", c.name, host, gap)
					}
				}
			}
		})
	}
}

// Stopping while hosts are being brought in from disk is no failure.
func TestStopDuringActivation(t *testing.T) {
	cfg, polite := testConfig()
	for round := range 20 {
		f, err := Open("", cfg, polite, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.Run(ctx) }()
		var links []Link
		for i := range 400 {
			links = append(links, page(fmt.Sprintf("http://h%d.test", i), i))
		}
		if _, err := f.Add(ctx, links); err != nil {
			t.Fatal(err)
		}
		go f.Take(ctx)
		for range round {
			if u, err := f.Resolve(ctx); err != nil || u.Name == "" {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// A fetcher that waits asks for hosts only if hosts on disk may come in.
func TestWaitersAskForHostsThatMayComeIn(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(a *activation)
		want    bool
	}{
		"nobody is there":            {func(*activation) {}, false},
		"a candidate":                {func(a *activation) { a.candidates.push("a.example") }, true},
		"some on disk":               {func(a *activation) { a.scan = true }, true},
		"a scan has found none":      {func(a *activation) { a.scan, a.wrapped = true, true }, false},
		"a candidate after the scan": {func(a *activation) { a.scan, a.wrapped = true, true; a.candidates.push("a.example") }, true},
		"more than are candidates": {func(a *activation) {
			for i := range maxCandidates {
				a.candidate[fmt.Sprint(i)] = struct{}{}
			}
			a.nominateLocked("a.example")
		}, true},
		"pages may be due": {func(a *activation) { a.bench.recrawl.done = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Open("", Default(), DefaultPoliteness(), Deps{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.store.close() //nolint:errcheck // in memory
			c.prepare(f.activation)
			f.mu.Lock()
			f.starveLocked()
			f.mu.Unlock()
			if got := len(f.hungry) == 1; got != c.want {
				t.Errorf("asked for hosts: %v, want %v", got, c.want)
			}
		})
	}
}
