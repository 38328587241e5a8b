package frontier

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"proxima/frontier/revisit"
)

// What is just a value is taken, and what is just none is refused with the name of its key.
func TestBounds(t *testing.T) {
	const day = 24 * time.Hour
	c, p := Default(), DefaultPoliteness()
	c.Recrawl.Enabled = true
	for _, v := range []struct {
		key string
		set func(good bool)
	}{
		{"max_host_urls", func(g bool) { c.MaxHostURLs = pick(g, 0, -1) }},
		{"max_host_urls", func(g bool) { c.MaxHostURLs = pick(g, 1<<30, 1<<30+1) }},
		{"min_free_mib", func(g bool) { c.MinFreeMiB = pick(g, 0, -1) }},
		{"min_free_mib", func(g bool) { c.MinFreeMiB = pick(g, 1<<30, 1<<30+1) }},
		{"age", func(g bool) { c.Recrawl.Age = pick[time.Duration](g, 0, -1) }},
		{"age", func(g bool) { c.Recrawl.Age = pick(g, 3650*day, 3650*day+1) }},
		{"budget", func(g bool) { c.Recrawl.Budget = pick(g, 0, -1) }},
		{"min", func(g bool) { c.Recrawl.Min = pick(g, time.Minute, time.Minute-1) }},
		{"share", func(g bool) { c.Recrawl.Share = pick(g, 0, -0.01) }},
		{"share", func(g bool) { c.Recrawl.Share = pick(g, 1, 1.01) }},
		{"min_gap", func(g bool) { p.MinGap = pick[time.Duration](g, 0, -1) }},
		{"own_gap", func(g bool) { p.OwnGap = pick(g, 1000*time.Hour, 1000*time.Hour+1) }},
		{"backoff_min", func(g bool) { p.BackoffMin = pick(g, 1, time.Duration(0)) }},
		{"backoff_min", func(g bool) { p.BackoffMax = pick(g, p.BackoffMin, p.BackoffMin-1) }},
		{"factor", func(g bool) { p.Factor = pick(g, 0, -0.01) }},
		{"factor", func(g bool) { p.Factor = pick(g, 1000, 1000.01) }},
		{"retry_name", func(g bool) { p.RetryName = slices.Repeat([]time.Duration{1}, pick(g, 100, 101)) }},
		{"retry_page", func(g bool) { p.RetryPage = []time.Duration{pick(g, 1, time.Duration(0))} }},
		{"retry_connect", func(g bool) { p.RetryConnect = []time.Duration{pick(g, 1000*time.Hour, 1000*time.Hour+1)} }},
		{"own_parallel", func(g bool) { p.OwnParallel = pick(g, 1, 0) }},
		{"own_parallel", func(g bool) { p.OwnParallel = pick(g, 10_000, 10_001) }},
		{"own", func(g bool) { p.Own = []string{pick(g, "10.0.0.1/8", "10.0.0.1")} }},
	} {
		for _, good := range []bool{false, true} {
			v.set(good)
			if err := errors.Join(c.Validate(), p.Validate()); (err == nil) != good || err != nil && !strings.HasPrefix(err.Error(), v.key+": ") {
				t.Errorf("%s, good %v: %v", v.key, good, err)
			}
		}
	}
	c = Default()
	c.Recrawl.Min = 0
	if err := c.Validate(); err != nil {
		t.Errorf("of what is off nothing counts: %v", err)
	}
	for memory, want := range map[int][3]int{1: {1, 1, 4}, 512: {32, 48, 8}, 256: {16, 24, 4}, 320: {20, 30, 5}, 1 << 20: {65536, 98304, 128}} {
		c.MemoryMiB = memory
		if got := [3]int{c.filterMiB(), c.setsMiB(), c.memtableMiB()}; got != want {
			t.Errorf("%d MiB are used as %v", memory, got)
		}
	}
}

func pick[T any](good bool, a, b T) T {
	if good {
		return a
	}
	return b
}

// What is no position, no key and no page is refused.
func TestMalformed(t *testing.T) {
	good := Cursor{stage: exportPages, origin: Revisit, seq: 1 << 60, index: math.MaxInt32, of: 3, fresh: 5}
	for c, ok := range map[Cursor]bool{
		{}: true, good: true, {stage: exportDone, fresh: math.MaxInt32}: true, {origin: Revisit + 1}: false, {index: math.MaxInt32 + 1}: false,
		{of: math.MaxInt32 + 1}: false, {fresh: math.MaxInt32 + 1}: false,
	} {
		if got, err := ParseCursor(c.Append(nil)); (err == nil) != ok || ok && got != c {
			t.Errorf("%+v is read as %+v, %v", c, got, err)
		}
	}
	b := good.Append(nil)
	for name, b := range map[string][]byte{"another version": append([]byte{3}, b[1:]...), "short": b[:len(b)-1], "long": append(slices.Clone(b), 0),
		"no part": append([]byte{2, 3}, b[2:]...)} {
		if c, err := ParseCursor(b); err == nil {
			t.Errorf("%s is read as %+v", name, c)
		}
	}
	if c, err := ParseCursor(nil); err != nil || c != (Cursor{}) {
		t.Errorf("nothing is read as %+v, %v", c, err)
	}

	key := dueKey("h", 7, 9)
	for name, err := range map[string]error{
		"another version": third(splitKey(append([]byte{keyVersion + 1}, key[1:]...))), "no host": third(splitKey(key[:2])),
		"no end":  third(splitKey([]byte{keyVersion, kindHost, 'h'})),
		"a block": third(splitPending(make([]byte, 8))), "a long block": third(splitPending(make([]byte, 10))),
		"a block of no origin": third(splitPending([]byte{byte(origins), 0, 0, 0, 0, 0, 0, 0, 1})),
		"a page":               third(splitDue(make([]byte, 11))), "a long page": third(splitDue(make([]byte, 13))),
		"a next host": third(splitNext(nextKey(1, ""))), "another next host": third(splitNext(append([]byte{0}, nextKey(1, "h")[1:]...))),
	} {
		if err == nil {
			t.Errorf("%s is a key", name)
		}
	}
	if host, rest, err := splitKey(append([]byte{keyVersion, kindHost}, 0)); host != "" || len(rest) != 0 || err != nil {
		t.Errorf("the key without a name: %q, %v, %v", host, rest, err)
	}
	if due, host, err := splitNext(nextKey(1, "h")); due != 1 || host != "h" || err != nil {
		t.Errorf("the next host: %d, %q, %v", due, host, err)
	}

	codec, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	defer codec.close()
	for name, b := range map[string][]byte{
		"nothing": nil, "a block without a form": {blockVersion}, "a block of another form": {blockVersion, 9, 0, 0, 0, 0, 1, '/'},
		"a block that is cut": {blockVersion, blockPlain, 0}, "a block of no zstd": {blockVersion, blockZstd, 0}, "a block to come": {blockVersion + 1, blockPlain},
	} {
		if entries, err := codec.open("h", b); err == nil {
			t.Errorf("%s is read as %+v", name, entries)
		}
	}

	now := time.Unix(1_800_000_000, 0)
	page := PageRecord{Path: "/" + strings.Repeat("x", maxPagePath-1), Seen: now, Due: now, ETag: "x!~"}
	value := func(change func(p *PageRecord)) []byte {
		p := page
		change(&p)
		return AppendPage(nil, &p, now)
	}
	plain := value(func(*PageRecord) {})
	if p, err := ParsePage(plain, now); err != nil || p.Path != page.Path {
		t.Errorf("the longest path: %v", err)
	}
	for name, b := range map[string][]byte{
		"a longer path": value(func(p *PageRecord) { p.Path += "x" }), "no path": value(func(p *PageRecord) { p.Path = "" }),
		"another path": value(func(p *PageRecord) { p.Path = "a" }), "a space in the ETag": value(func(p *PageRecord) { p.ETag = " " }),
		"more than ASCII in it": value(func(p *PageRecord) { p.ETag = "\x7f" }), "nothing": nil, "a version": plain[:1],
		"another version": append([]byte{pageVersion + 1}, plain[1:]...), "another flag": append([]byte{pageVersion, 1 << 5}, plain[2:]...),
	} {
		if p, err := ParsePage(b, now); err == nil {
			t.Errorf("%s is read as %+v", name, p)
		}
	}
	for i := range 40 {
		if _, err := ParsePage(plain[:i], now); err == nil {
			t.Errorf("%d bytes are a page", i)
		}
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

// Stamps are seconds since 1970, at least one, and 0 for none.
func TestStamps(t *testing.T) {
	for at, want := range map[time.Time]stamp{{}: 0, time.Unix(0, 0): 1, time.Unix(-5, 0): 1, time.Unix(1, 0): 1, time.Unix(2, 9): 2,
		time.Unix(1<<32-1, 0): 1<<32 - 1, time.Unix(1<<32, 0): 1<<32 - 1} {
		if got := stampOf(at); got != want {
			t.Errorf("%v is %d, want %d", at, got, want)
		}
	}
	if !timeOf(0).IsZero() || timeOf(1) != time.Unix(1, 0) {
		t.Errorf("back: %v, %v", timeOf(0), timeOf(1))
	}
}

// A page after a visit, and without an answer.
func TestPageAfterAVisit(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	r := Recrawl{Enabled: true, Min: time.Minute, Max: time.Hour}
	once := Recrawl{Age: 10 * time.Second, Min: time.Minute, Max: time.Hour}
	for _, c := range []struct {
		failures uint8
		r        Recrawl
		due      time.Duration
		want     uint8
	}{
		{0, r, time.Minute, 1}, {1, r, 2 * time.Minute, 2}, {5, r, 32 * time.Minute, 6}, {6, r, time.Hour, 7}, {17, r, time.Hour, 18},
		{254, r, time.Hour, 255}, {255, r, time.Hour, 255}, {0, once, time.Minute, 1}, {0, Recrawl{Age: time.Hour}, time.Hour, 1},
		{60, Recrawl{Enabled: true, Min: time.Minute, Max: 1 << 62}, time.Minute << 16, 61},
	} {
		p := &PageRecord{Path: "/", Seen: now.Add(-time.Hour), Failures: c.failures}
		n := p.after(nil, c.r, nil, now)
		if due := n.Due.Sub(now.Truncate(time.Second)); due != c.due || n.Failures != c.want || n.Seen != p.Seen {
			t.Errorf("after %d failures: due after %v, %d failures", c.failures, due, n.Failures)
		}
	}
	long := &Visit{Found: Altered, Digest: 7, ETag: strings.Repeat("x", MaxETag+1), Modified: now.Add(-time.Hour)}
	most := &Visit{Found: Altered, Digest: 7, ETag: strings.Repeat("x", MaxETag)}
	was := &PageRecord{Path: "/", Seen: now.Add(-time.Hour), Hinted: true, Digest: 3, Body: 4, Simhash: 5, Gone: 1, ETag: "old", Modified: now.Add(-2 * time.Hour)}
	fresh := *was
	fresh.Gone, fresh.Hinted = 0, false
	for _, c := range []struct {
		name    string
		was     *PageRecord
		v       *Visit
		etag    int
		digest  uint64
		changed bool
		gone    uint8
	}{
		{"new", &PageRecord{Path: "/"}, long, 0, 7, false, 0}, {"altered", &fresh, most, MaxETag, 7, true, 0},
		{"back", was, &Visit{}, 0, 3, true, 0}, {"unchanged", &fresh, &Visit{ETag: "a"}, 1, 3, false, 0}, {"trivial", &fresh, &Visit{Found: Trivial, Digest: 9}, 0, 9, false, 0},
		{"gone", &fresh, &Visit{Found: Gone}, 0, 3, true, 1}, {"gone still", was, &Visit{Found: Gone}, 0, 3, false, 2},
	} {
		n := c.was.after(c.v, once, nil, now)
		if len(n.ETag) != c.etag || n.Digest != c.digest || n.Changed.IsZero() == c.changed || n.Gone != c.gone || n.Hinted || n.Modified != c.v.Modified ||
			n.Due.Sub(now.Truncate(time.Second)) != once.Age || n.History.Visits() != 1 || n.Failures != 0 || n.Seen != now.Truncate(time.Second) {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
	if was.Gone++; was.after(&Visit{Found: Gone}, once, nil, now) != nil || fresh.after(&Visit{Found: Moved}, once, nil, now) != nil || (&PageRecord{}).after(&Visit{Found: Gone}, once, nil, now) != nil {
		t.Error("it is remembered")
	}
	if n := fresh.after(&Visit{Found: Gone}, r, nil, now); n.Due.Sub(now.Truncate(time.Second)) != r.Max {
		t.Errorf("a page that is gone is due at %v", n.Due)
	}
	quick := Recrawl{Age: 1}
	if n := fresh.after(&Visit{}, quick, nil, now); n.Due.Sub(n.Seen) != time.Second {
		t.Errorf("at an age of nothing it is due after %v", n.Due.Sub(n.Seen))
	}
	// The plan knows how old the page is by what its server says, and what it says to keep.
	plan := r.plan().NewPlan(new(revisit.Sample), 1)
	for _, modified := range []time.Time{{}, now.Add(-1000 * time.Hour), now.Add(time.Hour)} {
		v := &Visit{Found: Unchanged, Modified: modified, FreshFor: 50 * time.Minute}
		look := revisit.Visit{Gap: now.Truncate(time.Second).Sub(fresh.Seen)}
		if modified.Before(now) && !modified.IsZero() {
			look.Age = now.Truncate(time.Second).Sub(modified)
		}
		want := fresh.History.With(look)
		n := fresh.after(v, r, plan, now)
		if due := plan.Next(want, n.Seen, n.Seen, revisit.Hints{FreshFor: v.FreshFor}); n.History != want || !n.Due.Equal(due) {
			t.Errorf("modified %v: due at %v, not %v; %v", modified, n.Due, due, n.History)
		}
	}
}

// Of two copies of a page that of the later visit wins. If they were visited at about the same time, that with more visits or worse news
// wins.
func TestFresher(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(after time.Duration, gone, failures uint8, dropped bool) *PageRecord {
		return &PageRecord{Seen: now.Add(after), Gone: gone, Failures: failures, Dropped: dropped}
	}
	visited := func(after time.Duration, visits int) *PageRecord {
		p := at(after, 0, 0, false)
		for range visits {
			p.History = p.History.With(revisit.Visit{Gap: time.Hour})
		}
		return p
	}
	for _, c := range []struct {
		name string
		p, q *PageRecord
		want bool
	}{
		{"more visits", visited(0, 2), visited(0, 1), true}, {"fewer visits", visited(9*time.Second, 1), visited(0, 2), false},
		{"fewer visits, later", visited(time.Hour, 1), visited(0, 2), true}, {"forgotten later", at(time.Minute, 0, 0, true), at(0, 0, 0, false), true},
		{"gone", at(0, 1, 0, false), at(0, 0, 5, false), true}, {"not gone", at(0, 0, 5, false), at(0, 1, 0, false), false},
		{"failed", at(0, 1, 1, false), at(0, 1, 0, false), true}, {"not failed", at(0, 1, 0, false), at(0, 1, 1, false), false},
		{"dropped", at(0, 0, 0, true), at(0, 0, 0, false), true}, {"the same", at(0, 0, 0, false), at(0, 0, 0, true), false},
		{"near", at(10*time.Second, 0, 0, false), at(0, 1, 0, false), false}, {"later", at(10*time.Second+1, 0, 0, false), at(0, 1, 0, false), true},
		{"near before", at(0, 1, 0, false), at(10*time.Second, 0, 0, false), true}, {"before", at(0, 1, 0, false), at(10*time.Second+1, 0, 0, false), false},
	} {
		if got := c.p.fresher(c.q); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		alike := c.p.History.Visits() == c.q.History.Visits() && c.p.Gone == c.q.Gone && c.p.Failures == c.q.Failures
		if (c.p.mark(7) == c.q.mark(7)) != alike || c.p.mark(7) == c.p.mark(8) {
			t.Errorf("%s: their marks are alike, or those of two pages", c.name)
		}
	}
}

// A host that is read from disk has a server of its own, at an address that is never dialled.
func TestFileServer(t *testing.T) {
	a, b := FileServer("file://a"), FileServer("file://b")
	discard := netip.MustParsePrefix("100::/64")
	if !discard.Contains(a) || !discard.Contains(b) || a == b || a != FileServer("file://a") || !isFileServer(a) || a.As16()[15] == 0 && b.As16()[15] == 0 {
		t.Errorf("%v and %v", a, b)
	}
	for _, other := range []string{"100:0:0:1::1", "101::1", "192.0.2.1", "200::"} {
		if isFileServer(netip.MustParseAddr(other)) {
			t.Errorf("%s is one", other)
		}
	}
	r := testRules()
	if gap := r.gap(nil, a, time.Hour, time.Hour, time.Hour); gap != 0 {
		t.Errorf("its gap is %v", gap)
	}
	hour := time.Hour
	if gap := r.gap(&Site{Gap: &hour}, netip.MustParseAddr("10.1.2.3"), 0, 0, 0); gap != hour {
		t.Errorf("the gap of a site is %v, though the server is one's own", gap)
	}
}

// A node that is slowed down waits before each of its tasks.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, over := &Frontier{}, func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		}()
		for _, on := range []bool{false, true, false} {
			f.SetSlow(on)
			begun := time.Now()
			if err := f.pause(t.Context()); err != nil || (time.Since(begun) > 0) != on {
				t.Errorf("slow %v: waits %v, %v", on, time.Since(begun), err)
			}
			if f.pause(over) == nil {
				t.Errorf("slow %v: a task comes after the end", on)
			}
		}
	})
}

// An overloaded server is asked more slowly until it is not any more.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		slow := &Site{Gap: new(time.Duration)}
		*slow.Gap = 7 * time.Second
		l := begin(t, "", cfg, polite, Deps{Site: func(host string) *Site { return map[string]*Site{"http://h2.test": slow}[host] }})
		if got := l.Gap("http://h2.test", addr1, 0, 0); got != *slow.Gap {
			t.Errorf("the gap of a site is %v", got)
		}
		gap := func(want time.Duration) {
			t.Helper()
			if got := l.Gap("http://h1.test", addr1, 0, 0); got != want {
				t.Errorf("the gap is %v, want %v", got, want)
			}
		}
		gap(time.Second)
		l.SetSpacing(addr1, 3)
		gap(3 * time.Second)
		l.SetSpacing(addr1, 1)
		if gap(time.Second); len(l.bench.rules.spacing) > 0 {
			t.Error("what is as usual is kept")
		}
		go l.placing(addr1)
		l.add(page("http://h1.test", 1))
		l.finish(l.taking(time.Minute), Outcome{Robots: &RobotsOutcome{Lifetime: time.Hour, CrawlDelay: 9 * time.Second}})
		gap(9 * time.Second)
		if at, none := l.HostsAt(addr1), l.HostsAt(addr1.Next()); l.OwnServer(addr1) || !slices.Equal(at, []string{"http://h1.test"}) || none != nil {
			t.Errorf("another's server is one's own, or serves %v, and one that is not known %v", at, none)
		}
		l.finish(l.taking(time.Minute), Outcome{})
	})
}

// Exact seen sets leave memory when they take too much of it, except the one in use.
func TestSetsAreBounded(t *testing.T) {
	s := newSets(2*setCost + 5*hashCost)
	a := s.put("a")
	for i := range 2 {
		s.add(a, uint64(i), isDone)
		s.add(a, uint64(i), pendingAt(3)) // again
	}
	b := s.put("b")
	for i := range 3 {
		s.add(b, uint64(i), isDone)
	}
	if s.get("a") != a || s.get("b") != b || s.bytes != s.limit {
		t.Errorf("%d bytes of %d; a %v, b %v", s.bytes, s.limit, s.get("a"), s.get("b"))
	}
	s.get("a")
	s.add(a, 9, isDone)
	if s.get("a") != a || s.get("b") != nil || s.bytes != setCost+3*hashCost {
		t.Errorf("%d bytes; a %v, b %v", s.bytes, s.get("a"), s.get("b"))
	}
	for i := range uint64(100) {
		s.add(a, i, isDone)
	}
	if s.get("a") != a || len(a.hashes) != 100 {
		t.Error("the only one left")
	}
	c := s.put("c")
	s.get("a")
	if s.add(c, 1, isDone); s.get("c") != c || s.bytes != setCost+100*hashCost+setCost+hashCost {
		t.Errorf("the one that is read left; %d bytes", s.bytes)
	}
	for depth, want := range map[uint8]urlState{0: 1, 253: 254, 254: 255, 255: 255} {
		if got := pendingAt(depth); got != want || got.deeper(depth) || depth > 0 && !got.deeper(depth-2) && depth > 1 || isDone.deeper(0) {
			t.Errorf("depth %d is %d", depth, got)
		}
	}
}

// Many imports of hashes that come together fit into the transactions of the smallest store.
func TestManyHashesAtOnce(t *testing.T) {
	l := inMemory(t)(testConfig())
	var importing sync.WaitGroup
	for k := range 64 {
		importing.Go(func() {
			done := make([]uint64, maxRequestHashes)
			for i := range done {
				done[i] = uint64(k<<32 + i + 1)
			}
			host := fmt.Sprintf("http://h%d.test", k)
			if n, err := l.Import(context.Background(), host, Chunk{Done: done}, Assigned); n != 0 || err != nil {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
	importing.Wait()
}

// What happened later is added to what happened, and takes the memory that it says.
func TestChangesFollow(t *testing.T) {
	c := &Change{Added: []PendingURL{{Path: "/a"}}, Done: []uint64{1}, State: true}
	if got := c.Memory(); got != 64+8+2+pendingCost {
		t.Errorf("%d bytes", got)
	}
	c.Follow(&Change{Added: []PendingURL{{Path: "/b"}}, Done: []uint64{2}, Pages: []PageRecord{{Path: "/p", ETag: "x"}}, Tracked: true, Digest: Digest{Done: 2}})
	if len(c.Added) != 2 || len(c.Done) != 2 || len(c.Pages) != 1 || !c.State || !c.Tracked || c.Digest.Done != 2 || c.Lost || c.Dropped ||
		c.Memory() != 64+16+4+2*pendingCost+240+3 {
		t.Errorf("%+v, %d bytes", c, c.Memory())
	}
	c.Follow(&Change{Dropped: true, Lost: true, Added: []PendingURL{{Path: "/c"}}})
	if len(c.Added) != 1 || !c.Dropped || !c.Lost || c.Tracked || len(c.Done) != 2 {
		t.Errorf("%+v", c)
	}
	if c.Follow(&Change{}); !c.Lost || !c.Dropped {
		t.Errorf("what is lost is not, for what comes later: %+v", c)
	}
	f := newFeed()
	n := (&Change{}).Memory()
	f.bytes = maxFeedBytes - n
	f.add(map[string]*Change{"fits": {}})
	f.add(map[string]*Change{"not": {}})
	if f.hosts["fits"].Lost || !f.hosts["not"].Lost || f.bytes != maxFeedBytes {
		t.Errorf("%+v, %d bytes of %d", f.hosts, f.bytes, maxFeedBytes)
	}
	f.add(map[string]*Change{"fits": {Done: []uint64{1}}})
	f.add(map[string]*Change{"fits": {}, "not": {}}) // there is room now, and what is lost stays lost
	if !f.hosts["fits"].Lost || !f.hosts["not"].Lost || f.bytes != maxFeedBytes-n {
		t.Errorf("%+v, %d bytes of %d", f.hosts, f.bytes, maxFeedBytes)
	}
	tr := &transfers{&activation{front: &front{ledger: &ledger{feed: f}}}}
	if len(tr.Changes()) != 2 || f.bytes != 0 || len(tr.Changes()) != 0 {
		t.Errorf("%d bytes are left", f.bytes)
	}
	now := time.Unix(1_800_000_000, 0)
	for _, a := range []struct {
		a, b time.Time
		want bool
	}{{now, now, true}, {now, now.Add(time.Second - 1), true}, {now, now.Add(time.Second), false}, {now.Add(time.Second), now, false}, {time.Time{}, time.Time{}, true}, {time.Time{}, time.Time{}.Add(1), false}} {
		if got := near(a.a, a.b); got != a.want {
			t.Errorf("%v and %v: %v", a.a, a.b, got)
		}
	}
	state := hostState{notBefore: now, crawlDelay: 1, level: 2, robotsUntil: now}
	for i, s := range []hostState{{notBefore: now, crawlDelay: 1, level: 2, robotsUntil: now, lastRequest: now, failures: 3}, {crawlDelay: 1, level: 2, robotsUntil: now}, {notBefore: now, level: 2, robotsUntil: now},
		{notBefore: now, crawlDelay: 1, robotsUntil: now}, {notBefore: now, crawlDelay: 1, level: 2}} {
		if got := s.alike(&state); got != (i == 0) {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

// The step from the map of few hashes to the Bloom filter loses no hash. Before it no new hash is mistaken for a known one, and after it no
// more than with 20 million URLs in 32 MiB.
func TestFilterSteps(t *testing.T) {
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	const n = 20_000_000 / 32
	f := newSeen(1)
	mistaken := 0
	for i := range n {
		if f.perhaps(hash(i)) {
			mistaken++
		}
		if i == mostFew-1 && (mistaken > 0 || f.many != nil) {
			t.Errorf("after %d URLs %d are mistaken, and the Bloom filter is there: %v", i, mistaken, f.many != nil)
		}
	}
	if f.many == nil || f.few != nil {
		t.Fatal("no step")
	}
	if mistaken > n/1000 {
		t.Errorf("%d of %d new URLs are called known", mistaken, n)
	}
	for i := range n {
		if !f.perhaps(hash(i)) {
			t.Fatalf("URL %d is forgotten", i)
		}
	}
	mistaken = 0
	for i := n; i < n+10_000; i++ {
		if f.perhaps(hash(i)) {
			mistaken++
		}
	}
	if mistaken > 10_000/400 {
		t.Errorf("the full filter calls %d of 10000 new URLs known", mistaken)
	}
	f.count("h", math.MaxUint32)
	if n := f.count("h", 2); n != math.MaxUint32 {
		t.Errorf("of a host with too many URLs %d are counted", n)
	}
}
