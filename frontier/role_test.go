package frontier

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A host that is not owned stays on disk: it takes no links, is not looked up and not crawled, also in the next life. When it is owned again,
// it goes on at once.
func TestHostsNotOwnAreNotCrawled(t *testing.T) {
	for _, role := range []Role{Replica, Leaving} {
		synctest.Test(t, func(t *testing.T) {
			const host = "http://h1.test"
			cfg, polite := testConfig()
			dir := t.TempDir()
			l := begin(t, dir, cfg, polite, Deps{})
			l.roleIs(host, Owned, false)
			l.add(pages(host, 0, 200)...)
			l.roleIs(host, Owned, true)
			l.role(host, role)
			for range 2 {
				l.roleIs(host, role, true)
				// A URL that is known, and one that is not, so far and in the quick cache.
				if v := l.add(page(host, 1), page(host, 5000), page(host, 5000)); !allAre(v, NotOwned) {
					t.Errorf("%v: added with %v", role, v)
				}
				if !l.kept(host) {
					t.Errorf("%v: the scan of the disk brings it in", role)
				}
				l.mu.Lock()
				l.rescanLocked() // hosts that wait on disk are looked for, and this is none
				l.mu.Unlock()
				l.placing(addr1)
				if task := l.taking(time.Minute); task != nil {
					t.Errorf("%v: %s is to be crawled", role, task.URL)
				}
				idle := l.Idle(time.Minute)
				if s := l.Status(); !idle || s.Pending != 0 || s.Held != 200 {
					t.Errorf("%v: idle %v, %d pending, %d held", role, idle, s.Pending, s.Held)
				}
				l.stop()
				l = begin(t, dir, cfg, polite, Deps{})
			}
			l.placing(addr1)
			l.role(host, Owned)
			task := l.taking(rescanAfter / 2)
			if v := l.add(page(host, 1), page(host, 5000)); task == nil || !slices.Equal(v, []Verdict{Duplicate, Accepted}) {
				t.Fatalf("%v and back: at once comes %v; added with %v", role, task, v)
			}
			l.finish(task, Outcome{})
			if got, s := l.work(999), l.Status(); len(got) != 201 || s.Pending != 0 || s.Held != 0 || s.Done != 201 {
				t.Errorf("%v and back: %d of 201 pages downloaded: %+v", role, len(got), s.Totals)
			}
		})
	}
}

// A role waits until no task of the host is out. Meanwhile the host is owned, and takes the links of a page that ends on it.
func TestSetRoleWaitsForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		l := inMemory(t)(testConfig())
		l.placing(addr1)
		l.add(pages(host, 0, 10)...)
		l.finish(l.taking(time.Minute), Outcome{}) // robots.txt
		task := l.taking(time.Minute)
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.SetRole(short, host, Replica); !errors.Is(err, context.DeadlineExceeded) || len(l.frozen) > 0 {
			t.Errorf("role with a task out: %v, %d frozen", err, len(l.frozen))
		}
		l.roleIs(host, Owned, true)
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- l.SetRole(t.Context(), host, Leaving) }()
		}
		if synctest.Wait(); len(done) > 0 {
			t.Fatalf("the role came with a task out: %v", <-done)
		}
		if fin := l.finish(task, Outcome{Links: []Link{page(host, 77)}}); fin.Accepted != 1 {
			t.Errorf("finish: %+v", fin)
		}
		must(t, errors.Join(<-done, <-done))
		if d := l.digest(host); d.Accepted != 11 || d.Done != 1 {
			t.Errorf("after the last task: %+v", d)
		}
		if s := l.Status(); s.Held != 10 || s.Left != 10 || s.Pending != 0 || s.Accepted != s.Done+s.Left {
			t.Errorf("books do not balance: %+v", s.Totals)
		}
	})
}

// What is known of a host before its first URL counts, also while a fetcher waits for any URL.
func TestFirstURLOfAKnownHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const host = "http://h1.test"
		l := inMemory(t)(testConfig())
		l.imported(host, Chunk{State: &HostState{SinceRequest: -1, Wait: time.Minute}})
		l.role(host, Owned)
		l.placing(addr1)
		begun := time.Now()
		time.AfterFunc(time.Second, func() { l.add(page(host, 1)) })
		if task := l.taking(time.Hour); task == nil || time.Since(begun) < time.Minute {
			t.Errorf("%v comes after %v", task, time.Since(begun))
		}
		err := l.ledger.onHost(t.Context(), together, "http://h2.test", func(b *batch, h *hostEntry) error { // in one transaction
			return errors.Join(l.ledger.decideRole(b, h, Leaving), l.ledger.decideUnion(b, h, &union{}))
		})
		if l.roleIs("http://h2.test", Leaving, true); err != nil {
			t.Error(err)
		}
		cfg, polite := testConfig()
		cfg.Shared = true
		l = begin(t, "", cfg, polite, Deps{})
		l.placing(addr1)
		time.AfterFunc(time.Second, func() { l.add(page(host, 1)) })
		if task := l.taking(time.Minute); task != nil {
			t.Errorf("%v comes before anybody has said that its host may be crawled", task.URL)
		}
	})
}

// A host is not read from disk again before the end of its task is written.
func TestHostStaysUntilAllIsWritten(t *testing.T) {
	cfg, polite := testConfig()
	for _, frozen := range []bool{false, true} {
		w := newWorkbench(cfg, rules{Politeness: polite}, rand.New(rand.NewPCG(1, 1)))
		now := time.Unix(1_000_000, 0)
		h := w.enter("http://h1.test")
		h.reading, h.place, h.frozen, h.ending = false, unplaced, frozen, 1
		if w.settle(h, now); w.hosts["http://h1.test"] != h {
			t.Errorf("frozen %v: it has left with a write under way", frozen)
		}
		h.ending = 0
		if w.settle(h, now); w.hosts["http://h1.test"] != nil {
			t.Errorf("frozen %v: it has not left", frozen)
		}
	}
}

// What the news of a host change in memory. Of nothing else a host that is on disk is brought in, or kept away.
func TestNewsOfAHost(t *testing.T) {
	const host = "http://h1.test"
	offered := func(first, away bool) func(*Frontier, time.Time) {
		return func(f *Frontier, now time.Time) {
			f.offeredLocked(host, block{&blockRef{seq: 1, n: 1}, make([]entry, 1)}, first, away, now)
		}
	}
	becomes := func(r Role) func(*Frontier, time.Time) {
		return func(f *Frontier, now time.Time) { f.changedRoleLocked(host, r, now) }
	}
	dropped := func(f *Frontier, now time.Time) { f.droppedLocked(host, 1, now) }
	thawed := func(f *Frontier, now time.Time) {
		f.frozen[host] = &freezing{by: 1, over: make(chan struct{})}
		f.thaw(host)
	}
	none := func(*Frontier) {}
	isAway := func(f *Frontier) { f.away.add(host) }
	asked := func(frozen bool, p place) func(*Frontier) { // it is on the workbench and cannot leave yet
		return func(f *Frontier) {
			h := f.bench.enter(host)
			h.reading, h.place, h.frozen, h.inFlight = false, p, frozen, 1
		}
	}
	for what, c := range map[string]struct {
		before func(*Frontier)
		news   func(*Frontier, time.Time)
		then   string
	}{
		"its first URL":             {none, offered(true, false), "here"},
		"another URL":               {none, offered(false, false), "candidate"},
		"a URL for another node":    {none, offered(true, true), ""},
		"a URL and it is blocked":   {func(f *Frontier) { f.deps.Blocked = func(string) string { return "blocked" } }, offered(true, false), "candidate"},
		"a URL and it is frozen":    {func(f *Frontier) { f.frozen[host] = &freezing{} }, offered(true, false), "candidate"},
		"a URL and no room":         {func(f *Frontier) { f.cfg.FrontHosts = 0 }, offered(true, false), "candidate"},
		"a URL and nobody waits":    {func(f *Frontier) { f.waiters.pop() }, offered(true, false), "candidate"},
		"a URL where it is":         {asked(false, unplaced), offered(false, false), "here"},
		"owned":                     {isAway, becomes(Owned), "candidate again"},
		"owned where it leaves":     {asked(true, unplaced), becomes(Owned), "here frozen scan again"},
		"owned where it is read":    {asked(false, loading), becomes(Owned), "here scan again"},
		"owned where it is":         {asked(false, unplaced), becomes(Owned), "here again"},
		"a replica":                 {none, becomes(Replica), "away"},
		"a replica where it is":     {asked(false, unplaced), becomes(Replica), "here frozen away"},
		"given up where it is":      {func(f *Frontier) { asked(false, unplaced)(f); f.bench.hosts[host].inFlight = 0 }, dropped, ""},
		"given up and read":         {func(f *Frontier) { asked(false, unplaced)(f); f.bench.hosts[host].reading = true }, dropped, "here"},
		"thawed":                    {none, thawed, "candidate again"},
		"thawed where it is":        {asked(true, unplaced), thawed, "here"},
		"thawed for another":        {isAway, thawed, "away"},
		"thawed for another, is on": {func(f *Frontier) { isAway(f); asked(true, unplaced)(f) }, thawed, "here frozen away"},
	} {
		cfg, polite := testConfig()
		cfg.Recrawl.Enabled = true
		f := opened(t, cfg, polite)
		f.waiters.push(&waiter[*Task]{gone: true})
		f.scan, f.bench.recrawl.over = false, true
		c.before(f)
		c.news(f, time.Now())
		var then []string
		h := f.bench.hosts[host]
		for _, is := range []struct {
			word string
			so   bool
		}{{"here", h != nil}, {"frozen", h != nil && h.frozen}, {"candidate", len(f.candidates) > 0}, {"away", f.away.has(host)},
			{"scan", f.scan}, {"again", !f.bench.recrawl.over}} {
			if is.so {
				then = append(then, is.word)
			}
		}
		if got := strings.Join(then, " "); got != c.then {
			t.Errorf("%s: then it is %q, want %q", what, got, c.then)
		}
	}
}

// A URL that was forgotten with its host, and is found again, has the depth at which it is found then.
func TestDepthAfterADrop(t *testing.T) {
	const host = "http://h1.test"
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.TrackDepth = true
		l := crawling(t, "", cfg, polite)
		found := func(depth uint8) {
			link := page(host, 2)
			link.Depth = depth
			l.add(link)
		}
		l.add(page(host, 1))
		found(5)
		l.finish(l.taking(time.Minute), Outcome{Asked: true, Robots: &RobotsOutcome{Lifetime: time.Hour}})
		out := l.taking(time.Minute)
		found(2)
		must(t, second(l.DropHost(t.Context(), host, "test")))
		found(4)
		l.finish(out, Outcome{})
		if task := l.taking(time.Minute); task == nil || task.Depth != 4 {
			t.Errorf("it comes as %+v", task)
		}
	})
}

// A pause that a server asks for goes with its host to other nodes. That this node cannot reach it does not: another one may.
func TestWaitsThatGoAlong(t *testing.T) {
	for what, c := range map[string]struct {
		out  Outcome
		goes bool
	}{
		"a busy server":    {Outcome{Ending: Again, Trouble: Busy, RetryAfter: time.Hour}, true},
		"one out of reach": {Outcome{Ending: Again, Trouble: Unreachable, Reason: "no route"}, false},
		"one that answers": {Outcome{}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg, polite := testConfig()
			l := crawling(t, "", cfg, polite)
			l.add(pages("http://h.test", 0, 3)...)
			l.finish(l.taking(time.Minute), Outcome{}) // robots.txt
			l.finish(l.taking(time.Minute), c.out)
			s, err := l.StateOf(t.Context(), "http://h.test")
			if err != nil || s.Wait > 0 != c.goes {
				t.Errorf("%s: a wait of %v, %v", what, s.Wait, err)
			}
		})
	}
}
