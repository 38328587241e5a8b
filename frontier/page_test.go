package frontier

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"proxima/frontier/revisit"
)

// drawPage is any page that a frontier may make.
func drawPage(t *rapid.T, now time.Time) PageRecord {
	at := func(name string) time.Time {
		return now.Add(time.Duration(rapid.IntRange(-1e6, 1e6).Draw(t, name)) * time.Second)
	}
	p := PageRecord{
		Path: "/" + rapid.StringMatching(`[a-z0-9/?=]{0,60}`).Draw(t, "path"), Sitemap: rapid.Bool().Draw(t, "sitemap"),
		Depth: rapid.Uint8().Draw(t, "depth"), Seen: at("seen"), Due: at("due"),
		ETag: rapid.StringMatching(`("[!-~]{0,40}")?`).Draw(t, "etag"), Digest: rapid.Uint64().Draw(t, "digest"),
		Body: rapid.Uint32().Draw(t, "body"), Simhash: rapid.Uint64().Draw(t, "simhash"), Gone: rapid.Uint8().Draw(t, "gone"),
		Failures: rapid.Uint8().Draw(t, "failures"), Dropped: rapid.Bool().Draw(t, "dropped"), Hinted: rapid.Bool().Draw(t, "hinted"),
	}
	if rapid.Bool().Draw(t, "has changed") {
		p.Changed = at("changed")
	}
	if rapid.Bool().Draw(t, "has modified") {
		p.Modified = at("modified")
	}
	for range rapid.IntRange(0, 5).Draw(t, "visits") {
		p.History = p.History.With(revisit.Visit{Gap: time.Hour, Changed: rapid.Bool().Draw(t, "change")})
	}
	return p
}

// A page is read as it was written, on disk and at another node with another clock.
func TestPageRecord(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPage(rt, now)
		got, err := ParsePage(AppendPage(nil, &p, p.Due), p.Due)
		if err != nil || got != p {
			rt.Fatalf("read %+v of %+v, %v", got, p, err)
		}
		later := time.Duration(rapid.IntRange(-1e6, 1e6).Draw(rt, "clocks apart")) * time.Second
		got, err = ParsePage(AppendPage(nil, &p, now), now.Add(later))
		p.Seen, p.Due = p.Seen.Add(later), p.Due.Add(later)
		if !p.Changed.IsZero() {
			p.Changed = p.Changed.Add(later)
		}
		if !p.Modified.IsZero() {
			p.Modified = p.Modified.Add(later)
		}
		if err != nil || got != p {
			rt.Fatalf("arrived %+v of %+v, %v", got, p, err)
		}
	})
}

// A record is some 40 bytes beside its path and ETag.
func TestPageRecordSize(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p := PageRecord{Path: "/", Seen: now.Add(-time.Hour * 24 * 30), Due: now, Changed: now.Add(-1000 * time.Hour),
		Modified: now.Add(-5000 * time.Hour), Digest: 1, Simhash: 2}
	if n := len(AppendPage(nil, &p, now)) - 1; n > 54 {
		t.Errorf("%d bytes", n)
	}
}

// Times that no clock should show, and ETags without end, are bounded.
func TestPageRecordBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for _, odd := range []time.Time{time.Unix(-1e15, 0), time.Unix(1e15, 0), {}} {
		p := PageRecord{Path: "/a", Seen: odd, Due: now, Modified: now}
		if _, err := ParsePage(AppendPage(nil, &p, now), now); err != nil {
			t.Errorf("seen %v: %v", odd, err)
		}
		p = PageRecord{Path: "/a", Seen: now, Due: odd, Modified: odd}
		base := time.Unix(int64(stampOf(odd)), 0)
		if got, err := ParsePage(AppendPage(nil, &p, base), base); err != nil || got.Path != "/a" {
			t.Errorf("due and modified %v: %v", odd, err)
		}
	}
	p := PageRecord{Path: "/a", Seen: now, Due: now}
	for base, want := range map[int64]stamp{1 << 33: 1<<32 - 1, -1 << 33: 1} { // the clock of another node
		if got, err := ParsePage(AppendPage(nil, &p, now), time.Unix(base, 0)); err != nil || got.Due != timeOf(want) {
			t.Errorf("at %d it is due at %v, %v", base, got.Due, err)
		}
	}
	p = PageRecord{Path: "/a", Seen: now, Due: now, ETag: string(bytes.Repeat([]byte("x"), 1<<20))}
	if got, err := ParsePage(AppendPage(nil, &p, now), now); err != nil || got.ETag != "" {
		t.Errorf("a long ETag: %d bytes kept, %v", len(got.ETag), err)
	}
	p.ETag = string(bytes.Repeat([]byte("x"), MaxETag))
	if got, err := ParsePage(AppendPage(nil, &p, now), now); err != nil || got.ETag != p.ETag {
		t.Errorf("the longest ETag: %d bytes kept, %v", len(got.ETag), err)
	}
}

func FuzzPageRecord(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	p := PageRecord{Path: "/a?b", Seen: now, Due: now.Add(time.Hour), Changed: now, Modified: now, ETag: `"x"`, Digest: 7}
	f.Add(AppendPage(nil, &p, now))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePage(b, now)
		if err != nil {
			return
		}
		if len(p.ETag) > MaxETag || len(p.Path) > maxPagePath || p.Path[0] != '/' {
			t.Fatalf("accepted %+v", p)
		}
		again, err := ParsePage(AppendPage(nil, &p, now), now)
		if err != nil || again.Path != p.Path || again.ETag != p.ETag || again.History != p.History {
			t.Fatalf("%+v became %+v, %v", p, again, err)
		}
	})
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
	was := &PageRecord{Path: "/", Seen: now.Add(-time.Hour), Hinted: true, Digest: 3, Body: 4, Simhash: 5, Gone: 1,
		ETag: "old", Modified: now.Add(-2 * time.Hour)}
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
		{"back", was, &Visit{}, 0, 3, true, 0}, {"unchanged", &fresh, &Visit{ETag: "a"}, 1, 3, false, 0},
		{"trivial", &fresh, &Visit{Found: Trivial, Digest: 9}, 0, 9, false, 0},
		{"gone", &fresh, &Visit{Found: Gone}, 0, 3, true, 1}, {"gone still", was, &Visit{Found: Gone}, 0, 3, false, 2},
	} {
		n := c.was.after(c.v, once, nil, now)
		if len(n.ETag) != c.etag || n.Digest != c.digest || n.Changed.IsZero() == c.changed || n.Gone != c.gone || n.Hinted ||
			n.Modified != c.v.Modified ||
			n.Due.Sub(now.Truncate(time.Second)) != once.Age || n.History.Visits() != 1 || n.Failures != 0 || n.Seen != now.Truncate(time.Second) {
			t.Errorf("%s: %+v", c.name, n)
		}
	}
	was.Gone++
	for what, n := range map[string]*PageRecord{
		"a page that is gone again": was.after(&Visit{Found: Gone}, once, nil, now),
		"one that has moved":        fresh.after(&Visit{Found: Moved}, once, nil, now),
		"a new one that is gone":    (&PageRecord{}).after(&Visit{Found: Gone}, once, nil, now),
	} {
		if n != nil {
			t.Errorf("%s is remembered", what)
		}
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
		{"near before", at(0, 1, 0, false), at(10*time.Second, 0, 0, false), true},
		{"before", at(0, 1, 0, false), at(10*time.Second+1, 0, 0, false), false},
		{"more visits than by a clock ahead", visited(0, 2), visited(1000*time.Hour, 1), true},
		{"fewer visits, by a clock ahead", visited(1000*time.Hour, 1), visited(0, 2), false},
	} {
		if got := c.p.fresher(c.q, now.Add(time.Hour)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
		alike := c.p.History.Visits() == c.q.History.Visits() && c.p.Gone == c.q.Gone && c.p.Failures == c.q.Failures
		if (c.p.mark(7) == c.q.mark(7)) != alike || c.p.mark(7) == c.p.mark(8) {
			t.Errorf("%s: their marks are alike, or those of two pages", c.name)
		}
	}
}
