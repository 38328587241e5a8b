package ownership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/frontier"
	"proxima/frontier/revisit"
	"proxima/node/wire"
)

// Chunks at their bounds are accepted. Chunks beyond them are malformed.
func TestBoundsOfAChunk(t *testing.T) {
	page := frontier.PageRecord{Path: "/1"}
	good := frontier.AppendPage(nil, &page, time.Now())
	if _, err := frontier.ParsePage(good[:1], time.Now()); err == nil {
		t.Fatal("half a page can be read")
	}
	for what, c := range map[string]struct {
		w     *wire.Chunk
		taken bool
	}{
		"nothing":             {&wire.Chunk{}, true},
		"a page":              {&wire.Chunk{Pages: [][]byte{good}}, true},
		"half a page":         {&wire.Chunk{Pages: [][]byte{good, good[:1]}}, false},
		"two hashes":          {&wire.Chunk{Done: make([]byte, 16)}, true},
		"a hash and a half":   {&wire.Chunk{Done: make([]byte, 12)}, false},
		"the longest path":    {&wire.Chunk{Pending: []*wire.Pending{{Path: "/" + strings.Repeat("a", 65535)}}}, true},
		"a longer path":       {&wire.Chunk{Pending: []*wire.Pending{{Path: "/" + strings.Repeat("a", 65536)}}}, false},
		"no path":             {&wire.Chunk{Pending: []*wire.Pending{{}}}, false},
		"a path without root": {&wire.Chunk{Pending: []*wire.Pending{{Path: "a"}}}, false},
		"the deepest":         {&wire.Chunk{Pending: []*wire.Pending{{Path: "/", Depth: 255, Hops: 255}}}, true},
		"a deeper one":        {&wire.Chunk{Pending: []*wire.Pending{{Path: "/", Depth: 256}}}, false},
		"one hop more":        {&wire.Chunk{Pending: []*wire.Pending{{Path: "/", Hops: 256}}}, false},
		"the longest robots":  {&wire.Chunk{State: &wire.HostState{Robots: &wire.RobotsFile{Body: make([]byte, 1<<20)}}}, true},
		"longer robots":       {&wire.Chunk{State: &wire.HostState{Robots: &wire.RobotsFile{Body: make([]byte, 1<<20+1)}}}, false},
	} {
		if _, err := chunkFromWire(c.w); (err == nil) != c.taken {
			t.Errorf("%s: %v", what, err)
		}
	}
	const week = 168 * time.Hour
	for _, k := range []struct{ said, meant int64 }{{-5, -1}, {0, 0}, {7, 7}, {week.Milliseconds(), week.Milliseconds()}, {week.Milliseconds() + 1, week.Milliseconds()}} {
		w := &wire.Chunk{Drops: 1<<32 + 1, State: &wire.HostState{SinceRequestMs: k.said, WaitMs: k.said, CrawlDelayMs: k.said, Level: 61,
			Robots: &wire.RobotsFile{ValidMs: k.said}}}
		c, err := chunkFromWire(w)
		if err != nil {
			t.Fatal(err)
		}
		never, wait := time.Duration(k.meant)*time.Millisecond, max(0, time.Duration(k.meant)*time.Millisecond)
		if k.meant < 0 {
			never = -1
		}
		if s := c.State; c.Drops != 1<<32 || s.Level != 60 || s.SinceRequest != never || s.Wait != wait || s.CrawlDelay != wait || s.Robots.Valid != wait {
			t.Errorf("%d ms are taken as %+v, %+v", k.said, *s, *s.Robots)
		}
		if back := chunkToWire(c).GetState().GetSinceRequestMs(); back != max(-1, k.meant) {
			t.Errorf("%d ms are sent on as %d", k.said, back)
		}
	}
}

// Records at their bounds are accepted from peers and from disk. Records beyond them are not.
func TestBoundsOfARecord(t *testing.T) {
	good := Record{Host: "http://a.test", Epoch: 1 << 62, Owner: idOf(1)}
	for what, c := range map[string]struct {
		change func(*wire.Record)
		taken  bool
	}{
		"the highest epoch": {func(*wire.Record) {}, true},
		"beyond it":         {func(w *wire.Record) { w.Epoch++ }, false},
		"the lowest":        {func(w *wire.Record) { w.Epoch = 1 }, true},
		"none":              {func(w *wire.Record) { w.Epoch = 0 }, false},
		"half an owner":     {func(w *wire.Record) { w.Owner = w.Owner[1:] }, false},
		"no host":           {func(w *wire.Record) { w.Host = "" }, false},
	} {
		w := good.wire()
		c.change(w)
		if _, ok := fromWire(w); ok != c.taken {
			t.Errorf("%s: taken %v", what, ok)
		}
	}
	b := good.append(nil)
	for what, k := range map[string][]byte{"nothing": {}, "the version alone": b[:1], "a byte too few": b[:len(b)-1], "a byte too many": append(b[:len(b):len(b)], 0),
		"another version": append([]byte{recordVersion + 1}, b[1:]...), "another flag": append(append(slices.Clone(b[:len(b)-idLength-1]), 2), good.Owner...)} {
		if r, err := decodeRecord(good.Host, k); err == nil {
			t.Errorf("%s was read as %+v", what, r)
		}
	}
	for _, k := range []struct {
		a, b  Record
		newer bool
	}{
		{Record{Epoch: 2, Owner: "b"}, Record{Epoch: 1, Owner: "a"}, true},
		{Record{Epoch: 1, Owner: "a"}, Record{Epoch: 2, Owner: "b"}, false},
		{Record{Epoch: 1, Owner: "a"}, Record{Epoch: 1, Owner: "b"}, true},
		{Record{Epoch: 1, Owner: "b"}, Record{Epoch: 1, Owner: "a"}, false},
		{Record{Epoch: 1, Owner: "a"}, Record{Epoch: 1, Owner: "a"}, false},
	} {
		if k.a.Newer(k.b) != k.newer {
			t.Errorf("%+v is newer than %+v: %v", k.a, k.b, !k.newer)
		}
	}
}

// A chunk arrives as it was sent, its page records in their order.
func TestAChunkArrives(t *testing.T) {
	sent := frontier.Chunk{Drops: 2,
		State: &frontier.HostState{SinceRequest: 3 * time.Second, Wait: 4 * time.Second, CrawlDelay: 5 * time.Second, Level: 6, Done: 7, Failed: 8, Dropped: 9,
			Robots: &frontier.RobotsFile{Body: []byte("allow"), Valid: 10 * time.Second}},
		Pending: []frontier.PendingURL{{Path: "/4", Depth: 11, Hops: 12}, {Path: "/3", Sitemap: true}},
		Done:    []uint64{14, 13},
		Pages:   []frontier.PageRecord{{Path: "/2"}, {Path: "/1"}},
	}
	back, err := chunkFromWire(chunkToWire(sent))
	if err != nil {
		t.Fatal(err)
	}
	timeless := cmpopts.IgnoreFields(frontier.PageRecord{}, "Seen", "Due") // they travel as ages
	if d := cmp.Diff(sent, back, timeless, cmpopts.EquateComparable(revisit.History{})); d != "" {
		t.Error(d)
	}
}
