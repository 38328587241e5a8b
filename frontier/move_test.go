package frontier

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"proxima/frontier/identity"
)

// However a host changes while it is exported, what was exported and the changes since make the same host elsewhere; it
// goes on there where it was, and nothing that is done is downloaded again.
func TestMoveWhileItChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg, polite := ownServers(testConfig())
		cfg.WindowURLs = rapid.IntRange(1, 64).Draw(rt, "window")
		cfg.Shared = true
		src := crawling(t, "", cfg, polite)
		defer src.stop()
		const host = "http://h1.test"
		n := rapid.IntRange(1, 300).Draw(rt, "before")
		src.add(pages(host, 0, n)...)
		fetched := src.work(rapid.IntRange(0, n).Draw(rt, "done before"))
		if rapid.Bool().Draw(rt, "tracked") {
			src.digest(host)
		}
		src.Changes()

		size, drop := rapid.IntRange(1, 200).Draw(rt, "chunk"), rapid.Bool().Draw(rt, "drop")
		adds, works := rapid.IntRange(0, 200).Draw(rt, "added"), rapid.IntRange(0, 100).Draw(rt, "done")
		var chunks []Chunk
		var all sync.WaitGroup
		all.Go(func() { chunks = src.export(host, Cursor{}, size) })
		all.Go(func() {
			src.add(pages(host, n, adds/2)...)
			if drop {
				if _, err := src.DropHost(context.Background(), host, "test"); err != nil {
					t.Error(err)
				}
			}
			src.add(pages(host, n, adds)...)
		})
		all.Go(func() { fetched = append(fetched, src.work(works)...) })
		all.Wait()
		src.role(host, Leaving)
		want := src.digest(host)
		if d := src.scanned(host); d != want {
			rt.Fatalf("the digest kept is %+v, that of the URLs %+v", want, d)
		}

		dst := crawling(t, "", cfg, polite)
		defer dst.stop()
		changed := src.Changes()[host]
		for round := range 2 { // the second time changes nothing
			dst.imported(host, chunks...)
			if changed != nil {
				dst.imported(host, Chunk{Pending: changed.Added, Done: changed.Done, Drops: changed.Digest.Drops})
			}
			if got := dst.digest(host); got != want {
				rt.Fatalf("round %d: arrived with %+v of %+v", round, got, want)
			}
			if got := dst.scanned(host); got != want {
				rt.Fatalf("round %d: the digest kept is %+v, that of the URLs %+v", round, want, got)
			}
		}
		if s := dst.Status(); s.Held != int64(want.Pending()) || s.Pending != 0 {
			rt.Errorf("%d held, %d pending of %+v", s.Held, s.Pending, want)
		}
		if len(dst.Changes()) > 0 {
			rt.Error("changes of a host that is not Owned were told")
		}
		dst.role(host, Owned)
		again := dst.work(1000)
		if len(again) != int(want.Pending()) {
			rt.Errorf("%d pages downloaded of %d pending", len(again), want.Pending())
		}
		for _, u := range again {
			if !drop && slices.Contains(fetched, u) { // a page that is under way when its host is dropped may come again
				rt.Errorf("%s downloaded again", u)
			}
		}
		if s := dst.Status(); s.Pending != 0 || s.Held != 0 || s.Arrived != s.Done {
			rt.Errorf("books do not balance: %+v", s.Totals)
		}
		if d := dst.digest(host); d.Pending() != 0 || d != dst.scanned(host) {
			rt.Errorf("at the end %+v, scanned %+v", d, dst.scanned(host))
		}
	})
}

// Hashes that move from the record to a run between two chunks are not missed, whether the first chunk ends among the pending URLs or
// among the runs.
func TestExportFollowsWhatMoves(t *testing.T) {
	const host, all, runs = "http://h1.test", 60, 2
	for first := 1; first < all-maxFresh; first++ {
		l := inMemory(t)(ownServers(testConfig()))
		l.placing(addr1)
		for _, link := range pages(host, 0, all) {
			l.add(link) // to a block of its own
		}
		missing := map[uint64]bool{}
		for _, u := range l.work((runs+1)*maxFresh - 3) {
			missing[hashOf(t, u)] = true
		}
		c, at, end, err := l.Export(t.Context(), host, Cursor{}, first, 1<<20)
		if err != nil || end {
			t.Fatal(end, err)
		}
		l.work(7) // a run is written
		for _, c := range append(l.export(host, at, 5), c) {
			for _, hash := range c.Done {
				delete(missing, hash)
			}
		}
		if len(missing) > 0 {
			t.Errorf("first chunk of %d: %d done URLs are missing", first, len(missing))
		}
		l.stop()
	}
}

func hashOf(t *testing.T, raw string) uint64 {
	u, err := identity.Parse(raw)
	must(t, err)
	return u.Hash()
}

// A block that is written anew between two chunks, with fewer URLs, is exported whole, and so is the next one if nothing is left of it.
func TestExportOfARewrittenBlock(t *testing.T) {
	const host = "http://h1.test"
	for _, gone := range []int{20, 100} {
		l := inMemory(t)(ownServers(testConfig()))
		links := pages(host, 0, 200)
		l.add(links[:100]...)
		l.add(links[100:]...)
		c, at, _, err := l.Export(t.Context(), host, Cursor{}, 30, 1<<20)
		must(t, err)
		var done Chunk
		for _, link := range links[:gone] {
			done.Done = append(done.Done, link.URL.Hash())
		}
		l.imported(host, done)
		must(t, l.Activate(t.Context(), host))
		pending := map[string]bool{}
		for _, c := range append(l.export(host, at, 30), c) {
			for _, p := range c.Pending {
				pending[p.Path] = true
			}
		}
		for _, link := range links[gone:] {
			if !pending[link.URL.Path] {
				t.Errorf("with %d gone %s is missing", gone, link.URL)
			}
		}
	}
}

// What is forgotten is new again, in the quick caches, too, and after a restart.
func TestForgottenURLsAreNew(t *testing.T) {
	const host, other = "http://h1.test", "http://h2.test"
	for _, c := range []struct{ n, each int }{ // URLs, and those of a block: the last has more blocks than a transaction deletes
		{10, 128}, {300, 128}, {maxUnremembered + 1, 128}, {maxAtomicKeys + 100, 1},
	} {
		t.Run(fmt.Sprint(c.n), func(t *testing.T) {
			cfg, polite := ownServers(testConfig())
			dir := t.TempDir()
			l := crawling(t, dir, cfg, polite)
			links := pages(host, 0, c.n)
			for part := range slices.Chunk(links, c.each) {
				l.add(part...)
			}
			l.add(page(other, 1))
			l.work(7)
			before := l.digest(host)
			dropped, err := l.DropHost(t.Context(), host, "test")
			if d := l.digest(host); err != nil || dropped != int(before.Pending()) || d.Accepted != before.Done || d != l.scanned(host) {
				t.Errorf("%d of %+v dropped, %v; then %+v", dropped, before, err, d)
			}
			if k := count(l.add(links...), Accepted); k != dropped {
				t.Errorf("%d of %d dropped URLs are new", k, dropped)
			}
			for _, role := range []Role{Owned, Replica} {
				l.role(host, role)
				must(t, l.Remove(t.Context(), host))
				l.roleIs(host, Owned, false)
				if d := l.digest(host); d != (Digest{}) {
					t.Errorf("after the end: %+v", d)
				}
				if body, err := l.RobotsBody(host); body != nil || err != nil {
					t.Errorf("robots.txt of a removed host: %q, %v", body, err)
				}
				if role == Replica { // also when the caches are new
					l.stop()
					l = begin(t, dir, cfg, polite, Deps{})
				}
				l.roleIs(host, Owned, false) // the questions have not made it known
				if k := count(l.add(links...), Accepted); k != c.n {
					t.Errorf("%d of %d removed URLs are new", k, c.n)
				}
			}
			if v := l.add(page(other, 1)); v[0] != Duplicate {
				t.Errorf("a URL of another host is %v", v[0])
			}
			if s := l.Status(); s.Pending+int64(s.Left)+int64(s.Done) > int64(s.Accepted)+s.AtStart || s.Held != 0 {
				t.Errorf("books do not balance: %+v", s.Totals)
			}
		})
	}
}

// The exact set of the host is not in memory, and too large to be read for a drop.
func TestDropOfALargeHostThatIsNotInMemory(t *testing.T) {
	l := inMemory(t)(testConfig())
	links := pages("http://h1.test", 0, maxUnremembered+1)
	l.add(links...)
	if n, err := l.DropHost(t.Context(), "http://h1.test", "test"); err != nil || n != len(links) {
		t.Errorf("%d dropped, %v", n, err)
	}
	if k := count(l.add(links...), Accepted); k != len(links) {
		t.Errorf("%d of %d dropped URLs are new", k, len(links))
	}
}

// What changed at a host comes to its replica in one transaction: there it is most of what is written.
func TestImportIsOneTransaction(t *testing.T) {
	cfg, polite := ownServers(testConfig())
	cfg.Shared = true
	l := begin(t, "", cfg, polite, Deps{})
	const host = "http://h1.test"
	before := l.store.written.Load()
	l.imported(host, Chunk{Pending: []PendingURL{{Path: "/new"}}, Done: []uint64{pages(host, 0, 1)[0].URL.Hash()}})
	if n := l.store.written.Load() - before; n != 1 {
		t.Errorf("%d transactions, not 1", n)
	}
	if d := l.digest(host); d.Accepted != 2 || d.Done != 1 {
		t.Errorf("the replica has %+v", d)
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

// A wait that an operator ended does not come back with a copy of the host that is older than that, nor does a copy keep it when it hears
// of that. What the host was told since counts.
func TestARetryHoldsOverAUnion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		cfg, polite := testConfig()
		cfg.Shared = true
		owner, replica := begin(t, "", cfg, polite, Deps{}), begin(t, "", cfg, polite, Deps{})
		told := Chunk{State: &HostState{SinceRequest: time.Second, Wait: time.Hour, Level: 3}}
		unite := func(from, to *life) {
			t.Helper()
			s, err := from.StateOf(t.Context(), host)
			must(t, err)
			to.imported(host, Chunk{State: s})
		}
		waits := func(want time.Duration, level uint8) {
			t.Helper()
			for who, l := range map[string]*life{"the owner": owner, "the replica": replica} {
				if s, err := l.StateOf(t.Context(), host); err != nil || s.Wait != want || s.Level != level {
					t.Errorf("%s waits %v at level %d, want %v at %d: %v", who, s.Wait, s.Level, want, level, err)
				}
			}
		}
		owner.imported(host, told)
		owner.role(host, Owned)
		unite(owner, replica)
		waits(time.Hour, 3)
		must(t, owner.Retry(t.Context(), host))
		unite(replica, owner)
		unite(owner, replica)
		waits(0, 0)
		told.State.Retries, told.State.Wait, told.State.Level = 1, time.Minute, 1
		replica.imported(host, told)
		unite(replica, owner)
		waits(time.Minute, 1)
	})
}
