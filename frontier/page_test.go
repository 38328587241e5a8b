package frontier

import (
	"bytes"
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
