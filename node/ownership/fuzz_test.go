package ownership

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"proxima/frontier"
	"proxima/frontier/identity"
	"proxima/node/wire"
)

// FuzzChunk reads chunks that a peer may send. An accepted chunk is within the bounds, and is the same after it was sent on.
func FuzzChunk(f *testing.F) {
	seeds := []*wire.Chunk{
		chunkToWire(frontier.Chunk{Drops: 3, Done: []uint64{1, math.MaxUint64},
			Pending: []frontier.PendingURL{{Path: "/"}, {Path: "/a?b", Sitemap: true, Depth: 255, Hops: 7}}}),
		chunkToWire(frontier.Chunk{State: &frontier.HostState{SinceRequest: -1, Wait: time.Hour, CrawlDelay: 3 * time.Second, Level: 9, Done: 1, Failed: 2,
			Dropped: 3, Robots: &frontier.RobotsFile{Body: []byte("User-agent: *"), Valid: time.Minute}}}),
		{Drops: math.MaxUint64, State: &wire.HostState{SinceRequestMs: math.MaxInt64, WaitMs: math.MinInt64, CrawlDelayMs: -1, Level: math.MaxUint32,
			Robots: &wire.RobotsFile{ValidMs: math.MaxInt64}}},
	}
	for _, c := range boundedChunks() {
		if len(c.w.GetPages()) == 0 { // their times are ages, which change between two readings
			seeds = append(seeds, c.w)
		}
	}
	for _, w := range seeds {
		b, err := proto.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w wire.Chunk
		if proto.Unmarshal(b, &w) != nil {
			return
		}
		c, err := chunkFromWire(&w)
		if err != nil {
			return
		}
		if c.Drops > maxCount || len(c.Done) != len(w.GetDone())/8 || len(c.Pending) != len(w.GetPending()) {
			t.Errorf("%d drops, %d done, %d pending", c.Drops, len(c.Done), len(c.Pending))
		}
		for _, p := range c.Pending {
			if !strings.HasPrefix(p.Path, "/") || len(p.Path) > maxPath {
				t.Errorf("path %q", p.Path)
			}
		}
		if s := c.State; s != nil && (s.Wait < 0 || s.Wait > maxWait || s.CrawlDelay < 0 || s.CrawlDelay > maxWait ||
			s.SinceRequest > maxWait || s.GivenUp < 0 || s.GivenUp > maxWait || s.Level > 60 ||
			s.Robots != nil && (s.Robots.Valid < 0 || s.Robots.Valid > maxWait || len(s.Robots.Body) > maxRobots)) {
			t.Errorf("state %+v", *s)
		}
		again, err := chunkFromWire(chunkToWire(c))
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Errorf("%+v became %+v, %v", c, again, err)
		}
	})
}

// FuzzWireRecord reads records that a peer may send. One is accepted if it has a host, an owner, and an epoch that can grow.
func FuzzWireRecord(f *testing.F) {
	f.Add("http://a.test", uint64(1), idOf(1), true)
	f.Add("http://a.test", uint64(math.MaxUint64), idOf(1), false)
	f.Add("http://a.test", uint64(1<<62), idOf(1), false)
	f.Add("http://a.test", uint64(1<<62+1), idOf(1), false)
	f.Add("http://a.test", uint64(0), idOf(1), false)
	f.Add("victim.test\x00\x00y", uint64(1), idOf(1), false)
	f.Add("", uint64(1), idOf(1), false)
	f.Add("http://a.test", uint64(1), "short", false)
	f.Fuzz(func(t *testing.T, host string, epoch uint64, owner string, assigned bool) {
		r, ok := fromWire(&wire.Record{Host: host, Epoch: epoch, Owner: owner, Assigned: assigned})
		good := identity.CheckHost(host) == nil && !strings.ContainsRune(host, 0) && len(owner) == 32 && epoch > 0 && epoch <= 1<<62
		if ok != good {
			t.Errorf("%+v was taken: %v", r, ok)
		}
		if !ok {
			return
		}
		if next := (Record{Host: r.Host, Epoch: r.Epoch + 2, Owner: r.Owner}); !next.Newer(r) {
			t.Errorf("epoch %d has no successor", r.Epoch)
		}
		if again, ok := fromWire(r.wire()); !ok || again != r {
			t.Errorf("%+v became %+v", r, again)
		}
		if again, err := decodeRecord(r.Host, r.encode()); err != nil || again != r {
			t.Errorf("%+v was read from disk as %+v, %v", r, again, err)
		}
	})
}

// FuzzDiskRecord reads damaged records from disk. A record that is accepted is written as it was read.
func FuzzDiskRecord(f *testing.F) {
	good := Record{Host: "http://a.test", Epoch: 300, Owner: idOf(7), Assigned: true}.encode()
	f.Add(good)
	f.Add(Record{Owner: idOf(1)}.encode())
	f.Add([]byte{})
	f.Add(good[:len(good)-1])
	f.Add(append(good[:len(good):len(good)], 0))
	f.Add(good[:1])
	f.Add(append([]byte{2}, good[1:]...))
	f.Add(append(append(good[:len(good)-idLength-1:len(good)-idLength-1], 2), idOf(7)...)) // an unknown flag
	f.Add([]byte{recordVersion, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeRecord("http://a.test", b)
		if err != nil {
			return
		}
		if again, err := decodeRecord(r.Host, r.encode()); err != nil || again != r || len(r.Owner) != idLength || b[len(b)-idLength-1] > 1 {
			t.Errorf("%x is %+v, then %+v, %v", b, r, again, err)
		}
	})
}
