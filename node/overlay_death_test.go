package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"proxima/node"
)

// square are four nodes far apart, and one beside each of them for sites.
func square() []point { return []point{{0, 0, 1}, {100, 0, 1}, {0, 100, 1}, {100, 100, 1}} }

func beside(p point) point { return point{p.x + 2, p.y + 2, 1} }

// owned waits until a node alone has downloaded some pages of a site in a row, and returns when.
func (b *bed) owned(site string, by, pages int, most time.Duration) time.Time {
	b.t.Helper()
	b.await(site+" at "+b.name(by), most, func() bool {
		all := b.pagesOf(site)
		if len(all) < pages {
			return false
		}
		for _, v := range all[len(all)-pages:] {
			if v.From != b.name(by) {
				return false
			}
		}
		return true
	})
	return time.Now()
}

// crawledBy makes a site for each home, and starts all nodes. It waits until one of them owns all sites, and the last one has settled.
func (b *bed) crawledBy(owner int) {
	b.t.Helper()
	for home := range b.nodes {
		b.site(b.homed(home), address(home), beside(b.nodes[owner].at), 150, 5000)
	}
	b.startAll(80 * time.Second)
	for _, s := range b.sites {
		b.owned(s, owner, 10, 10*time.Minute)
	}
	b.await("the last node settled", time.Minute, func() bool { return b.since(time.Now()) > 160*time.Second })
}

// goesOn returns the first page of a site that was asked for after a time.
func (b *bed) goesOn(site string, after time.Time) Visit {
	b.t.Helper()
	all := b.pagesOf(site)
	i := slices.IndexFunc(all, func(v Visit) bool { return v.Start.After(after) })
	if i < 0 {
		b.t.Fatalf("%s was finished too early for the test", site)
	}
	return all[i]
}

// TestOverlayOneAddress: two hosts on one address end at one node, whatever their homes, and take turns.
func TestOverlayOneAddress(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		var twins []string
		for home := range 3 {
			twins = append(twins, b.homed(home))
			b.site(twins[home], address(0), beside(b.nodes[3].at), 80, 5000)
		}
		b.startAll(80 * time.Second)
		b.await("all at one node", 5*time.Minute, func() bool {
			return !slices.ContainsFunc(twins, func(s string) bool {
				n := b.by(s, time.Now().Add(-time.Minute))
				return len(n) != 1 || n[b.name(3)] == 0
			})
		})
		t.Logf("all at one node after %v", b.since(time.Now()))
		b.awaitEnd(30 * time.Minute)
		b.complete(80, false) // the judge looks at the turns
	})
}

// TestOverlayOwnerDies: the hosts of an owner that is killed move to others, and are finished there.
func TestOverlayOwnerDies(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		b.crawledBy(2)
		b.kill(2)
		died := time.Now()
		b.awaitEnd(30 * time.Minute)
		again := b.complete(150, true)
		for _, s := range b.sites {
			v := b.goesOn(s, died)
			t.Logf("%s goes on at %s %v after the death", s, v.From, v.Start.Sub(died))
			if d := v.Start.Sub(died); d > 3*time.Minute {
				t.Errorf("%s goes on at %s only %v after the death", s, v.From, d)
			}
		}
		t.Logf("%d pages came again", again)
		// What was under way when it died, and what it had not told the second copy yet: a second at four servers.
		if again > 2*len(b.sites) {
			t.Errorf("%d pages came again", again)
		}
	})
}

// TestOverlayHomeDies: the hosts of a home that is killed go on at their owners as if nothing had happened.
func TestOverlayHomeDies(t *testing.T) {
	inBed(t, square(), func(b *bed) {
		for i := range 3 {
			b.site(b.homed(0), address(i), beside(b.nodes[i+1].at), 150, 5000)
		}
		b.startAll(80 * time.Second)
		for i, s := range b.sites {
			b.owned(s, i+1, 10, 10*time.Minute)
		}
		b.kill(0)
		died := time.Now()
		b.awaitEnd(30 * time.Minute)
		if again := b.complete(150, true); again > 1 { // the dead home may have been at work on an estimate
			t.Errorf("%d pages came again", again)
		}
		for _, s := range b.sites {
			longest := b.longestPause(s, died)
			t.Logf("%s: longest pause %v, %v", s, longest, b.by(s, died))
			if longest > 90*time.Second {
				t.Errorf("%s paused for %v when its home died", s, longest)
			}
		}
	})
}

// TestOverlayEstimatorDies: a node is killed while it downloads a page for a home, or while its answer is on the way. That page comes
// again, once at most, and none of its links is lost.
func TestOverlayEstimatorDies(t *testing.T) {
	for _, answering := range []bool{false, true} {
		t.Run(fmt.Sprintf("answering %v", answering), func(t *testing.T) {
			inBed(t, square(), func(b *bed) {
				b.cfg = func(_ int, c *node.Config) { c.Scope.SeedScope = "any" }
				const n = 60
				site, at := b.homed(0), beside(b.nodes[1].at)
				b.site(site, address(0), at, n, 1000)
				other := b.homed(2)
				b.site(other, address(1), at, 0, 1000)
				from, to := b.Site(site, address(0)).Took(200*time.Millisecond).Pages(n), b.Site(other, address(1)).Page("/")
				for _, path := range numbered(n) { // each is found on one page only
					from.Page(path, "http://"+other+path)
					to.Page(path)
				}
				b.startAll(80 * time.Second)
				var under Visit
				for end := time.Now().Add(10 * time.Minute); under.From == ""; time.Sleep(2 * time.Millisecond) {
					if time.Now().After(end) {
						b.t.Fatal("no estimate")
					}
					all := b.pagesOf(site)
					if len(all) == 0 || all[len(all)-1].From != b.name(1) {
						continue
					}
					v := all[len(all)-1]
					if answered := !v.End.IsZero(); answered == answering && (!answered || time.Since(v.End) > b.nodes[1].at.trip(at)/2) {
						under = v
					}
				}
				b.kill(1)
				b.awaitEnd(30 * time.Minute)
				b.complete(n, true)
				for page, times := range b.got() {
					if times > 2 || times > 1 && page != under.Site+under.Path {
						t.Errorf("%s came %d times; %s was under way", page, times, under.URL())
					}
				}
				t.Logf("%s was under way, and came %d times", under.URL(), b.got()[under.Site+under.Path])
			})
		})
	}
}

// TestOverlayAskerDies: a node is killed at some step of a page that another one downloads for it, and is back at once. Only pages that were
// under way, or had been answered in the last second, come again, once.
func TestOverlayAskerDies(t *testing.T) {
	for _, ms := range []int{0, 100, 250, 400, 700, 1300, 2500} { // since the request; the answer takes 0.2 s
		t.Run(fmt.Sprint(ms, " ms"), func(t *testing.T) {
			inBed(t, square(), func(b *bed) {
				const n = 60
				site := b.homed(0)
				b.site(site, address(0), beside(b.nodes[1].at), n, 1000)
				b.Site(site, address(0)).Took(200 * time.Millisecond).Pages(n)
				b.startAll(80 * time.Second)
				var asked Visit
				for end := time.Now().Add(10 * time.Minute); asked.From == ""; time.Sleep(2 * time.Millisecond) {
					if time.Now().After(end) {
						b.t.Fatal("no estimate")
					}
					if all := b.pagesOf(site); len(all) > 0 && all[len(all)-1].From == b.name(1) {
						asked = all[len(all)-1]
					}
				}
				time.Sleep(time.Duration(ms) * time.Millisecond)
				killed := time.Now()
				b.kill(0)
				b.start(0)
				b.awaitEnd(30 * time.Minute)
				again, seen := b.complete(n, true), map[string]Visit{}
				for _, v := range b.pagesOf(site) {
					first, came := seen[v.Path]
					if underWay := first.Start.Before(killed.Add(time.Second)) && first.End.After(killed.Add(-time.Second)); came && !underWay ||
						b.got()[v.Site+v.Path] > 2 {
						t.Errorf("%s came again after %v; %s was under way", v.URL(), v.Start.Sub(first.End), asked.URL())
					}
					seen[v.Path] = v
				}
				t.Logf("%s was under way, and %d pages came again", asked.URL(), again)
			})
		})
	}
}
