package ownership

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"proxima/frontier"
	"proxima/frontier/revisit"
	"proxima/node/wire"
)

// bounded is a chunk at a bound, or beyond one.
type bounded struct {
	what  string
	w     *wire.Chunk
	taken bool
}

func boundedChunks() []bounded {
	page := frontier.AppendPage(nil, &frontier.PageRecord{Path: "/1"}, time.Now())
	pending := func(p *wire.Pending) *wire.Chunk { return &wire.Chunk{Pending: []*wire.Pending{p}} }
	robots := func(size int) *wire.Chunk {
		return &wire.Chunk{State: &wire.HostState{Robots: &wire.RobotsFile{Body: make([]byte, size)}}}
	}
	return []bounded{
		{"nothing", &wire.Chunk{}, true},
		{"a page", &wire.Chunk{Pages: [][]byte{page}}, true},
		{"half a page", &wire.Chunk{Pages: [][]byte{page, page[:1]}}, false},
		{"two hashes", &wire.Chunk{Done: make([]byte, 16)}, true},
		{"a hash and a half", &wire.Chunk{Done: make([]byte, 12)}, false},
		{"the longest path", pending(&wire.Pending{Path: "/" + strings.Repeat("a", 65535)}), true},
		{"a longer path", pending(&wire.Pending{Path: "/" + strings.Repeat("a", 65536)}), false},
		{"no path", pending(&wire.Pending{}), false},
		{"a path without root", pending(&wire.Pending{Path: "a"}), false},
		{"the deepest", pending(&wire.Pending{Path: "/", Depth: 255, Hops: 255}), true},
		{"a deeper one", pending(&wire.Pending{Path: "/", Depth: 256}), false},
		{"one hop more", pending(&wire.Pending{Path: "/", Hops: 256}), false},
		{"the longest robots", robots(1 << 20), true},
		{"longer robots", robots(1<<20 + 1), false},
	}
}

// Chunks at their bounds are accepted. Chunks beyond them are malformed.
func TestBoundsOfAChunk(t *testing.T) {
	for _, c := range boundedChunks() {
		if _, err := chunkFromWire(c.w); (err == nil) != c.taken {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	const week = 168 * time.Hour
	for _, k := range []struct{ said, meant int64 }{
		{-5, -1}, {0, 0}, {7, 7}, {week.Milliseconds(), week.Milliseconds()}, {week.Milliseconds() + 1, week.Milliseconds()},
	} {
		w := &wire.Chunk{Drops: 1<<32 + 1, State: &wire.HostState{SinceRequestMs: k.said, WaitMs: k.said, CrawlDelayMs: k.said, Level: 61, GivenUpMs: k.said,
			Robots: &wire.RobotsFile{ValidMs: k.said}}}
		c, err := chunkFromWire(w)
		if err != nil {
			t.Fatal(err)
		}
		never, wait := time.Duration(k.meant)*time.Millisecond, max(0, time.Duration(k.meant)*time.Millisecond)
		if k.meant < 0 {
			never = -1
		}
		if s := c.State; c.Drops != 1<<32 || s.Level != 60 || s.SinceRequest != never || s.Wait != wait || s.CrawlDelay != wait || s.GivenUp != wait || s.Robots.Valid != wait {
			t.Errorf("%d ms are taken as %+v, %+v", k.said, *s, *s.Robots)
		}
		if back := chunkToWire(c).GetState().GetSinceRequestMs(); back != max(-1, k.meant) {
			t.Errorf("%d ms are sent on as %d", k.said, back)
		}
	}
}

// The higher epoch wins, and between equal epochs the lower owner.
func TestNewer(t *testing.T) {
	order := []Record{{Epoch: 1, Owner: "b"}, {Epoch: 1, Owner: "a"}, {Epoch: 2, Owner: "b"}}
	for i, a := range order {
		for j, b := range order {
			if a.Newer(b) != (i > j) {
				t.Errorf("%+v is newer than %+v: %v", a, b, i <= j)
			}
		}
	}
}

// A chunk arrives as it was sent, its page records in their order.
func TestAChunkArrives(t *testing.T) {
	sent := frontier.Chunk{Drops: 2,
		State: &frontier.HostState{SinceRequest: 3 * time.Second, Wait: 4 * time.Second, CrawlDelay: 5 * time.Second, Level: 6, Done: 7, Failed: 8, Dropped: 9, Retries: 10, TriedBy: "another", ReachedSince: true,
			GivenUp: 11 * time.Second, WhyGivenUp: "no such name",
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
