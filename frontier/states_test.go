package frontier

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/identity"
)

// Why a host waits. Each step adds a reason that counts more than those before.
func TestWhyAHostWaits(t *testing.T) {
	now := time.Now()
	cfg, polite := testConfig()
	w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
	h := w.enter("http://h1.test")
	h.reading, h.place, h.server, h.site = false, placed, w.newServer(addr1), &Site{Hours: shut{now, now.Add(time.Hour)}}
	h.window[Discovered].push(pending{ref: &blockRef{}})
	s := h.server
	for _, step := range []struct {
		kind string
		add  func()
	}{
		{"ready", func() {}},
		{"ready", func() { s.next = now }},
		{"gap", func() { s.next = now.Add(1) }},
		{"gap", func() {
			w.recrawl.Enabled, w.recrawl.Budget, w.recrawl.filled = true, 1, now
			h.window[Revisit].push(pending{ref: &revisitRef})
		}},
		{"budget", func() { h.window[Discovered].pop() }},
		{"server busy", func() { s.inFlight = s.parallel }},
		{"lease", func() { w.cfg.Leases = true }},
		{"batch", func() { s.reserved = true }},
		{"unresolved", func() { h.place = unplaced }},
		{"unresolved", func() { h.notBefore = now }},
		{"retry", func() { h.window[Revisit].pop(); h.delayed = []pending{{retryAt: now.Add(time.Second)}} }},
		{"backoff", func() { h.notBefore = now.Add(2 * time.Second) }},
		{"backoff", func() { h.opens = h.notBefore }},
		{"hours", func() { h.opens = now.Add(3 * time.Second) }},
		{"idle", func() { h.delayed = nil }},
		{"resolving", func() { h.place = resolving }},
		{"suspended", func() { h.suspended = "another node owns it" }},
		{"fetching", func() { h.inFlight = 1 }},
		{"robots", func() { h.robotsBusy = true }},
		{"reading", func() { h.reading = true }},
	} {
		step.add()
		if kind, sentence := w.waits(h, now); kind != step.kind || sentence == "" {
			t.Errorf("it waits as %q (%s), want %q", kind, sentence, step.kind)
		}
	}
}

// The budget of visits fills evenly. What is not used within an hour is lost.
func TestBudgetOfVisits(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	r := newRecrawl(Recrawl{Enabled: true, Budget: 24 * 3600}, now)
	for i, c := range []struct {
		after time.Duration // since the step before
		may   bool
		wait  time.Duration
		left  float64 // after a visit, if there may be one
	}{
		{0, false, time.Second, 0}, {500 * time.Millisecond, false, 500 * time.Millisecond, 0.5}, {500 * time.Millisecond, true, 0, 0},
		{-time.Minute, false, time.Minute + time.Second, 0}, {time.Minute + 3*time.Second, true, 0, 2}, {2 * time.Hour, true, 0, 3599}, {0, true, 0, 3598},
	} {
		now = now.Add(c.after)
		may, at := r.mayVisit(now)
		if may {
			r.tokens--
		}
		wait := at.Sub(now) - time.Millisecond
		if may != c.may || r.tokens != c.left || !may && c.after >= 0 && (wait-c.wait).Abs() > time.Microsecond {
			t.Errorf("step %d: it may %v, in %v, and %v are left", i, may, wait, r.tokens)
		}
	}
	small := newRecrawl(Recrawl{Enabled: true, Budget: 1}, now)
	if may, _ := small.mayVisit(now.Add(25 * time.Hour)); !may || small.tokens != 1 {
		t.Errorf("with one visit a day it may %v: %v", may, small.tokens)
	}
	for _, free := range []Recrawl{{Enabled: true}, {Enabled: true, Budget: 1, Age: time.Hour}} {
		r := newRecrawl(free, now)
		if may, at := r.mayVisit(now); !may || !at.IsZero() {
			t.Errorf("%+v has a budget", free)
		}
		r.tokens--
		if may, at := r.mayVisit(now); !may || !at.IsZero() {
			t.Errorf("%+v has a budget after a visit", free)
		}
	}
	began := newRecrawl(Recrawl{Age: time.Hour}, now)
	if by := began.by(now.Add(time.Hour)); by != stampOf(now) {
		t.Errorf("of pages that are visited once those count that are due by %v", by)
	}
	if by := r.by(now.Add(time.Hour)); by != stampOf(now.Add(time.Hour)) {
		t.Errorf("of others those count that are due by %v", by)
	}
}

// A crawl is hopeless if every host with URLs has failed for good and waits. It is idle if nothing is to be done within the patience.
func TestHopelessAndIdle(t *testing.T) {
	const patience = 30 * time.Minute
	for what, c := range map[string]struct {
		change         func(f *Frontier, h *host)
		hopeless, idle bool
	}{
		"all are lost":         {func(*Frontier, *host) {}, true, true},
		"one is not lost":      {func(_ *Frontier, h *host) { h.lost = false }, false, true},
		"one may be tried":     {func(_ *Frontier, h *host) { h.notBefore = time.Now().Add(-time.Second) }, false, false},
		"one may be tried now": {func(_ *Frontier, h *host) { h.notBefore = time.Now() }, false, false},
		"one may be soon":      {func(_ *Frontier, h *host) { h.notBefore = time.Now().Add(patience) }, true, false},
		"one has answered":     {func(_ *Frontier, h *host) { h.answeredUntil(10 * patience) }, true, false},
		"it waits for longer":  {func(_ *Frontier, h *host) { h.answeredUntil(10*patience + time.Second) }, true, true},
		"others have answered": {func(f *Frontier, _ *host) {
			for i := range 20 { // in whatever order hosts are looked at, one of them comes before it
				other := f.bench.enter(fmt.Sprintf("http://other%d.test", i))
				other.reading = false
				other.answeredUntil(0)
			}
		}, true, true},
		"it has just failed":   {func(_ *Frontier, h *host) { h.answeredUntil(time.Hour * 24); h.countFailure(time.Now()) }, true, false},
		"it has failed":        {func(_ *Frontier, h *host) { h.answeredUntil(time.Hour * 24); h.failures = 1 }, false, false},
		"and had its last try": {func(_ *Frontier, h *host) { h.answeredUntil(time.Hour * 24); h.failures, h.resumes = 1, h.notBefore }, true, true},
		"one has its hours":    {func(_ *Frontier, h *host) { h.opens, h.notBefore = h.notBefore, time.Time{} }, false, false},
		"hours, and a pause":   {func(_ *Frontier, h *host) { h.opens, h.notBefore = h.notBefore, time.Now().Add(patience) }, true, false},
		"hours, and waits":     {func(_ *Frontier, h *host) { h.opens = h.notBefore }, true, true},
		"none has a URL":       {func(_ *Frontier, h *host) { h.window[Discovered].pop() }, false, true},
		"a page was done":      {func(f *Frontier, _ *host) { f.ledger.count.ended(Done, "", 1) }, false, true},
		"a page has failed":    {func(f *Frontier, _ *host) { f.ledger.count.ended(Failed, "", 1) }, false, true},
		"a task is out":        {func(f *Frontier, _ *host) { f.bench.inFlight = 1 }, false, false},
		"this node is cut off": {func(f *Frontier, _ *host) { f.outage.why = "no route" }, false, false},
		"and has no URL":       {func(f *Frontier, h *host) { f.outage.why = "no route"; h.window[Discovered].pop() }, false, true},
		"a task is ending":     {func(f *Frontier, _ *host) { f.ending = 1 }, false, false},
		"another's page":       {func(f *Frontier, _ *host) { f.bench.remote.count = 1 }, false, false},
		"a name is looked up":  {func(f *Frontier, _ *host) { f.bench.resolving = 1 }, false, false},
		"a host is read":       {func(_ *Frontier, h *host) { h.reading = true }, false, false},
		"hosts wait on disk":   {func(f *Frontier, _ *host) { f.scan = true }, false, false},
		"some are candidates":  {func(f *Frontier, _ *host) { f.candidates.push("http://h2.test") }, false, false},
		"visits may be left":   {func(f *Frontier, _ *host) { f.bench.recrawl.over = false }, true, false},
		"visits never end":     {func(f *Frontier, _ *host) { f.bench.recrawl.Enabled = true }, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			f := opened(t, cfg, polite)
			h := f.bench.enter("http://h1.test")
			h.window[Discovered].push(pending{ref: &blockRef{}})
			f.bench.loadedHost(h, record{}, time.Now())
			h.lost, h.notBefore = true, time.Now().Add(time.Hour)
			f.scan, f.bench.recrawl.over = false, true
			f.ledger.count.change(func(t *Totals) { t.Pending = 7 })
			c.change(f, h)
			if idle := f.Idle(patience); f.Hopeless() != c.hopeless || idle != c.idle {
				t.Errorf("%s: hopeless %v, idle %v", what, f.Hopeless(), idle)
			}
		})
	}
}

// answeredUntil makes a host one that has answered, and waits.
func (h *host) answeredUntil(wait time.Duration) {
	h.robotsUntil, h.notBefore = time.Now().Add(time.Hour), time.Now().Add(wait)
}

// A last try that fails changes nothing of when a host is tried otherwise. Failures after that count, and are followed by another last try.
func TestLastTry(t *testing.T) {
	now := time.Now()
	var h host
	h.answeredUntil(time.Hour)
	regular := h.notBefore
	if h.countFailure(now); h.failures != 1 || !h.resumes.IsZero() {
		t.Fatalf("a failure: %+v", h)
	}
	h.resumes, h.notBefore = regular, now
	if h.countFailure(now) || h.failures != 1 || h.notBefore != regular || h.resumes.IsZero() {
		t.Errorf("a last try: %+v", h)
	}
	if !h.countFailure(regular) || h.failures != 2 || !h.resumes.IsZero() {
		t.Errorf("the next failure: %+v", h)
	}
	if h.recovered(); h.failures != 0 {
		t.Errorf("an answer: %+v", h)
	}
}

// The addresses of a host are told while it is placed by its own name, that of its server first.
func TestAddressesOfAHost(t *testing.T) {
	addr2, addr3 := addr1.Next(), addr1.Next().Next()
	for what, c := range map[string]struct {
		change func(h *host)
		known  bool
	}{
		"placed":                  {func(*host) {}, true},
		"not placed":              {func(h *host) { h.place = unplaced }, false},
		"by another name":         {func(h *host) { h.placedName = "other.test" }, false},
		"for a redirected robots": {func(h *host) { h.robotsTarget = &redirectedRobots{url: identity.URL{Host: "http://h1.test"}} }, false},
		"of another host":         {func(h *host) { h.name = "http://h2.test" }, false},
	} {
		cfg, polite := testConfig()
		w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(5, 6)))
		p := &placing{&activation{front: &front{bench: w}}}
		h := w.enter("http://h1.test")
		h.place, h.placedName, h.server, h.addrs = placed, "h1.test", w.newServer(addr2), []netip.Addr{addr1, addr2, addr3}
		c.change(h)
		addrs, known := p.Placed("http://h1.test")
		if known != c.known || known && !slices.Equal(addrs, []netip.Addr{addr2, addr1, addr3}) {
			t.Errorf("%s: %v, %v", what, addrs, known)
		}
		if _, known := p.Placed("http://h3.test"); known {
			t.Error("a host that is not here has addresses")
		}
	}
}

// What a host still has to do, whether it can be sent back to disk, and whether it comes again then. Each case differs from a host at rest
// whose only URL waits on disk.
func TestHostsThatComeAndGo(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for what, c := range map[string]struct {
		change           func(h *host)
		evictable, again bool
		due              time.Duration // 0 for nothing
	}{
		"on disk":            {func(*host) {}, true, true, 0},
		"no URL":             {func(h *host) { h.more[Discovered] = false }, true, false, 0},
		"another's":          {func(h *host) { h.foreign, h.frozen = true, true }, true, false, 0},
		"frozen without":     {func(h *host) { h.more[Discovered], h.frozen = false, true }, true, true, 0},
		"delayed":            {func(h *host) { h.more[Discovered], h.notBefore = false, now; h.delay(pending{retryAt: now.Add(9)}) }, true, true, 9},
		"delayed, and waits": {func(h *host) { h.notBefore, h.delayed = now.Add(10), []pending{{retryAt: now.Add(9)}} }, true, true, 10},
		"in the window":      {func(h *host) { h.opens = now.Add(7); h.window[Estimate].push(pending{}) }, true, true, 7},
		"not placed":         {func(h *host) { h.place = unplaced }, true, true, 0},
		"being resolved":     {func(h *host) { h.place = resolving }, false, true, 0},
		"loading":            {func(h *host) { h.place = loading }, false, true, 0},
		"being read":         {func(h *host) { h.reading = true }, false, true, 0},
		"asked":              {func(h *host) { h.inFlight = 1 }, false, true, 0},
		"being written":      {func(h *host) { h.ending = 1 }, false, true, 0},
		"at a server":        {func(h *host) { h.server = &server{} }, true, true, 0},
		"at a reserved one":  {func(h *host) { h.server = &server{reserved: true} }, false, true, 0},
	} {
		h := &host{place: placed}
		h.more[Discovered] = true
		c.change(h)
		due, work := h.due()
		if h.evictable() != c.evictable || h.displaced() != c.again || work != (c.due > 0) || work && !due.Equal(now.Add(c.due)) {
			t.Errorf("%s: evictable %v, comes again %v, due %v, %v", what, h.evictable(), h.displaced(), work, due)
		}
	}
}

// A full workbench sends back to disk the hosts that sleep for long, and those of a crowd, but none with single URLs that wait, because that
// is not on disk. The scan then looks for them again. Each case differs from one of 32 hosts at a server that has a gap of two seconds.
func TestSentBackToDisk(t *testing.T) {
	now := time.Now()
	for what, c := range map[string]struct {
		change         func(h *host)
		sleeper, crowd bool
	}{
		"of a crowd":            {func(*host) {}, false, true},
		"of no crowd":           {func(h *host) { clear(h.server.hosts); h.server.hosts[h] = struct{}{} }, false, false},
		"of 31 hosts":           {func(h *host) { delete(h.server.hosts, h) }, false, false},
		"asleep":                {func(h *host) { h.notBefore = now.Add(longSleep + 1) }, true, true},
		"asleep for a minute":   {func(h *host) { h.notBefore = now.Add(longSleep) }, false, true},
		"outside its hours":     {func(h *host) { h.opens = now.Add(longSleep + 1) }, true, true},
		"with a URL that waits": {func(h *host) { h.delay(pending{retryAt: now}) }, false, false},
		"with nothing else":     {func(h *host) { h.window[Discovered].pop(); h.delay(pending{retryAt: now.Add(time.Hour)}) }, false, false},
		"suspended":             {func(h *host) { h.suspended = "why" }, false, false},
		"being asked":           {func(h *host) { h.notBefore, h.inFlight = now.Add(time.Hour), 1 }, false, false},
	} {
		for _, crowd := range []bool{false, true} {
			f := scanning(t, 0, 0, now)
			f.bench.rules.MinGap, f.bench.rules.prefixes = 2*time.Second, nil
			f.evictCrowdLocked(now.Add(-longSleep))
			h := f.bench.enter("http://h.test")
			h.reading, h.place, h.server = false, placed, f.bench.newServer(addr1)
			h.server.hosts[h] = struct{}{}
			for range 31 {
				h.server.hosts[&host{}] = struct{}{}
			}
			h.window[Discovered].push(pending{ref: &blockRef{}})
			c.change(h)
			f.scan, f.wrapped, f.bench.recrawl.over = false, true, true
			evict, want := f.evictSleepersLocked, c.sleeper
			if crowd {
				evict, want = f.evictCrowdLocked, c.crowd
				if evict(now.Add(-1)); f.bench.hosts[h.name] == nil {
					t.Errorf("%s: crowds were sent back twice in a minute", what)
				}
			}
			evict(now)
			got := f.bench.hosts[h.name] == nil
			if got != want || f.scan != got || f.found != got || f.bench.recrawl.over == got || f.wrapped != !(got && crowd) {
				t.Errorf("%s, as a crowd %v: sent back %v; scan %v, found %v, rests %v, all visited %v",
					what, crowd, got, f.scan, f.found, f.wrapped, f.bench.recrawl.over)
			}
		}
	}
}

// Who waits for the end of the crawl is told when the last change is on disk.
func TestQuietWhenAllIsWritten(t *testing.T) {
	f := scanning(t, 0, 0, time.Now())
	f.ending = 2
	if f.written(); has(f.quiet) {
		t.Error("quiet, though a change is not on disk yet")
	}
	if f.written(); !has(f.quiet) {
		t.Error("nobody is told")
	}
}

// URLs that wait for another try come in the order of their times. Those of one time come as they were put there.
func TestDelayedURLs(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	h := &host{}
	for i, after := range []time.Duration{3, 1, 2, 2, 4, 0} {
		h.delay(pending{entry: entry{hash: uint64(i)}, ref: &blockRef{}, retryAt: now.Add(after * time.Second)})
	}
	var order []uint64
	for _, p := range h.delayed {
		order = append(order, p.hash)
	}
	if want := []uint64{5, 1, 2, 3, 0, 4}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	h.revive(now.Add(2 * time.Second))
	if len(h.delayed) != 2 || h.windowed() != 4 || h.window[Discovered].pop().hash != 3 {
		t.Errorf("%d wait, %d may be asked for", len(h.delayed), h.windowed())
	}
}

// A host is frozen until the last of those who freeze it has thawed it. Until then it comes in neither for its URLs nor for its due pages.
func TestTwoFreezes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		l := inMemory(t)(recrawlConfig())
		for range 2 {
			must(t, l.freeze(context.Background(), host))
		}
		time.AfterFunc(time.Second, func() { l.add(page(host, 1)) })
		if l.taking(time.Minute); l.Explain(host).Known {
			t.Error("it came in with its first URL")
		}
		l.add(page(host, 0))
		l.mu.Lock()
		l.bench.recrawl.searchAnew()
		l.craving, l.bench.recrawl.wanted, l.bench.recrawl.ahead = true, true, []dueHost{{host, 1}}
		l.mu.Unlock()
		hosts, err := l.nextHosts()
		due, none := l.nextDueHosts()
		if len(hosts)+len(due) > 0 || err != nil || none != nil || len(l.bench.recrawl.ahead)+len(l.candidates) > 0 {
			t.Errorf("%d and %d hosts come in, %v, %v", len(hosts), len(due), err, none)
		}
		over := l.frozen[host].over
		for i := range 2 {
			l.thaw(host)
			ended := false
			select {
			case <-over:
				ended = true
			default:
			}
			if ended != (i == 1) || (l.frozen[host] == nil) != ended {
				t.Errorf("thawed %d times: over %v, frozen %v", i+1, ended, l.frozen[host] != nil)
			}
		}
	})
}

// A host that is frozen while it comes in comes in again after that.
func TestFrozenOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		var l *life
		reads := 0
		cfg, polite := testConfig()
		l = begin(t, "", cfg, polite, Deps{Blocked: func(string) string {
			if reads++; reads == 1 {
				go func() {
					if err := l.freeze(context.Background(), host); err != nil {
						t.Error(err)
					}
					l.thaw(host)
				}()
				time.Sleep(time.Millisecond)
			}
			return ""
		}})
		l.add(page(host, 1))
		if err := l.Activate(context.Background(), host); err != nil || !l.Explain(host).Known || reads != 2 {
			t.Errorf("it came in %d times, and is there %v, %v", reads, l.Explain(host).Known, err)
		}
	})
}

// Numbers without a word are unknown.
func TestWords(t *testing.T) {
	for _, c := range [][2]string{{Revisit.String(), "revisit"}, {origins.String(), "unknown"},
		{Leaving.String(), "leaving"}, {roles.String(), "unknown"}} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}
