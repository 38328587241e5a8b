package frontier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
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
		src := begin(t, "", cfg, polite, Deps{})
		defer src.stop()
		src.placing(addr1)
		go src.letAll()
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
		all.Go(func() { chunks = src.export(host, size) })
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

		dst := begin(t, "", cfg, polite, Deps{})
		defer dst.stop()
		dst.placing(addr1)
		go dst.letAll()
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

// Hashes that move from the record to a run between two chunks are not missed.
func TestExportFollowsWhatMoves(t *testing.T) {
	for first := 1; first < 40; first++ {
		l := inMemory(t)(ownServers(testConfig()))
		l.placing(addr1)
		l.add(pages("http://h1.test", 0, 40)...)
		done := map[uint64]bool{}
		for _, u := range l.work(maxFresh - 3) {
			done[hashOf(t, u)] = true
		}
		c, at, end, err := l.Export(t.Context(), "http://h1.test", Cursor{}, first, 1<<20)
		if err != nil || end {
			t.Fatal(end, err)
		}
		l.work(7) // a run is written
		for !end {
			for _, hash := range c.Done {
				delete(done, hash)
			}
			if c, at, end, err = l.Export(t.Context(), "http://h1.test", at, 5, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		for _, hash := range c.Done {
			delete(done, hash)
		}
		if len(done) > 0 {
			t.Errorf("first chunk of %d: %d done URLs are missing", first, len(done))
		}
		l.stop()
	}
}

// A block that is written anew between two chunks, with fewer URLs, is exported whole, and so is the next one if nothing is left of it.
func TestExportOfARewrittenBlock(t *testing.T) {
	const host = "http://h1.test"
	for _, gone := range []int{20, 100} {
		l := inMemory(t)(ownServers(testConfig()))
		links := pages(host, 0, 200)
		l.add(links[:100]...)
		l.add(links[100:]...)
		c, at, end, err := l.Export(t.Context(), host, Cursor{}, 30, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var done []uint64
		for _, link := range links[:gone] {
			done = append(done, link.URL.Hash())
		}
		l.imported(host, Chunk{Done: done})
		if err := l.Activate(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		pending := map[string]bool{}
		for {
			for _, p := range c.Pending {
				pending[p.Path] = true
			}
			if end {
				break
			}
			if c, at, end, err = l.Export(t.Context(), host, at, 30, 1<<20); err != nil {
				t.Fatal(err)
			}
		}
		for _, link := range links[gone:] {
			if !pending[link.URL.Path] {
				t.Errorf("with %d gone %s is missing", gone, link.URL)
			}
		}
	}
}

// A part of a host with very long URLs is small whatever their number, and so is one of many hashes.
func TestExportIsBoundedInBytes(t *testing.T) {
	const host, most, longest = "http://h1.test", 20_000, 4000
	cfg, polite := ownServers(testConfig())
	l := begin(t, "", cfg, polite, Deps{})
	l.placing(addr1)
	l.add(pages(host, 0, 4000)...)
	l.work(4000)
	var links []Link
	for i := range 200 {
		long := page(host, 4000+i)
		long.URL.Path += strings.Repeat("x", longest-100)
		links = append(links, long)
	}
	l.add(links...)
	other := begin(t, "", cfg, polite, Deps{})
	other.role(host, Replica)
	chunks, at, end := 0, Cursor{}, false
	for !end {
		var c Chunk
		var err error
		if c, at, end, err = l.Export(t.Context(), host, at, 1_000_000, most); err != nil {
			t.Fatal(err)
		}
		size := 8 * len(c.Done)
		for _, p := range c.Pending {
			size += len(p.Path)
		}
		if size > most+longest {
			t.Errorf("%d bytes in a part of %d", size, most)
		}
		other.imported(host, c)
		chunks++
	}
	if got, want := other.digest(host), l.digest(host); got != want || got.Done != 4000 || got.Pending() != 200 {
		t.Errorf("%+v came in %d parts of %+v", got, chunks, want)
	}
	for _, room := range [][2]int{{1, 0}, {0, 1}} {
		if _, _, _, err := l.Export(t.Context(), host, Cursor{}, room[0], room[1]); err == nil {
			t.Errorf("a part of %d URLs and %d bytes", room[0], room[1])
		}
	}
}

func hashOf(t *testing.T, raw string) uint64 {
	u, err := identity.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Hash()
}

func TestStateMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		dir := t.TempDir()
		l := begin(t, dir, cfg, polite, Deps{})
		l.role("http://h1.test", Replica)
		state := &HostState{SinceRequest: 3 * time.Second, Wait: time.Minute, CrawlDelay: 7 * time.Second, Level: 2,
			Robots: &RobotsFile{Body: []byte("a"), Valid: time.Hour}, Done: 5, Failed: 6, Dropped: 7}
		l.imported("http://h1.test", Chunk{State: state})
		same := cmp.Options{cmpopts.EquateApprox(0, 0), cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < 2*time.Millisecond })}
		for range 2 {
			got, err := l.StateOf(t.Context(), "http://h1.test")
			if d := cmp.Diff(state, got, same); d != "" || err != nil {
				t.Errorf("%v, %s", err, d)
			}
			l.stop()
			l = begin(t, dir, cfg, polite, Deps{})
		}
		// The stricter wins, whichever came first; of robots.txt the younger.
		want := *state
		want.SinceRequest, want.Level = time.Second, 3
		for _, other := range []*HostState{
			{SinceRequest: time.Second, Wait: 0, CrawlDelay: time.Second, Level: 3, Robots: &RobotsFile{Body: []byte("old"), Valid: time.Minute}},
			{SinceRequest: 5 * time.Second, Wait: time.Second, CrawlDelay: 7 * time.Second, Level: 1},
			{SinceRequest: -1, Robots: &RobotsFile{Body: []byte("new"), Valid: 2 * time.Hour}},
		} {
			l.imported("http://h1.test", Chunk{State: other})
			if r := other.Robots; r != nil && string(r.Body) == "new" {
				want.Robots = r
			}
			got, err := l.StateOf(t.Context(), "http://h1.test")
			if d := cmp.Diff(&want, got, same); d != "" || err != nil {
				t.Errorf("%v, %s", err, d)
			}
		}
		time.Sleep(3 * time.Hour) // all waits are over
		if s, err := l.StateOf(t.Context(), "http://h1.test"); err != nil || s.Wait != 0 || s.Robots != nil {
			t.Errorf("%+v, %v", s, err)
		}
		if s, err := l.StateOf(t.Context(), "http://h2.test"); s != nil || err != nil {
			t.Errorf("a host nobody knows has state %v, %v", s, err)
		}
	})
}

// What is forgotten is new again, in the quick caches, too, and after a restart.
func TestForgottenURLsAreNew(t *testing.T) {
	for _, c := range []struct{ n, each int }{ // each URLs in a block: the last has more blocks than a transaction deletes
		{10, 128}, {300, 128}, {maxUnremembered + 1, 128}, {maxAtomicKeys + 100, 1},
	} {
		n := c.n
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfg, polite := ownServers(testConfig())
			dir := t.TempDir()
			l := begin(t, dir, cfg, polite, Deps{})
			l.placing(addr1)
			links := pages("http://h1.test", 0, n)
			for part := range slices.Chunk(links, c.each) {
				l.add(part...)
			}
			l.add(page("http://h2.test", 1))
			if done := l.work(7); len(done) != 7 {
				t.Fatalf("%d pages downloaded", len(done))
			}
			before := l.digest("http://h1.test")
			if k, err := l.DropHost(t.Context(), "http://h1.test", "test"); err != nil || k != int(before.Pending()) {
				t.Errorf("%d dropped, %v; %+v", k, err, before)
			}
			if d := l.digest("http://h1.test"); d.Accepted != before.Done || d != l.scanned("http://h1.test") {
				t.Errorf("after the drop: %+v", d)
			}
			v := l.add(links...)
			if k := count(v, Accepted); k != int(before.Pending()) {
				t.Errorf("%d of %d dropped URLs are new", k, before.Pending())
			}
			for _, role := range []Role{Owned, Replica} {
				l.role("http://h1.test", role)
				if err := l.Remove(t.Context(), "http://h1.test"); err != nil {
					t.Fatal(err)
				}
				l.roleIs("http://h1.test", Owned, false)
				if d := l.digest("http://h1.test"); d != (Digest{}) {
					t.Errorf("after the end: %+v", d)
				}
				l.roleIs("http://h1.test", Owned, false)
				if body, err := l.RobotsBody("http://h1.test"); body != nil || err != nil {
					t.Errorf("robots.txt of a removed host: %q, %v", body, err)
				}
				if role == Replica { // also when the caches are new
					l.stop()
					l = begin(t, dir, cfg, polite, Deps{})
					l.roleIs("http://h1.test", Owned, false)
				}
				if k := count(l.add(links...), Accepted); k != n {
					t.Errorf("%d of %d removed URLs are new", k, n)
				}
			}
			if v := l.add(page("http://h2.test", 1)); v[0] != Duplicate {
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

func count(verdicts []Verdict, want Verdict) (n int) {
	for _, v := range verdicts {
		if v == want {
			n++
		}
	}
	return n
}

// A late answer: what is done elsewhere leaves the workbench of a host that is crawled here.
func TestImportIntoOwn(t *testing.T) {
	l := inMemory(t)(ownServers(testConfig()))
	links := pages("http://h1.test", 0, 200)
	l.add(links...)
	l.placing(addr1)
	first := l.work(5)
	var done []uint64
	for _, link := range links[100:] {
		done = append(done, link.URL.Hash())
	}
	var visited []PageRecord
	for _, link := range links[90:100] {
		visited = append(visited, PageRecord{Path: link.URL.Path, Seen: time.Now(), Due: time.Now().Add(time.Hour)})
	}
	l.imported("http://h1.test", Chunk{Done: append(done, 77), Pages: visited,
		Pending: []PendingURL{{Path: "/new"}, {Path: links[3].URL.Path}, {Path: links[150].URL.Path}}})
	if d := l.digest("http://h1.test"); d.Accepted != 202 || d.Done != 116 || d != l.scanned("http://h1.test") {
		t.Errorf("%+v", d)
	}
	rest := l.work(1000)
	if len(first)+len(rest) != 91 || !slices.Contains(rest, "http://h1.test/new") {
		t.Errorf("%d and %d pages downloaded", len(first), len(rest))
	}
	s := l.Status().Totals
	if s.Pending != 0 || s.Accepted+s.Arrived != s.Done+s.Left {
		t.Errorf("books do not balance: %+v", s)
	}
}

func TestExportOfUnknownHost(t *testing.T) {
	l := inMemory(t)(testConfig())
	c, _, end, err := l.Export(t.Context(), "http://h1.test", Cursor{}, 10, 1<<20)
	if !end || err != nil || len(c.Pending)+len(c.Done) > 0 {
		t.Errorf("%+v, %v, %v", c, end, err)
	}
	l.add(page("http://h1.test", 1))
	if err := l.Remove(t.Context(), "http://h9.test"); err != nil {
		t.Error(err)
	}
	l.stop()
	if _, _, _, err := l.Export(t.Context(), "http://h1.test", Cursor{}, 10, 1<<20); !errors.Is(err, ErrClosed) {
		t.Errorf("export from a closed frontier: %v", err)
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
