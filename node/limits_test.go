package node_test

import (
	"fmt"
	"testing"
	"time"

	"proxima/node"
	"proxima/node/placement"
)

// TestMaxPagesOf: each host or domain gives as many pages as are wanted of one, and what is left out is counted by its reason. A server of
// one's own is asked for many at once. A host gives no more pages because the node was started again.
func TestMaxPagesOf(t *testing.T) {
	host := func(w *trial) { w.cfg.Crawl.MaxHostPages = 8 }
	for _, c := range []struct {
		reason  string
		set     func(w *trial)
		before  int64 // pages in an earlier life
		want    int   // pages of two hosts of a domain, which have 21 and 4
		refused int64
	}{
		{"limit: 8 pages a host", host, 0, 12, 13},
		{"limit: 8 pages a host", host, 5, 12, 13},
		{"limit: 8 pages a host", func(w *trial) {
			host(w)
			w.cfg.Politeness.Own, w.cfg.Politeness.OwnParallel = []string{webPrefix}, 5
		}, 0, 12, 13},
		{"limit: 10 pages a domain", func(w *trial) { w.cfg.Crawl.MaxDomainPages = 10 }, 0, 10, 15},
	} {
		inBubble(t, func(w *trial) {
			a := w.Site("a.example.test", server1).Pages(20)
			b := w.Site("b.example.test", server2).Pages(3)
			other := w.Site("c.test", server3).Pages(5)
			c.set(w)
			urls := []string{"http://a.example.test/", "http://b.example.test/", "http://c.test/"}
			if w.cfg.Crawl.MaxPages = c.before; c.before > 0 {
				w.crawl(w.t.Context(), urls...)
				w.cfg.Crawl.MaxPages, urls = 0, nil
			}
			end, _ := w.run(urls...)
			got, others := len(pages(a.Visits()))+len(pages(b.Visits())), len(pages(other.Visits()))
			if got != c.want || others != 6 || end.Pages+c.before != int64(c.want+6) {
				t.Errorf("%s, after %d: %d and %d pages asked for, %d counted", c.reason, c.before, got, others, end.Pages)
			}
			w.dropped(end, c.reason, c.refused)
		})
	}
}

// TestMaxTime: the crawl ends in time, what is under way then is finished, and what is left stays pending.
func TestMaxTime(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(50).Took(3 * time.Second)
		w.cfg.Crawl.MaxTime = 20 * time.Second
		end, _ := w.crawl(w.t.Context(), "http://a.test/")
		n := len(pages(a.Visits()))
		if end.Reason != "max_time" || end.Elapsed < 20*time.Second || end.Elapsed > 24*time.Second || int(end.Pages) != n || end.Unfinished != int64(51-n) {
			t.Errorf("%q after %v: %d pages asked for, %d counted, %d unfinished", end.Reason, end.Elapsed, n, end.Pages, end.Unfinished)
		}
	})
}

// TestMaxBytes: no download begins after the last byte that is wanted.
func TestMaxBytes(t *testing.T) {
	inBubble(t, func(w *trial) {
		a := w.Site("a.test", server1).Pages(50)
		w.cfg.Crawl.MaxBytes = 1
		end, _ := w.crawl(w.t.Context(), "http://a.test/")
		if n := len(pages(a.Visits())); end.Reason != "max_bytes" || n > 1 || end.Bytes < 1 {
			t.Errorf("%q after %d pages and %d bytes", end.Reason, n, end.Bytes)
		}
	})
}

// TestMaxPagesWithFailures: a place that becomes no page is given to another, so that the number is exact with many fetchers, own
// servers, and pages that robots.txt forbids.
func TestMaxPagesWithFailures(t *testing.T) {
	inBubble(t, func(w *trial) {
		var all []*Site
		var urls []string
		for i := range 12 {
			name := fmt.Sprintf("h%d.test", i)
			s := w.Site(name, fmt.Sprintf("198.51.100.%d", i+1)).Pages(30)
			s.Robots("User-agent: *\nDisallow: /1\nDisallow: /2\n")
			all = append(all, s)
			urls = append(urls, "http://"+name+"/")
		}
		w.cfg.Crawl.MaxPages, w.cfg.Crawl.Fetchers = 100, 32
		end, _ := w.crawl(w.t.Context(), urls...)
		n := 0
		for _, s := range all {
			n += len(pages(s.Visits()))
		}
		if n != 100 || end.Pages != 100 || end.Reason != "max_pages" || end.Unfinished == 0 {
			t.Errorf("%d pages asked for, %d counted, %d unfinished, %q; want 100", n, end.Pages, end.Unfinished, end.Reason)
		}
	})
}

// TestUnreachableSeeds: where no seed is within reach, and waiting would hardly help, the crawl says so at once.
func TestUnreachableSeeds(t *testing.T) {
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1, server2).Page("/")
		w.Site("b.test", server3).Page("/")
		for _, s := range []string{server1, server2, server3} {
			w.Down(s, true)
		}
		end, _ := w.crawl(w.t.Context(), "http://a.test/", "http://b.test/x", "http://b.test/y")
		if end.Reason != "unreachable" || end.Elapsed > 10*time.Second || end.Unfinished != 3 || end.Rows["communication failure"] != 3 {
			t.Errorf("%q after %v, %d unfinished, %v", end.Reason, end.Elapsed, end.Unfinished, end.Rows)
		}
	})
	// One host within reach is enough to wait for the others.
	inBubble(t, func(w *trial) {
		w.Site("a.test", server1).Page("/")
		b := w.Site("b.test", server3).Page("/")
		w.Down(server3, true)
		time.AfterFunc(10*time.Second, func() { w.Down(server3, false) })
		end, _ := w.run("http://a.test/", "http://b.test/")
		if end.Reason != "idle" || b.Count("/") != 1 {
			t.Errorf("%q, requests %q", end.Reason, b.Paths())
		}
	})
}

// limited is an overlay with far more pages than it may ask for.
func limited(t *testing.T, limit func(*node.Config), test func(b *bed)) {
	inBed(t, square(), func(b *bed) {
		b.cfg = func(_ int, c *node.Config) { limit(c) }
		b.sitesBeside(12, 100, 1000)
		b.startAll(2 * time.Second)
		test(b)
	})
}

// endBy waits until all nodes have ended for a reason.
func (b *bed) endBy(want string) {
	b.t.Helper()
	b.await("the end", 2*time.Hour, b.ended)
	for i, n := range b.nodes {
		if !n.dead.Load() && n.end.Reason != want {
			b.t.Errorf("%s ended by %q", b.name(i), n.end.Reason)
		}
	}
}

// The nodes of an overlay together ask for exactly as many pages as the limit says, and all end.
func TestOverlayAsksForAsManyPagesAsTheLimit(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxPages = 400 }, func(b *bed) {
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n != 400 {
			t.Errorf("%d pages are asked for, not 400", n)
		}
	})
}

// A node that crashes may have asked for what it was given: that counts. Nobody asks for more pages than the limit, and nobody waits for ever.
// Half of what is left stays with the keeper at each grant, so two crashes cost no more than half of all.
func TestOverlayKeepsItsLimitWhenNodesDie(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxPages = 600 }, func(b *bed) {
		for _, step := range []struct {
			pages, node int
			back        bool
		}{{100, 0, true}, {200, 1, false}} {
			b.awaitPages(step.pages)
			if b.kill(step.node); step.back {
				b.start(step.node)
			}
		}
		b.endBy("max_pages")
		if n := len(pages(b.Visits(nil))); n > 600 || n < 300 {
			t.Errorf("%d pages are asked for, of 600", n)
		}
	})
}

// The overlay's bytes and time end the crawl at all nodes, those among them that have received little, or came late.
func TestOverlayEndsByBytesAndTime(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxBytes = 200_000 }, func(b *bed) {
		b.endBy("max_bytes")
		var sum int64
		for _, n := range b.nodes {
			sum += n.end.Bytes
		}
		if sum < 200_000 || sum > 300_000 {
			t.Errorf("%d bytes were received, of 200,000", sum)
		}
	})
	limited(t, func(c *node.Config) { c.Crawl.MaxTime = 2 * time.Minute }, func(b *bed) {
		b.awaitPages(10)
		b.kill(2)
		b.start(2)
		b.endBy("max_time")
		if took := time.Since(b.began); took < 2*time.Minute || took > 3*time.Minute {
			t.Errorf("the crawl took %v, not 2 minutes", took)
		}
	})
	limited(t, func(c *node.Config) { c.Crawl.MaxTime = 2 * time.Minute }, func(b *bed) {
		b.part([]int{2}, true)
		b.await("the end, also of a node that is cut off", 5*time.Minute, b.ended)
		b.endBy("max_time")
	})
}

// What may be asked for at one host counts wherever the host goes.
func TestOverlayKeepsTheLimitOfAHost(t *testing.T) {
	limited(t, func(c *node.Config) { c.Crawl.MaxHostPages = 40 }, func(b *bed) {
		for i := range 3 {
			b.awaitPages(60 * (i + 1))
			b.kill(i)
			b.start(i)
		}
		b.awaitEnd(3 * time.Hour)
		for _, site := range b.sites {
			asked := map[string]bool{} // pages that a node had asked for just before it died are asked for again
			for _, v := range b.pagesOf(site) {
				asked[v.Path] = true
			}
			if n := len(asked); n < 40 || n > 42 {
				t.Errorf("%d pages of %s are asked for, not 40", n, site)
			}
		}
	})
}

// TestOverlayLimitWithoutRoom: the nodes that can write share all pages although one cannot, whether that one keeps the book or not.
func TestOverlayLimitWithoutRoom(t *testing.T) {
	for full := range 3 {
		t.Run(fmt.Sprint(full), func(t *testing.T) {
			withoutRoom(t, full, func(c *node.Config) { c.Crawl.MaxPages, c.Batch.Mode = 200, placement.ModeCrawl }, func(b *bed) {
				name := b.homed((full + 1) % 3)
				b.site(name, address(0), beside(b.nodes[0].at), 300, 1000)
				b.seeds = func(i int) []string {
					if i == full && full == 0 {
						return nil // it would own the host, as the first of all nodes
					}
					return []string{"http://" + name + "/"}
				}
				b.startAll(time.Second)
				b.await("all pages", 15*time.Minute, func() bool { return len(b.pagesOf(name)) == 200 })
				time.Sleep(time.Minute)
				if n := len(b.pagesOf(name)); n != 200 {
					t.Errorf("%d pages are asked for", n)
				}
			})
		})
	}
}
