package frontier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/frontier/coder"
)

func testEntries(n int) []entry {
	var out []entry
	for i := range n {
		path := fmt.Sprintf("/dir-%d/page?%d=%s", i%7, i, strings.Repeat("x", i%90))
		out = append(out, newEntry("www.example.org", PendingURL{Path: path, Sitemap: i%5 == 0, Depth: uint8(i), Hops: uint8(i % 11)}))
	}
	return out
}

func TestBlockRoundTrip(t *testing.T) {
	c := newCodec()
	defer c.close()
	for _, n := range []int{0, 1, 2, 20, maxBlockURLs} {
		want := testEntries(n)
		got, err := c.open("www.example.org", c.seal(bodyOf(want)))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d entries: %v, %d read back", n, err, len(got))
		}
	}
}

// Opening a block ends whatever bytes are on disk, and what it accepts can be written again.
func FuzzBlock(f *testing.F) {
	c := newCodec()
	for _, n := range []int{1, 3, maxBlockURLs, maxBlockURLs + 1} {
		body := bodyOf(testEntries(n))
		f.Add(c.seal(body))
		f.Add(append([]byte{blockVersion, blockPlain}, body...))
	}
	f.Add([]byte{blockVersion, blockZstd, 0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, value []byte) {
		entries, err := c.open("www.example.org", value)
		if err != nil {
			return
		}
		if len(entries) > maxBlockURLs {
			t.Fatalf("%d entries in a block", len(entries))
		}
		again, err := c.open("www.example.org", c.seal(bodyOf(entries)))
		if err != nil || !slices.Equal(again, entries) {
			t.Fatalf("a block that was read cannot be written: %v", err)
		}
	})
}

// testTime is when testRecord is written.
var testTime = time.UnixMilli(1_700_000_000_123)

func testRecord() record {
	r := record{endedUntil: testTime.Add(time.Hour), endReason: "no answer", done: 7, failed: 300, dropped: 1 << 40, fresh: []uint64{1, 1<<64 - 1}}
	r.hostState = hostState{lastRequest: testTime.Add(-3 * time.Second), notBefore: testTime.Add(30 * time.Second), crawlDelay: 1500 * time.Millisecond,
		level: 3, robotsUntil: testTime.Add(8 * time.Hour), failures: 4}
	r.mark(9, 3, 10)
	r.mark(9, 4, 10)
	r.mark(1<<50, 127, 128)
	r.role, r.loose, r.tracked = Leaving, true, true
	r.digest = Digest{Accepted: 400, Done: 307, AcceptedXor: 1<<64 - 1, DoneXor: 5, Drops: 2, Pages: 3, PagesXor: 6}
	r.next, r.hints = 1<<32-1, hints{followed: 8, right: 7}
	return r
}

var sameRecord = cmp.Options{cmp.AllowUnexported(record{}, hostState{}, partialBlock{}, hints{}), cmpopts.EquateEmpty()}

func TestRecordRoundTrip(t *testing.T) {
	for _, want := range []record{{}, testRecord(), {hostState: hostState{triedBy: "another", reachedSince: true}}} {
		got, err := decodeRecord("h", want.bytes(testTime), testTime)
		must(t, err)
		if d := cmp.Diff(want, got, sameRecord); d != "" {
			t.Error(d)
		}
	}
}

// A clock that was never set shows a time near the year 1970. A record that was written then can be read.
func TestRecordOfAClockThatWasNeverSet(t *testing.T) {
	now := time.UnixMilli(5)
	r := record{hostState: hostState{lastRequest: now.Add(-2 * maxAge), notBefore: now.Add(time.Minute)}, done: 3}
	got, err := decodeRecord("h", r.bytes(now.Add(-time.Second)), testTime)
	if err != nil || got.done != 3 || got.notBefore.After(testTime) || testTime.Sub(got.lastRequest) != 2*maxAge {
		t.Errorf("%+v, %v", got, err)
	}
}

// A wait is as long as it was meant, whether the clock that it was written by was ahead of the one that reads it or behind.
func TestClocksThatJump(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		written, read time.Duration
		gone          time.Duration // of the waits, as far as can be known
	}{
		"right":                          {0, 10 * time.Second, 10 * time.Second},
		"ahead by a year":                {year, 10 * time.Second, 0},
		"ahead by a second":              {11 * time.Second, 10 * time.Second, 0},
		"set back":                       {0, -year, 0},
		"behind by a year":               {-year, 10 * time.Second, year + 10*time.Second},
		"ahead, and still so when read":  {year, year + 10*time.Second, 10 * time.Second},
		"behind, and still so when read": {-year, 10*time.Second - year, 10 * time.Second},
	} {
		want := testRecord()
		for _, at := range []*time.Time{&want.lastRequest, &want.notBefore, &want.endedUntil, &want.robotsUntil} {
			*at = at.Add(c.written) // as that clock says it
		}
		now := testTime.Add(c.read)
		got, err := decodeRecord("h", want.bytes(testTime.Add(c.written)), now)
		must(t, err)
		for what, left := range map[string]struct {
			got  time.Time
			want time.Duration
		}{
			"last request": {got.lastRequest, -3 * time.Second}, "back-off": {got.notBefore, 30 * time.Second},
			"end": {got.endedUntil, time.Hour}, "robots.txt": {got.robotsUntil, 8 * time.Hour},
		} {
			if d := left.got.Sub(now); d != left.want-c.gone {
				t.Errorf("clock %s: %s in %v, want %v", name, what, d, left.want-c.gone)
			}
		}
	}
}

// No wait that is read is longer than the bound of its kind.
func TestWaitsAreBounded(t *testing.T) {
	const long = 2 * maxAge
	r := record{hostState: hostState{lastRequest: testTime.Add(long), notBefore: testTime.Add(long), robotsUntil: testTime.Add(long),
		crawlDelay: long, failures: 300}, endedUntil: testTime.Add(long)}
	got, err := decodeRecord("h", r.bytes(testTime), testTime)
	if err != nil || got.lastRequest.After(testTime) || got.notBefore.Sub(testTime) > maxPause || got.endedUntil.Sub(testTime) > maxPause ||
		got.robotsUntil.Sub(testTime) > maxRobotsAge || got.crawlDelay != 1000*time.Hour || got.failures != 255 {
		t.Errorf("%+v, %v", got, err)
	}
	w := testBench(testTime, 1, 1, Discovered)
	h := w.enter("http://h.test")
	w.loadedHost(h, record{hostState: hostState{notBefore: testTime.Add(maxPause), lastRequest: testTime.Add(time.Hour)}}, testTime)
	if wait := h.notBefore.Sub(testTime); wait > w.rules.longest() || h.lastRequest.After(testTime) {
		t.Errorf("the host waits %v, its last request was in %v", wait, h.lastRequest.Sub(testTime))
	}
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		l := begin(t, "", cfg, polite, Deps{})
		l.role("http://h.test", Replica)
		l.imported("http://h.test", Chunk{State: &HostState{SinceRequest: time.Hour, Wait: long, Robots: &RobotsFile{Valid: long}}})
		s, err := l.StateOf(t.Context(), "http://h.test")
		if longest := (&rules{Politeness: polite}).longest(); err != nil || s.Wait > longest || s.Robots == nil || s.Robots.Valid > maxRobotsAge {
			t.Errorf("%+v, %v, want no wait above %v", s, err, longest)
		}
		polite.RetryName = []time.Duration{40 * time.Hour}
		l.Adjust(cfg, polite)
		l.imported("http://h.test", Chunk{State: &HostState{SinceRequest: time.Hour, Wait: 40 * time.Hour}})
		if s, err := l.StateOf(t.Context(), "http://h.test"); err != nil || s.Wait != 40*time.Hour {
			t.Errorf("%+v, %v, want the wait that is allowed now", s, err)
		}
	})
}

// What is no record is refused, and nothing of it is believed. Each case ends a record from its role on.
func TestDamagedRecords(t *testing.T) {
	whole := testRecord()
	whole.role, whole.loose, whole.tracked, whole.digest, whole.failures = Owned, false, false, Digest{}, 0
	b := whole.bytes(testTime)
	begin := b[:len(b)-5] // without role, flags, failures, drops and pages
	for name, end := range map[string][]byte{
		"no role":             {},
		"a role to come":      {byte(roles), 0, 0, 0, 0},
		"a flag to come":      {0, 1 << 5, 0, 0, 0},
		"no node that tried":  {0, 1 << 3},
		"no digest":           {0, 1 << 1, 0, 0, 0},
		"more than a record":  {0, 0, 0, 0, 0, 0},
		"no failures":         {0, 0},
		"no drops":            {0, 0, 0},
		"no pages":            {0, 0, 0, 0},
		"no time of a page":   {0, 0, 0, 0, 1, 8, 7, 6, 5, 4, 3, 2, 1},
		"a time out of range": {0, 0, 0, 0, 1, 8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0xff, 0xff, 0xff, 0x1f},
	} {
		if _, err := decodeRecord("h", slices.Concat(begin, end), testTime); err == nil || errors.Is(err, ErrOldLayout) != (name == "a flag to come") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if b[0]++; b[0] != recordVersion+1 {
		t.Fatal("a record does not begin with its version")
	}
	if _, err := decodeRecord("h", b, testTime); !errors.Is(err, ErrOldLayout) {
		t.Errorf("of a version to come: %v", err)
	}
}

// Times of a page that lie up to 200 years of 365 days apart are kept; what is beyond comes of a clock that was never set.
func TestDistanceOfTimesIsBounded(t *testing.T) {
	const most = 6_307_200_000 // seconds
	for _, c := range []struct {
		apart, kept int64
		damaged     bool // as it stands
	}{{most, most, false}, {most + 1, most, true}, {-most, -most, false}, {-most - 1, -most, true}, {0, 0, false}} {
		w := coder.Writer(nil)
		w.Varint(&c.apart, maxPageAge)
		f, got := coder.Reader(w.B), int64(0)
		if f.Varint(&got, maxPageAge); got != c.kept || f.Err() != nil {
			t.Errorf("%d seconds became %d: %v", c.apart, got, f.Err())
		}
		f = coder.Reader(binary.AppendVarint(nil, c.apart))
		if f.Varint(&got, maxPageAge); (f.Err() != nil) != c.damaged {
			t.Errorf("%d seconds are damaged: %v", c.apart, f.Err())
		}
	}
	for _, ms := range []int64{maxAge.Milliseconds() + 1, -maxAge.Milliseconds() - 1} {
		f, at := timed{Coder: coder.Reader(binary.AppendUvarint(nil, uint64(ms<<1^ms>>63)+1))}, time.Time{}
		if f.time(&at, 2*maxAge); f.Err() == nil {
			t.Errorf("%d ms from the writing are read as %v", ms, at)
		}
	}
}

func FuzzRecord(f *testing.F) {
	empty, full := record{}, testRecord()
	f.Add(empty.bytes(testTime))
	f.Add(full.bytes(testTime))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord("h", b, testTime)
		if err != nil {
			return
		}
		again, err := decodeRecord("h", r.bytes(testTime), testTime)
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}
		if d := cmp.Diff(r, again, sameRecord); d != "" {
			t.Fatal(d)
		}
	})
}

func TestMarkForgetsBlocksThatAreDone(t *testing.T) {
	r := record{partial: []partialBlock{{seq: 3}, {seq: 7}}}
	if !r.mark(4, 0, 1) {
		t.Error("a block of one URL is not done after it")
	}
	for i := range 9 {
		if r.mark(5, i, 10) {
			t.Fatalf("block of 10 done after %d", i+1)
		}
	}
	if r.mark(5, 8, 10) {
		t.Fatal("the same URL done twice counts twice")
	}
	if !r.mark(5, 9, 10) || len(r.partial) != 2 || blockAt(r.partial, 3) != 0 || blockAt(r.partial, 7) != 1 {
		t.Errorf("block is not done after all its URLs are: %+v", r.partial)
	}
}

func TestKeysAreInRanges(t *testing.T) {
	hosts := []string{"http://a.test", "http://a.test.b", "http://a.tes", "http://a.test:8080", "https://a.test"}
	for _, h := range hosts {
		for _, key := range [][]byte{
			hostKey(kindHost, h), pendingKey(h, Assigned, 77), numberKey(kindSeen, h, 1), hostKey(kindRobots, h), numberKey(kindDepth, h, 5),
		} {
			host, _, err := splitKey(key)
			if err != nil || host != h {
				t.Errorf("host of %q is %q, %v", key, host, err)
			}
			for _, other := range hosts {
				if inside := bytes.HasPrefix(key, hostKey(key[1], other)); inside != (other == h) {
					t.Errorf("key of %s in the range of %s: %v", h, other, inside)
				}
			}
		}
	}
	if bytes.Compare(pendingKey("a", Discovered, 255), pendingKey("a", Discovered, 256)) >= 0 {
		t.Error("sequence numbers are not in order")
	}
}

// What is no position, no key and no page is refused.
func TestMalformed(t *testing.T) {
	good := Cursor{stage: exportPages, after: "\xff\x00"}
	for c, ok := range map[Cursor]bool{{}: true, good: true, {stage: exportDone}: true, {stage: exportPages + 1, after: good.after}: false} {
		if got, err := ParseCursor(c.Append(nil)); (err == nil) != ok || ok && got != c {
			t.Errorf("%+v is read as %+v, %v", c, got, err)
		}
	}
	b := good.Append(nil)
	for name, b := range map[string][]byte{"another version": append([]byte{cursorVersion - 1}, b[1:]...), "short": b[:1]} {
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
		"an earlier version": third(splitKey(append([]byte{keyVersion - 1}, key[1:]...))), "no end": third(splitKey([]byte{keyVersion, kindHost, 'h'})),
		"a page": third(splitDue(make([]byte, 11))), "a long page": third(splitDue(make([]byte, 13))),
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

	codec := newCodec()
	defer codec.close()
	for name, b := range map[string][]byte{
		"nothing": nil, "a block without a form": {blockVersion}, "a block of another form": {blockVersion, 9, 0, 0, 0, 0, 1, '/'},
		"a block that is cut": {blockVersion, blockPlain, 0}, "a block of no zstd": {blockVersion, blockZstd, 0},
		"a block to come": {blockVersion + 1, blockPlain},
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
