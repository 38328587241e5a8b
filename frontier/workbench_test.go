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

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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

// The queues are drawn with their probabilities while all have URLs that may be asked for. Remote fetches share the draws of their queue
// with the hosts in it.
func TestQueuesAreDrawnByTheirShares(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		hosts, remote []Origin
		revisits      float64
		want          map[string]float64
	}{
		{[]Origin{Discovered, Estimate, Assigned}, nil, 0, map[string]float64{"discovered": 0.1, "estimate": 0.1, "assigned": 0.8}},
		{[]Origin{Discovered, Assigned}, []Origin{Estimate, Assigned}, 0,
			map[string]float64{"discovered": 0.1, "remote estimate": 0.1, "assigned": 0.4, "remote assigned": 0.4}},
		{[]Origin{Discovered, Revisit}, nil, 0.25, map[string]float64{"discovered": 0.75, "revisit": 0.25}},
	} {
		w := testBench(now, 2000, 3, c.hosts...)
		w.recrawl.Recrawl = Recrawl{Enabled: c.revisits > 0, Share: c.revisits}
		w.remote.limit = 2000
		for _, o := range c.remote {
			for i := range 1000 {
				w.remote.enqueue(RemoteFetch{Server: netip.AddrFrom4([4]byte{11, byte(o), byte(i / 256), byte(i)}), Origin: o}, now)
			}
		}
		const n = 1500
		got := map[string]float64{}
		for range n {
			task := w.take(now)
			queue := task.Origin.String()
			if task.IsRemoteFetch() {
				queue = "remote " + queue
			}
			got[queue] += 1.0 / n
		}
		if d := cmp.Diff(c.want, got, cmpopts.EquateApprox(0, 0.04)); d != "" {
			t.Errorf("shares of the tasks: %s", d)
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
	h.more[Assigned] = true
	if w.settle(h, now); !slices.Equal(w.refills, []*host{h}) {
		t.Error("the assigned URLs stay on disk")
	}
	h.reading, h.suspended, h.window[Discovered] = false, "it is suspended", fifo[pending]{}
	if w.settle(h, now); w.hosts[h.name] == nil {
		t.Error("a suspended host leaves, and its URLs stay on disk")
	}
	h.more[Assigned], h.suspended, h.nextDue, w.refills = false, "", stampOf(now), nil
	h.take(&blockRef{seq: 10, n: 1}, make([]entry, 1))
	for _, on := range []bool{false, true} { // of pages that are due
		w.recrawl.Enabled = on
		if w.settle(h, now); (len(w.refills) > 0) != on {
			t.Errorf("with revisits %v, %d hosts are read", on, len(w.refills))
		}
	}
}

// After a drop, blocks up to it must not be read, and later ones must.
func TestForgetKeepsLaterBlocks(t *testing.T) {
	for _, test := range []struct{ loaded, want uint64 }{
		{3, 7}, // all before the drop
		{8, 8}, // a block after it is in the window already
	} {
		h := new(host)
		h.loaded[0], h.more[0] = test.loaded, true
		h.delayed, h.nextDue, h.lastDue = []pending{{}}, 5, &duePage{}
		h.forget(7)
		if h.loaded[0] != test.want || h.onDisk() {
			t.Errorf("%+v: then up to %d, and more: %v", test, h.loaded[0], h.onDisk())
		}
		for seq := range uint64(9) { // what was read before the drop
			h.take(&blockRef{seq: seq, n: 1}, make([]entry, 1))
		}
		if h.windowed() != 1 || len(h.delayed) > 0 || h.nextDue != 0 || h.lastDue != nil || !h.givenUp {
			t.Errorf("%d URLs in the window, %d delayed, the next page due at %d, given up %v", h.windowed(), len(h.delayed), h.nextDue, h.givenUp)
		}
	}
}

// A block that is offered goes into the window if the window has room and all blocks before it have been read. Else it is read later.
func TestBlocksThatAreOffered(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		urls     int // in the window
		reading  bool
		seq      uint64
		more     bool
		wantURLs int
		wantMore bool
	}{
		{1, false, 8, false, 2, false}, {1, false, 7, false, 1, false}, {63, false, 9, false, 64, false}, {64, false, 9, false, 64, true},
		{9, true, 9, false, 9, true}, {9, true, 7, false, 9, false}, {9, true, 8, true, 9, true}, {9, false, 9, true, 9, true},
	} {
		w := testBench(now, 1, c.urls, Discovered)
		h := w.hosts["http://h0-discovered.test"]
		h.reading, h.inFlight, h.loaded[0], h.more[0] = c.reading, 1, 7, c.more
		w.offer(h, block{&blockRef{seq: c.seq, n: 1}, make([]entry, 1)}, now)
		if n := len(h.window[0]); n != c.wantURLs || h.onDisk() != c.wantMore {
			t.Errorf("%+v: %d URLs, more: %v", c, n, h.onDisk())
		}
	}
}

// On a full workbench, hosts that cannot be reached wait on disk, and are given up after their last try.
func TestHostsThatFailAreGivenUpOnAFullWorkbench(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.FrontHosts = 2
		waits := []time.Duration{20 * time.Second, 10 * time.Minute, time.Hour}
		polite.RetryName, polite.RetryConnect = waits, waits
		l := begin(t, "", cfg, polite, Deps{})
		l.add(site(14, 1)...)
		w := newWeb(time.Millisecond)
		w.patience = 2 * time.Hour
		var mu sync.Mutex
		tries := map[string][]time.Time{}
		try := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			tries[name] = append(tries[name], time.Now())
		}
		w.address = func(name string) []netip.Addr {
			if addrs := shared(name); addrs[0].As4()[3]%2 == 0 {
				return addrs
			}
			try(name)
			return nil
		}
		w.answer = func(task *Task) Outcome {
			try(task.URL.Name())
			return Outcome{Ending: Again, Trouble: Unreachable, Reason: "no connection"}
		}
		w.crawl(l, 2, nil)
		if s := l.Status(); s.Pending != 0 || s.Reasons["no such name"] != 6 || s.Reasons["no connection"] != 8 {
			t.Errorf("books %+v", s.Totals)
		}
		for name, at := range tries {
			if len(at) != 1+len(waits) {
				t.Errorf("%s was tried %d times", name, len(at))
				continue
			}
			for i, wait := range waits {
				if gap := at[i+1].Sub(at[i]); gap < wait*3/4 {
					t.Errorf("%s was tried again after %v", name, gap)
				}
			}
		}
	})
}

// Failed connections count in a row: a server that answers in between, if only that it is busy or broken, is within reach.
func TestFailuresInARow(t *testing.T) {
	failed := Outcome{Ending: Again, Asked: true, Trouble: Unreachable, Reason: "refused"}
	for name, c := range map[string]struct {
		between []Outcome
		giveUp  bool
	}{
		"nothing":       {nil, true},
		"a page":        {[]Outcome{{Asked: true}}, false},
		"busy":          {[]Outcome{{Ending: Again, Asked: true, Trouble: Busy}}, false},
		"broken":        {[]Outcome{{Ending: Again, Asked: true, Trouble: Broken}}, false},
		"our own fault": {[]Outcome{{Ending: Again, Asked: true, Trouble: Interrupted}}, true},
	} {
		now := time.Unix(1_000_000, 0)
		w := testBench(now, 1, 9, Discovered)
		w.rules.RetryConnect = []time.Duration{time.Minute, time.Minute}
		h := w.hosts["http://h0-discovered.test"]
		h.robotsUntil, h.placedUntil = now.Add(1000*time.Hour), now.Add(1000*time.Hour)
		gaveUp := false
		for _, out := range slices.Concat([]Outcome{failed, failed}, c.between, []Outcome{failed}) {
			now = now.Add(time.Hour)
			w.settle(h, now)
			gaveUp = w.end(w.take(now), out, now).GaveUp
		}
		if gaveUp != c.giveUp {
			t.Errorf("%s in between: given up: %v", name, gaveUp)
		}
	}
}

// A failed lookup takes one wait of a host, and so does a failure at all of its addresses, however many it has.
func TestWaitsOfAHostWithManyAddresses(t *testing.T) {
	failed := Outcome{Ending: Again, Asked: true, Trouble: Unreachable, Reason: "no connection"}
	for what, rows := range map[string]string{"connections": "cccccc", "lookups": "llllll", "first connections": "ccclll", "first lookups": "lllccc", "in turn": "lclclc"} {
		for ways := 1; ways <= 4; ways++ {
			now := time.Unix(1_000_000, 0)
			w := testBench(now, 1, 9, Discovered)
			w.rules.RetryConnect = slices.Repeat([]time.Duration{time.Minute}, len(rows)-1)
			w.rules.RetryName = w.rules.RetryConnect
			h := w.hosts["http://h0-discovered.test"]
			h.robotsUntil = now.Add(1000 * time.Hour)
			var addrs []netip.Addr
			for addr := h.server.addr; len(addrs) < ways; addr = addr.Next() {
				addrs = append(addrs, addr)
			}
			for i, row := range rows {
				now = now.Add(2 * time.Hour) // its address ends with each wait
				w.wake(now)
				w.settle(h, now)
				if w.nextUnresolved(now) != h {
					t.Fatalf("%s at %d addresses: it is not looked up before try %d", what, ways, i)
				}
				gaveUp := false
				if row == 'l' {
					gaveUp = w.lostHost(h, "no such name", false, false, now)
				} else {
					w.placeHost(h, addrs, time.Hour, now)
					for range ways {
						task := w.take(now)
						if task == nil || gaveUp {
							t.Fatalf("%s at %d addresses: it is not asked at all of them in try %d", what, ways, i)
						}
						gaveUp = w.end(task, failed, now).GaveUp
						w.settle(h, now)
					}
				}
				if last := i == len(rows)-1; gaveUp != last || !h.notBefore.After(now) {
					t.Errorf("%s at %d addresses: given up after %d of %d: %v; it waits until %v", what, ways, i+1, len(rows), gaveUp, h.notBefore)
					break
				}
			}
		}
	}
}

// The only URL of a host goes on at the next address when the first cannot be reached.
func TestOnlyURLGoesToTheNextAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		l := begin(t, "", cfg, polite, Deps{})
		go l.resolve(context.Background(), func(string) []netip.Addr { return []netip.Addr{addr1, addr1.Next()} })
		l.add(page(aHost, 0))
		l.finish(l.taking(time.Minute), Outcome{}) // its robots.txt
		first := l.taking(time.Minute)
		l.finish(first, Outcome{Ending: Again, Trouble: Unreachable, Reason: "refused"})
		if l.Idle(time.Minute) {
			t.Error("the frontier is idle")
		}
		if next := l.taking(time.Minute); next == nil || next.URL != first.URL || next.Server != addr1.Next() {
			t.Errorf("after %s at %s comes %+v", first.URL, first.Server, next)
		}
	})
}

// A page has tries of its own for when it breaks off, and others for when its server is busy. That its host was out of reach takes none of them.
func TestTriesOfAPage(t *testing.T) {
	for name, c := range map[string]struct {
		tries []Trouble
		ends  int // after so many of them
	}{
		"broken":                 {slices.Repeat([]Trouble{Broken}, 9), 3},
		"busy":                   {slices.Repeat([]Trouble{Busy}, 20), 9},
		"out of reach":           {slices.Repeat([]Trouble{Unreachable}, 300), 0},
		"out of reach, broken":   {slices.Concat(slices.Repeat([]Trouble{Unreachable}, 300), slices.Repeat([]Trouble{Broken}, 9)), 303},
		"busy, broken":           {slices.Concat(slices.Repeat([]Trouble{Busy}, 5), slices.Repeat([]Trouble{Broken}, 9)), 8},
		"broken, busy":           {slices.Concat([]Trouble{Broken, Broken}, slices.Repeat([]Trouble{Busy}, 20)), 11},
		"out of reach, and busy": {slices.Concat(slices.Repeat([]Trouble{Unreachable}, 9), slices.Repeat([]Trouble{Busy}, 20)), 18},
	} {
		now := time.Unix(1_000_000, 0)
		w := testBench(now, 1, 1, Discovered)
		w.rules.RetryConnect, w.rules.RetryPage = slices.Repeat([]time.Duration{time.Minute}, 1000), []time.Duration{time.Minute, time.Minute}
		h := w.hosts["http://h0-discovered.test"]
		h.robotsUntil, h.placedUntil = now.Add(10_000*time.Hour), now.Add(10_000*time.Hour)
		ends, last := 0, uint8(0)
		for i, trouble := range c.tries {
			now = now.Add(2 * time.Hour)
			w.advance(now)
			w.settle(h, now)
			task := w.take(now)
			if last = task.Attempt; int(last) != min(i, 255) {
				t.Errorf("%s: try %d is said to be the %dth", name, i, last)
			}
			if w.end(task, Outcome{Ending: Again, Asked: true, Trouble: trouble}, now).Ending == Failed {
				ends = i + 1
				break
			}
		}
		if ends != c.ends {
			t.Errorf("%s: failed after %d tries, want %d", name, ends, c.ends)
		}
	}
}

// A host whose address ended long ago, as after a pause of a week, is looked up before it is asked, and keeps its turn.
func TestAddressThatEndsInTheQueue(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	w := testBench(now, 2, 9, Discovered)
	at := netip.MustParseAddr("192.0.2.9")
	for _, h := range w.hosts {
		w.unplace(h, now)
		w.settle(h, now)
	}
	first, second := w.nextUnresolved(now), w.nextUnresolved(now)
	w.placeHost(first, []netip.Addr{at}, time.Minute, now)
	w.placeHost(second, []netip.Addr{at}, 1000*time.Hour, now)
	for _, h := range w.hosts {
		h.robotsUntil = now.Add(1000 * time.Hour)
	}
	now = now.Add(time.Minute + staleAfter)
	if task := w.take(now); task == nil || task.Host != first.name { // it is used a little longer
		t.Fatalf("%+v", task)
	} else {
		w.end(task, Outcome{Asked: true}, now)
		first.placedUntil = now.Add(time.Minute)
		w.settle(first, now)
	}
	w.end(w.take(now), Outcome{Asked: true}, now)
	w.settle(second, now)
	now = now.Add(time.Minute + staleAfter + 1)
	task := w.take(now)
	if task == nil || task.Host != second.name {
		t.Fatalf("of a host whose address has ended: %+v", task)
	}
	if u := w.nextUnresolved(now); u != first {
		t.Fatalf("looked up: %+v", u)
	}
	w.end(task, Outcome{Asked: true}, now)
	w.settle(second, now)
	w.placeHost(first, []netip.Addr{at}, time.Minute, now)
	if task := w.take(now); task == nil || task.Host != first.name {
		t.Errorf("it has lost its turn: %+v", task)
	}
}

// Stopping while hosts are being brought in from disk is no failure.
func TestStopDuringActivation(t *testing.T) {
	for round := range 20 {
		l := inMemory(t)(testConfig())
		l.add(site(400, 1)...)
		go l.Take(t.Context()) //nolint:errcheck // a fetcher that waits
		for range round {
			must(t, second(l.Resolve(t.Context())))
		}
		l.stop()
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
				a.isCandidate[fmt.Sprint(i)] = struct{}{}
			}
			a.nominateLocked("a.example")
		}, true},
		"pages may be due": {func(a *activation) { a.bench.recrawl.done = false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := opened(t, Default(), DefaultPoliteness())
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

// The record that the workbench takes of a host stays as it is while the ledger goes on.
func TestLoadedRecordIsACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		l := crawling(t, t.TempDir(), cfg, polite)
		l.add(page("http://h1.test", 1), page("http://h1.test", 2), page("http://h1.test", 3))
		for range 2 { // robots.txt, and a page
			l.finish(l.taking(time.Minute), Outcome{Ending: Done})
		}
		rec, err := l.load(&host{name: "http://h1.test"})
		if err != nil || len(rec.partial) != 1 {
			t.Fatalf("%+v, %v", rec.partial, err)
		}
		l.finish(l.taking(time.Minute), Outcome{Ending: Done})
		if n := rec.partial[0].done.count(); n != 1 {
			t.Errorf("%d of its URLs are done, of which one was when it was loaded", n)
		}
		l.stop()
	})
}
