package frontier

import (
	"math"
	"testing"
	"testing/synctest"
)

// The step from the map of few hashes to the Bloom filter loses no hash. Before it no new hash is mistaken for a known one, and after it no
// more than with 20 million URLs in 32 MiB.
func TestFilterSteps(t *testing.T) {
	hash := func(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }
	const n = 20_000_000 / 32
	f := newSeen(1)
	mistaken := 0
	for i := range n {
		if f.testAndAdd(hash(i)) {
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
		if !f.testAndAdd(hash(i)) {
			t.Fatalf("URL %d is forgotten", i)
		}
	}
	mistaken = 0
	for i := n; i < n+10_000; i++ {
		if f.testAndAdd(hash(i)) {
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

// Exact seen sets leave memory when they take too much of it, except the one in use.
func TestSetsAreBounded(t *testing.T) {
	s := newSets(2*setCost + 5*hashCost)
	s.put("a", hostSet{})
	for i := range 2 {
		s.note("a", uint64(i), isDone)
		s.note("a", uint64(i), pendingAt(3)) // again
	}
	s.put("b", hostSet{0: isDone})
	for i := range 3 {
		s.note("b", uint64(i), isDone)
	}
	if len(s.get("a")) != 2 || len(s.get("b")) != 3 || s.bytes != s.limit {
		t.Errorf("%d bytes of %d; a %v, b %v", s.bytes, s.limit, s.get("a"), s.get("b"))
	}
	s.note("a", 9, isDone)
	if s.get("a")[9] != isDone || s.get("b") != nil || s.bytes != setCost+3*hashCost {
		t.Errorf("%d bytes; a %v, b %v", s.bytes, s.get("a"), s.get("b"))
	}
	for i := range uint64(100) {
		s.note("a", i, isDone)
	}
	if len(s.get("a")) != 100 {
		t.Error("the only one left")
	}
	if s.put("c", hostSet{1: isDone}); s.get("c") == nil || s.get("a") != nil || s.bytes != setCost+hashCost {
		t.Errorf("the one that is read left; %d bytes", s.bytes)
	}
	for depth, want := range map[uint8]urlState{0: 2, 1: 3, 254: 256, 255: 257} {
		if got := pendingAt(depth); got != want || got.deeper(depth) || depth > 0 && !got.deeper(depth-1) || isDone.deeper(0) || unknown.deeper(0) {
			t.Errorf("depth %d is %d", depth, got)
		}
	}
}

// New links of full hosts are refused without a look at the disk, though the sets of two such hosts are not in memory together. Once its
// URLs are dropped, a host takes new ones.
func TestNewLinksOfFullHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const urls = 200
		cfg, polite := testConfig()
		cfg.MaxHostURLs = urls
		hosts, operations := []string{"http://h1.test", "http://h2.test"}, 0
		l := beginWith(t, "", cfg, polite, Deps{}, func(f *Frontier) { f.ledger.sets.limit = 1 })
		for _, host := range hosts {
			l.add(pages(host, 0, urls)...)
			l.add(page(host, urls)) // now it is known to be full
		}
		synctest.Wait()
		l.store.fault = func() error { operations++; return nil }
		for i := range 10 {
			for _, host := range hosts {
				if v := l.add(pages(host, 2*urls, i)...); !allAre(v, HostFull) {
					t.Errorf("a full host takes %v", v)
				}
			}
		}
		if operations > 10*len(hosts) { // a commit each
			t.Errorf("%d operations on the store", operations)
		}
		if v := l.add(page(hosts[0], 0)); !allAre(v, Duplicate) {
			t.Errorf("what a full host has is %v", v)
		}
		_, err := l.DropHost(t.Context(), hosts[0], "test")
		if v := l.add(page(hosts[0], 3*urls)); err != nil || !allAre(v, Accepted) {
			t.Errorf("after a drop: %v, %v", v, err)
		}
	})
}
