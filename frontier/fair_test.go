package frontier

import (
	"context"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A host that waits on disk comes in though each page brings new hosts, so that there are always candidates.
func TestOldHostsComeInWhileTheCrawlGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := ownServers(testConfig())
		l := crawling(t, "", cfg, polite)
		l.add(site(maxCandidates, 1)...)
		l.add(page("http://0.test", 1)) // it is no candidate
		ctx, came := context.WithCancel(t.Context())
		defer came()
		n := 0
		l.crawl(ctx, maxCandidates+500, func(task *Task) Outcome {
			if n++; task.Host == "http://0.test" {
				came()
			}
			return Outcome{Ending: Done, Asked: true, Links: []Link{page(fmt.Sprintf("http://a%d.test", n), 1), page(fmt.Sprintf("http://b%d.test", n), 1)}}
		})
		if ctx.Err() == nil {
			t.Errorf("after %d pages of other hosts it still waits", n)
		}
	})
}

// Hosts at one server do not fill the workbench: others come in within minutes, though their names come last.
func TestCrowdAtOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := testConfig()
		cfg.FrontHosts = 100
		polite.MinGap, polite.Factor = 2*time.Second, 0
		l := begin(t, "", cfg, polite, Deps{})
		go l.resolve(t.Context(), func(name string) []netip.Addr {
			addr := addr1
			if n := 0; strings.HasPrefix(name, "z") {
				fmt.Sscanf(name, "z%d.test", &n)
				addr = netip.AddrFrom4([4]byte{198, 51, 100, byte(n)})
			}
			return []netip.Addr{addr}
		})
		var links []Link
		for i := range 400 {
			links = append(links, pages(fmt.Sprintf("http://h%d.test", i), 0, 20)...)
		}
		const apart = 20
		for i := range apart {
			links = append(links, pages(fmt.Sprintf("http://z%d.test", i), 0, 5)...)
		}
		l.add(links...)
		begun, left, crowd := time.Now(), 5*apart, map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Hour)
		defer cancel()
		l.crawl(ctx, math.MaxInt, func(task *Task) Outcome {
			if !strings.HasPrefix(task.URL.Name(), "z") {
				crowd[task.Host]++
			} else if left--; left == 0 {
				cancel()
			}
			return Outcome{Ending: Done, Asked: true}
		})
		t.Logf("%d pages left after %v; pages of %d hosts of the crowd came", left, time.Since(begun), len(crowd))
		if left > 0 || time.Since(begun) > time.Hour {
			t.Errorf("%d pages at servers of their own are left after %v", left, time.Since(begun))
		}
	})
}

// Pages that wait for the budget of visits do not fill the workbench.
func TestSpentBudgetLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		cfg.FrontHosts, cfg.Recrawl.Budget, cfg.Recrawl.Share = 10, 24, 0.5
		l := crawling(t, "", cfg, polite)
		l.add(site(20, 3)...)
		l.visit(60, func(*Task) Outcome { return asSeen(1) })
		time.Sleep(3 * time.Hour)
		l.visit(10, func(*Task) Outcome { return asSeen(1) }) // until the budget is spent
		begun := time.Now()
		l.add(pages("http://new.test", 0, 3)...)
		got := l.visit(1, func(*Task) Outcome { return asSeen(1) })
		for len(got) > 0 && !strings.Contains(got[0], "new.test") && time.Since(begun) < 24*time.Hour {
			time.Sleep(time.Minute)
			got = l.visit(1, func(*Task) Outcome { return asSeen(1) })
		}
		if took := time.Since(begun); took > 10*time.Minute || len(got) == 0 {
			t.Errorf("a new page waits for %v, %q", took, got)
		}
	})
}

// Due pages get their share of the draws though the workbench is more than half full of hosts with new pages.
func TestDuePagesComeInBesideManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, polite := recrawlConfig()
		cfg.FrontHosts = 6
		l := visitedOnce(t, cfg, polite, 50)
		time.Sleep(2 * time.Hour)
		for i := range 4 {
			l.add(pages(fmt.Sprintf("http://n%d.test", i), 0, 200)...)
			must(t, l.Activate(t.Context(), fmt.Sprintf("http://n%d.test", i)))
		}
		revisits := 0
		l.visit(200, func(task *Task) Outcome {
			time.Sleep(time.Second) // pages come in meanwhile
			if task.Page != nil {
				revisits++
			}
			return asSeen(1)
		})
		if revisits < 25 {
			t.Errorf("%d of 200 visits were of the 50 pages that are due", revisits)
		}
	})
}
