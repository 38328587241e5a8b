package frontier

import (
	"strings"
	"testing"
	"time"

	"proxima/frontier/identity"
	"proxima/frontier/revisit"
)

// A store is read by later versions of the program. So the bytes of a format change only together with its version.
func TestLayoutsStay(t *testing.T) {
	codec := newCodec()
	defer codec.close()
	block := codec.seal(bodyOf([]entry{
		{PendingURL: PendingURL{Path: "/a?b", Sitemap: true, Depth: 3, Hops: 2}},
		{PendingURL: PendingURL{Path: "/c", Depth: 1}},
	}))

	now := time.UnixMilli(80)
	in := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	r := record{
		hostState: hostState{
			lastRequest: in(-3), notBefore: in(4), crawlDelay: 7 * time.Millisecond, level: 2, robotsUntil: in(6), failures: 5,
		},
		endedUntil: in(5), endReason: "why", done: 1, failed: 2, dropped: 3, retries: 8,
		partial: []partialBlock{{seq: 9, done: bitmap{4, 5}}}, fresh: []uint64{6}, role: Replica, tracked: true,
		digest: Digest{Accepted: 1, Done: 2, AcceptedXor: 3, DoneXor: 4, Drops: 6, Pages: 7, PagesXor: 8},
		next:   9, hints: hints{followed: 11, right: 10},
	}

	due := time.Unix(1000, 0)
	before := func(s int) time.Time { return due.Add(-time.Duration(s) * time.Second) }
	p := PageRecord{
		Path: "/p", Depth: 3, Seen: before(5), Due: due, Changed: before(6), Hinted: true, Gone: 4, Failures: 5,
		ETag: "tag", Body: 1, Digest: 2, Simhash: 3,
	}
	const h = time.Hour
	for _, v := range []revisit.Visit{{Age: h}, {Gap: h}, {Gap: h, Changed: true, Age: h / 2}, {Gap: h, Changed: true}} {
		p.History = p.History.With(v)
	}

	const zeros = "\x00\x00\x00\x00\x00\x00\x00"
	for name, c := range map[string]struct {
		written []byte
		layout  []string
	}{
		"key of a host":         {hostKey(kindHost, "a.b"), []string{"\x04ha.b\x00"}},
		"key of a block":        {pendingKey("a.b", Assigned, 7), []string{"\x04qa.b\x00\x02", zeros, "\x07"}},
		"key of a page":         {numberKey(kindPage, "a.b", 7), []string{"\x04pa.b\x00", zeros, "\x07"}},
		"key of a page's visit": {dueKey("a.b", 7, 8), []string{"\x04ta.b\x00\x00\x00\x00\x07", zeros, "\x08"}},
		"key of a next host":    {nextKey(7, "a.b"), []string{"\x04n\x00\x00\x00\x07a.b"}},
		"block": {block, []string{
			"\x01\x00",                 // version, plain
			"\x01\x03\x02\x00\x04/a?b", // flags, depth, hops, 0, path
			"\x00\x01\x00\x00\x02/c",
		}},
		"host": {r.bytes(now), []string{
			"\x08\x50",              // version, time of writing
			"\x06\x09\x0b",          // last request, not before, ended until
			"\x03why\x07\x02\x0d",   // reason, Crawl-delay, level, robots.txt until
			"\x01\x02\x03",          // done, failed, dropped
			"\x01\x09", words(4, 5), // blocks of which some URLs are done: one, its number and bitmap
			"\x01", words(6), // hashes that are in no run of the seen set
			"\x01\x06\x08",          // role, flags, retries
			"\x01\x02", words(3, 4), // digest: accepted, done, their hashes
			"\x05\x06\x07", words(8), // failures, drops, pages and their hash
			"\x09\x0b\x0a", // next, hints that were followed and right
		}},
		"page": {AppendPage(nil, &p, before(9)), []string{
			"\x01\x12",                      // version, flags
			"\x12\x0a\x02",                  // due, seen, changed
			"\x01\x00\x00\x00", words(2, 3), // body, digest, simhash
			"\x04\x00\x02\x00\x03\x01\x81", // history: visits, changes, weight, undated, dated with a bit for born,
			"\x00\xa0\x0cF\x82A\x00",       // seconds without a change, gap, spread
			"\x04\x05\x03\x03tag/p",        // gone, failures, depth, ETag, path
		}},
	} {
		if want := strings.Join(c.layout, ""); string(c.written) != want {
			t.Errorf("the layout of a %s has changed, and not its version:\n%q, not\n%q", name, c.written, want)
		}
	}
}

// While nodes are replaced one by one, those of two releases compare digests of the same host.
func TestDigestsStay(t *testing.T) {
	url := identity.URL{Host: "http://a.test", Path: "/p"}
	p := PageRecord{Path: url.Path, Gone: 1, Failures: 2, History: revisit.History{}.With(revisit.Visit{})}
	if hash, mark := url.Hash(), p.mark(url.Hash()); hash != 0x3727442a35c18100 || mark != 0x5cfd43610ca076c8 {
		t.Errorf("the URL adds %#x to the digest of its host, and its page adds %#x", hash, mark)
	}
}

// words are some numbers of 8 bytes that are small.
func words(numbers ...byte) (s string) {
	for _, n := range numbers {
		s += string([]byte{n, 0, 0, 0, 0, 0, 0, 0})
	}
	return s
}
