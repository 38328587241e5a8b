package peer

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"proxima/node/wire"
)

func TestBlocksAndKeysComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := blockKey{rapid.SampledFrom([]byte{kindQueued, kindAside}).Draw(t, "kind"),
			rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`).Draw(t, "peer"), rapid.Uint64().Draw(t, "seq")}
		if got, err := decodeKey(encodeKey(k.kind, k.peer, k.seq)); err != nil || got != k {
			t.Fatalf("%v, %v; want %v", got, err, k)
		}
		links := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *wire.Link {
			return &wire.Link{Url: rapid.String().Draw(t, "url"), Depth: rapid.Uint32().Draw(t, "depth"),
				Hops: rapid.Uint32().Draw(t, "hops"), Sitemap: rapid.Bool().Draw(t, "sitemap")}
		}), 1, 20).Draw(t, "links")
		body, err := encodeLinks(links)
		if err != nil {
			t.Fatal(err)
		}
		value := encodeBlock(len(links), body)
		got, err := decodeBlock(value)
		if err != nil || len(got) != len(links) {
			t.Fatalf("%d links, %v; want %d", len(got), err, len(links))
		}
		for i := range got {
			if !proto.Equal(got[i], links[i]) {
				t.Fatalf("%v, want %v", got[i], links[i])
			}
		}
		if n, _, err := splitBlock(value); err != nil || n != len(links) {
			t.Fatalf("%d, %v", n, err)
		}
		// A block that lost its end is not read as a shorter one.
		if cut := rapid.IntRange(0, len(value)-1).Draw(t, "cut"); cut < len(value) {
			if short, err := decodeBlock(value[:cut]); err == nil && len(short) != len(links) {
				t.Fatalf("%d links of %d, and no error", len(short), len(links))
			}
		}
	})
}

func TestFitBoundsBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 50).Draw(t, "sizes")
		links := make([]*wire.Link, len(sizes))
		for i, n := range sizes {
			links[i] = &wire.Link{Url: string(bytes.Repeat([]byte("u"), n))}
		}
		most, limit := rapid.IntRange(1, 60).Draw(t, "links"), rapid.IntRange(1, 2000).Draw(t, "bytes")
		n := fit(links, most, limit)
		body, err := encodeLinks(links[:n])
		value := encodeBlock(n, body)
		if err != nil || n < 1 || n > most || n > len(links) || n > 1 && len(value) > limit+3 {
			t.Fatalf("%d of %d links, %d bytes with a limit of %d and %d: %v", n, len(links), len(value), most, limit, err)
		}
	})
}

func FuzzOutboxEntries(f *testing.F) {
	body, err := encodeLinks([]*wire.Link{{Url: "http://a/", Depth: 1}})
	if err != nil {
		f.Fatal(err)
	}
	value := encodeBlock(1, body)
	f.Add(encodeKey(kindQueued, "a1", 7), value)
	f.Add(append(encodeKey(kindQueued, "a1", 7), 0), value)
	f.Add(encodeKey(kindQueued, strings.Repeat("a", 253), 7), value) // longer than any id, and than a byte can count with the rest
	f.Add([]byte{1, 'q', 0}, []byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if k, err := decodeKey(key); err == nil && !bytes.Equal(encodeKey(k.kind, k.peer, k.seq), key) {
			t.Errorf("%x is read as %v", key, k)
		}
		n, _, err := splitBlock(value)
		if n < 0 || n > maxBlockLinks || err != nil && n != 0 {
			t.Errorf("%d links, %v", n, err)
		}
		if links, err := decodeBlock(value); err == nil && (len(links) != n || n == 0) {
			t.Errorf("%d links, said to be %d", len(links), n)
		}
	})
}
