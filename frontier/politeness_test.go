package frontier

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func testRules() rules {
	p := DefaultPoliteness()
	p.Own, p.OwnGap, p.OwnParallel = []string{"10.1.0.0/16"}, time.Millisecond, 4
	prefixes, _ := p.own()
	return rules{Politeness: p, prefixes: prefixes}
}

func TestGapIsTheLargest(t *testing.T) {
	r := testRules() // 2 s at least, twice the download, that at most a minute
	foreign, own, loaded := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("192.0.2.2")
	r.spacing = map[netip.Addr]float64{loaded: 4}
	for _, c := range []struct {
		name                string
		addr                netip.Addr
		crawlDelay, elapsed time.Duration
		want                time.Duration
	}{
		{"minimum", foreign, 0, 100 * time.Millisecond, 2 * time.Second},
		{"slow server", foreign, 0, 5 * time.Second, 10 * time.Second},
		{"slowness is bounded", foreign, 0, time.Hour, time.Minute},
		{"crawl-delay", foreign, 50 * time.Second, 10 * time.Second, 50 * time.Second},
		{"a long crawl-delay, which its host waits for", foreign, 90 * time.Second, 10 * time.Second, time.Minute},
		{"overloaded", loaded, 0, 0, 8 * time.Second},
		{"overloaded, bounded", loaded, 20 * time.Second, 0, time.Minute},
		{"overloaded, and a long crawl-delay", loaded, 90 * time.Second, 0, time.Minute},
		{"one's own", own, time.Hour, time.Hour, time.Millisecond},
	} {
		if got := r.gap(nil, c.addr, c.crawlDelay, c.elapsed); got != c.want {
			t.Errorf("%s: gap %v, want %v", c.name, got, c.want)
		}
	}
	for addr, waits := range map[netip.Addr]bool{foreign: true, loaded: true, own: false, FileServer("file"): false} {
		if r.hostGap(nil, addr, longestRest) != 0 || r.hostGap(nil, addr, time.Hour) != 0 != waits {
			t.Errorf("hosts at %s wait %v and %v", addr, r.hostGap(nil, addr, longestRest), r.hostGap(nil, addr, time.Hour))
		}
	}
	if r.parallel(foreign) != 1 || r.parallel(own) != 4 {
		t.Errorf("in parallel: %d and %d, want 1 and 4", r.parallel(foreign), r.parallel(own))
	}
}

func TestBackoffDoublesWithinBounds(t *testing.T) {
	r := testRules()
	rnd := rand.New(rand.NewPCG(1, 1))
	for level := uint8(1); level < 70; level++ {
		base := r.BackoffMax
		if level < 8 {
			base = min(base, r.BackoffMin<<(level-1))
		}
		seen := map[time.Duration]bool{}
		for range 100 {
			got := r.backoff(level, rnd)
			if got < base*3/4 || got > base*5/4 {
				t.Fatalf("level %d: waits %v, base %v", level, got, base)
			}
			seen[got] = true
		}
		if len(seen) < 50 {
			t.Errorf("level %d: %d different waits of 100: hosts come back together", level, len(seen))
		}
	}
	if day := r.pause(100 * time.Hour); day != r.MaxRetryAfter || r.pause(10*time.Hour) != 10*time.Hour {
		t.Errorf("waits %v for a Retry-After of 100h", day)
	}
	for i, wait := range []*time.Duration{&r.MaxRetryAfter, &r.BackoffMax, &r.EndedFor, &r.RetryConnect[0], &r.RetryName[1], &r.RetryPage[2]} {
		if *wait = time.Duration(i+100) * time.Hour; r.longest() != *wait*5/4 {
			t.Errorf("wait %d: the longest is %v, want %v", i, r.longest(), *wait*5/4)
		}
	}
}

// An overloaded server is asked more slowly until it is not any more.
func TestSpacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		slow := &Site{Gap: new(time.Duration)}
		*slow.Gap = 7 * time.Second
		l := begin(t, "", cfg, polite, Deps{Site: func(host string) *Site { return map[string]*Site{"http://h2.test": slow}[host] }})
		if got := l.Gap("http://h2.test", addr1, 0, 0); got != *slow.Gap {
			t.Errorf("the gap of a site is %v", got)
		}
		gap := func(want time.Duration) {
			t.Helper()
			if got := l.Gap("http://h1.test", addr1, 0, 0); got != want {
				t.Errorf("the gap is %v, want %v", got, want)
			}
		}
		gap(time.Second)
		l.SetSpacing(addr1, 3)
		gap(3 * time.Second)
		l.SetSpacing(addr1, 1)
		if gap(time.Second); len(l.bench.rules.spacing) > 0 {
			t.Error("what is as usual is kept")
		}
		l.placing(addr1)
		l.add(page("http://h1.test", 1))
		l.finish(l.taking(time.Minute), Outcome{Robots: &RobotsOutcome{Lifetime: time.Hour, CrawlDelay: 9 * time.Second}})
		gap(9 * time.Second)
		if at, none := l.HostsAt(addr1), l.HostsAt(addr1.Next()); l.OwnServer(addr1) || !slices.Equal(at, []string{"http://h1.test"}) || none != nil {
			t.Errorf("another's server is one's own, or serves %v, and one that is not known %v", at, none)
		}
		l.finish(l.taking(time.Minute), Outcome{})
	})
}

// A host that is read from disk has a server of its own, at an address that is never dialled.
func TestFileServer(t *testing.T) {
	a, b := FileServer("file://a"), FileServer("file://b")
	discard := netip.MustParsePrefix("100::/64")
	if !discard.Contains(a) || !discard.Contains(b) || a == b || a != FileServer("file://a") || !isFileServer(a) ||
		a.As16()[15] == 0 && b.As16()[15] == 0 {
		t.Errorf("%v and %v", a, b)
	}
	for _, other := range []string{"100:0:0:1::1", "101::1", "192.0.2.1", "200::"} {
		if isFileServer(netip.MustParseAddr(other)) {
			t.Errorf("%s is one", other)
		}
	}
	r := testRules()
	if gap := r.gap(nil, a, time.Hour, time.Hour); gap != 0 {
		t.Errorf("its gap is %v", gap)
	}
	hour := time.Hour
	if gap := r.gap(&Site{Gap: &hour}, netip.MustParseAddr("10.1.2.3"), 0, 0); gap != hour {
		t.Errorf("the gap of a site is %v, though the server is one's own", gap)
	}
}

// After a restart each server is left alone for its gap, because the life before may have asked it just before its end.
func TestGapAfterARestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		polite.MinGap = 10 * time.Second
		l := crawling(t, dir, cfg, polite)
		l.add(page("http://h1.test", 1))
		if l.taking(time.Minute) == nil {
			t.Fatal("nothing comes")
		}
		l.stop()
		l = crawling(t, dir, cfg, polite)
		begun := time.Now()
		if task := l.taking(time.Minute); task == nil || time.Since(begun) < polite.MinGap {
			t.Errorf("%v comes %v after the restart", task, time.Since(begun))
		}
		l.stop()
	})
}

// A long Crawl-delay holds up its own host, and no other of its server: not after a restart either. The crawl is not idle meanwhile.
func TestLongCrawlDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const slow, quick, n = "http://slow.test", "http://quick.test", 50
		dir := t.TempDir()
		cfg, polite := testConfig()
		begun, last, asked := time.Now(), time.Time{}, map[string]int{}
		crawl := func(until time.Duration) {
			l := crawling(t, dir, cfg, polite)
			defer l.stop()
			l.add(append(pages(slow, 0, 4), pages(quick, 0, n)...)...)
			for time.Since(begun) < until && asked[slow] < 5 {
				task := l.taking(5*time.Minute + 1)
				if task == nil {
					if l.Idle(10 * time.Second) {
						t.Errorf("idle after %v", time.Since(begun))
					}
					if s := l.Explain(slow); s.Wait != "gap" {
						t.Errorf("it waits as %q: %s", s.Wait, s.Sentence)
					}
					continue
				}
				out := Outcome{}
				if task.Host == slow {
					if wait := time.Since(last); !last.IsZero() && wait < time.Hour {
						t.Errorf("asked for %s after %v", task.URL, wait)
					}
					if task.Kind == Robots {
						out.Robots = &RobotsOutcome{Lifetime: 24 * time.Hour, CrawlDelay: time.Hour}
					}
				}
				time.Sleep(time.Second)
				l.finish(task, out)
				if asked[task.Host]++; task.Host == slow {
					last = time.Now()
				}
			}
		}
		crawl(30 * time.Minute)
		if asked[quick] != n+1 || asked[slow] != 1 {
			t.Errorf("after half an hour: %v", asked)
		}
		crawl(6 * time.Hour)
		if asked[slow] != 5 {
			t.Errorf("after %v: %v", time.Since(begun), asked)
		}
	})
}
